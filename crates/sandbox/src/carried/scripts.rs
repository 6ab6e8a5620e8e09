//! What runs at the far side: shell scripts, for whatever `sh` is there.

use std::collections::BTreeMap;

/// Ends every process whose environment has the mark, over and over until there is none.
///
/// Two looks in a row that find nobody are certain when no process but their own began meanwhile, as the kernel's last
/// process id tells, and nobody is without an environment, as a process is that is about to become another program or is
/// dying. One look would not do: a child that was on its way when it began is not seen, and its parent may be gone before
/// its turn comes; but a child that is on its way for a whole look has a parent all that time.
/// Where many calls run at once, processes begin all the time: five looks that find nobody are enough for a command that
/// has ended by itself, or the looks of all calls would keep each other from an end.
/// Whole process groups go at once, since a group cannot fork its way out of a signal. A program that still
/// forks its way out, always in a new session, is met by stopping everybody (in a container, not on a whole
/// machine) for as long as the looks take; only one sweep at a time may do that, or two could stop each other.
/// A `hard` sweep, which ends what would not end by itself, begins with that where many processes want to run:
/// it might otherwise not get its turn.
///
/// A `hard` sweep also leaves a sign for the script of its call, which may be on its way still: see [`WRAP`].
pub(super) const SWEEP: &str = r#"cs_ground=/dev/shm
[ -w $cs_ground ] || cs_ground=/tmp
cs_ended=$cs_ground/.codegen-sandbox-ended-
too_late() { [ -e "$cs_ended$1" ] || [ -e "$cs_ended${1%-*}-" ]; }
look() {
  state=Z group=0 size=1
  read -r stat <"/proc/$1/stat" && stat=${stat##*) } && set -- $stat && state=$1 group=$3 size=${21}
}
living() {
  dead=1 dying=no
  for file; do
    file=${file#/proc/}
    look "${file%/environ}"
    [ "$state" != Z ] && [ "$state" != X ] || continue
    dead=0
    [ "$size" != 0 ] || dying=yes
  done
  return $dead
}
stop() {
  lock=$cs_ground/.codegen-sandbox-sweep waited=0
  until mkdir $lock || [ $waited -ge 60 ]; do waited=$((waited + 1)); sleep 0.05; done
  kill -STOP -1
}
go_on() {
  # Whom this has killed may have been stopping others.
  [ -z "$lock$targets" ] || [ "$second" = kthreadd ] || kill -CONT -1
  [ -z "$lock" ] || rmdir $lock
  lock=
}
sweep() {
  [ "$2" != hard ] || true >"$cs_ended$1"
  quiet=0 hits=0 waits=0 sure=no elusive=no lock= targets=
  look $$
  mine=$group
  read -r second </proc/2/comm
  read -r one two three four five </proc/loadavg
  [ "$2" != hard ] || [ "${four%/*}" -lt 16 ] || elusive=yes
  while [ $quiet -lt 25 ]; do
    if [ $hits -ge 3 ] || [ $elusive = yes ]; then [ -n "$lock" ] || [ "$second" = kthreadd ] || stop; fi
    read -r one two three four before </proc/loadavg
    found=$(grep -lszF "CODEGEN_SANDBOX_CALL=$1" /proc/[0-9]*/environ)
    blank=$(grep -Ls '' /proc/[0-9]*/environ)
    read -r one two three four after </proc/loadavg
    targets=
    for file in $found; do
      pid=${file#/proc/}
      pid=${pid%/environ}
      [ "$pid" != $$ ] || continue
      look "$pid" || elusive=yes
      targets="$targets $pid"
      [ "$group" -le 1 ] || [ "$group" = "$mine" ] || targets="$targets -$group"
    done
    [ ${#targets} -lt 200 ] || elusive=yes
    [ -z "$targets" ] || kill -9 $targets
    quiet=$((quiet + 1))
    if [ -n "$targets" ]; then
      go_on
      quiet=0 sure=no hits=$((hits + 1))
    elif living $blank; then
      go_on
      sure=no
      # Who is dying without memory already gets there, but not before its turn on a busy machine.
      [ $dying = no ] || [ "$second" = kthreadd ] || [ $waits -ge 500 ] || { waits=$((waits + 1)); quiet=0; }
      sleep 0.01
    elif [ $sure = yes ] && [ $((after - since)) = 4 ]; then
      break
    elif [ $((after - before)) = 2 ]; then
      sure=yes since=$before
    else
      go_on
      sure=no
      [ "$2" = hard ] || [ $quiet -lt 5 ] || break
    fi
  done
  go_on
} 2>/dev/null
"#;

/// `mark`: sweeps, and says so: a client may end well though its connection broke off before.
pub(super) fn ending() -> String {
    format!("{SWEEP}sweep \"$1\" hard\necho {SWEPT}")
}

/// The last word of whoever was sent to end something.
pub(super) const SWEPT: &str = "swept";

/// `mark mode cwd name command args…`. On stdin come lines: the variables of the command, see [`header`], and an empty
/// one; then, once the script has said `ready`, one with a key for its last word and the kind of the command's own stdin:
/// what follows, of which there is an end (`whole`) or none to wait for (`open`), or nothing (`closed`).
///
/// Without that key nothing is begun, so whoever has not sent it may leave this script to its fate and send another. That
/// the variables have come and `ready` gets out shows before that the connection carries both ways; of those that are made
/// on busy nodes some do not, and neither end is told. Nor is the end of stdin sure to come, so a command without a stdin
/// does not wait for it.
///
/// The script's own environment has the mark from its first moment, so that a sweep ends it too; the programs that it
/// sweeps with do not. A sweep that was here before it has left a sign.
///
/// A terminal would show what it is sent, so the script says when that is turned off and the lines may come.
///
/// Variables go to the command by `export`, which nobody sees; as words of `env` only those whose names a shell could not
/// export, or would take for something of its own. What the script needs itself has names that a container's variables
/// do not have.
pub(super) const WRAP: &str = r#"unset CODEGEN_SANDBOX_CALL
cs_mark=$1 cs_mode=$2 cs_cwd=$3 cs_name=$4 cs_path=$PATH cs_header= cs_saved=
shift 4
sign() { printf '\036%s %s\036' "$cs_mark" "$1"; }
unbegun() { sign unbegun; exit 125; }
say() {
  printf '\036%s %s\n' "$cs_key" "$1" >&2
  [ "$cs_mode" != separate ] || printf '\036%s %s\n' "$cs_key" "$1"
}
! too_late "$cs_mark" || unbegun
case $cs_mode in
terminal:*)
  cs_size=${cs_mode#terminal:}
  stty rows "${cs_size%:*}" cols "${cs_size#*:}" 2>/dev/null
  cs_saved=$(stty -g 2>/dev/null)
  stty -echo -icanon min 1 time 0 2>/dev/null
  sign quiet ;;
esac
while read -r cs_line || unbegun; do
  case $cs_line in
  '') break ;;
  PATH=*) cs_path=$(printf '%b' "${cs_line#PATH=}") ;;
  esac
  cs_header="$cs_header $cs_line"
done
sign ready
read -r cs_key cs_stdin || unbegun
[ -z "$cs_saved" ] || stty "$cs_saved" 2>/dev/null
# Not before: in pods stdin was seen to end with the stderr that this closes.
[ "$cs_mode" != merged ] || exec 2>&1
sign begins
if [ -n "$cs_cwd" ]; then cd "$cs_cwd" 2>/dev/null || { say cwd; exit 126; }; fi
run() {
  set -f
  CODEGEN_SANDBOX_CALL=$cs_mark
  export CODEGEN_SANDBOX_CALL
  for cs_line in $cs_header; do
    cs_entry=$(printf '%b.' "$cs_line")
    cs_entry=${cs_entry%.}
    case ${cs_entry%%=*} in
    '' | [0-9]* | *[!A-Za-z0-9_]* | _ | cs_* | PATH | LD_* | IFS | PS? | *PWD | LANG* | LC_* | OPT* | *UID | PPID | GROUPS \
      | LINENO | *RANDOM | SECONDS | EPOCH* | SHLVL | SHELLOPTS | POSIXLY_CORRECT | BASH* | DIRSTACK | FUNCNAME | PIPESTATUS \
      | HIST* | COMP_*) set -- "$cs_entry" "$@" ;;
    *) export "$cs_entry" ;;
    esac
  done
  exec env "$@"
}
if [ "$cs_stdin" = closed ]; then (run "$@" </dev/null); else (run "$@"); fi
code=$?
sweep "$cs_mark"
if [ $code = 127 ] && ! (PATH=$cs_path; command -v "$cs_name") >/dev/null 2>&1; then say missing; else say $code; fi
# A client may not end before all of its stdin is taken. Where nothing is sent, the end comes when the last word was heard:
# of what is still to be fetched after the script's end a pod was seen to lose some.
[ "$cs_stdin" = open ] || cat >/dev/null
exit $code
"#;

/// Variables as the lines that [`WRAP`] takes, each in the form of `printf %b`.
pub(super) fn header<'a>(env: impl Iterator<Item = (&'a str, String)>) -> Vec<u8> {
    // Of two for one name the last holds.
    let env: BTreeMap<&str, String> = env.collect();
    let mut lines = Vec::new();
    for (key, value) in &env {
        for byte in format!("{key}={value}").into_bytes() {
            match byte {
                b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'_' | b'=' | b'/' | b'.' | b':' | b'-' => {
                    lines.push(byte)
                }
                other => lines.extend(format!("\\0{other:03o}").into_bytes()),
            }
        }
        lines.push(b'\n');
    }
    lines.push(b'\n');
    lines
}

/// Says that it is there; calls `over` when its stdin closes, or brings no line for the time of eight ticks (a machine
/// that is lost closes nothing).
///
/// Ticks and lines come through one pipe, so one who was stopped itself has missed nothing when it goes on; and where no
/// process can be started there are no ticks, which ends nobody.
const WATCH: &str = r#"echo
exec 3<&0
watch() {
  {
    { while read -r line; do echo beat; done <&3; echo end; } &
    while sleep 2 && echo tick; do :; done
  } 2>/dev/null | {
    ticks=0
    while [ $ticks -lt 8 ] && read -r word && [ $word != end ]; do
      ticks=$((ticks + 1))
      [ $word = tick ] || ticks=0
    done
    over "$1"
  }
}
"#;

/// `mark`: watches, then ends everything of the sandbox. And once more, since what a client was asking for when it was
/// killed may begin a little later.
///
/// An engine without a process of its own makes everybody here a descendant of the client, who would end with it; an
/// orphan belongs to the container.
const SWEEPER: &str = r#"over() {
  sweep "$1" hard
  sleep 2
  sweep "$1" hard
  rm -f "$cs_ended$1"*
}
(watch "$1" &) | cat >/dev/null
"#;

/// Watches as the first process of a container, then ends that: by everybody else's end, or, where another process is the
/// first one or the container shares the process ids of others, by its own.
const KEEPER: &str = r#"over() { if [ $$ = 1 ]; then kill -9 -1; else kill -9 $$; fi; }
watch
"#;

/// The script that guards a place which is there already.
pub(super) fn guard() -> String {
    format!("{SWEEP}{WATCH}{SWEEPER}")
}

/// The script that is a container, for as long as somebody wants it.
pub(super) fn keeper() -> String {
    format!("{WATCH}{KEEPER}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_become_lines_of_harmless_characters() {
        let env = [("B", "2"), ("A", "1 \n\u{e9}\\"), ("B", "3")].map(|(key, value)| (key, value.to_owned()));
        let lines = String::from_utf8(header(env.into_iter())).unwrap();
        assert_eq!(lines, "A=1\\0040\\0012\\0303\\0251\\0134\nB=3\n\n");
    }
}
