//! What runs at the far side: shell scripts, for whatever `sh` is there.

/// Ends every process whose environment has the mark, over and over until there is none.
///
/// A look is certain when no process but its own began meanwhile, as the kernel's last process id tells, and
/// nobody is without an environment, as a process is that is about to become another program or is dying.
/// Whole process groups go at once, since a group cannot fork its way out of a signal. A program that still
/// forks its way out, always in a new session, is met by stopping everybody (in a container, not on a whole
/// machine) for as long as one look takes; only one sweep at a time may do that, or two could stop each other.
/// A `hard` sweep, which ends what would not end by itself, begins with that where many processes want to run:
/// it might otherwise not get its turn.
///
/// A `hard` sweep also leaves a sign for the script of its call, which may be on its way still: see [`WRAP`].
pub(super) const SWEEP: &str = r#"ground=/dev/shm
[ -w $ground ] || ground=/tmp
ended=$ground/.codegen-sandbox-ended-
too_late() { [ -e "$ended$1" ] || [ -e "$ended${1%-*}-" ]; }
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
  lock=$ground/.codegen-sandbox-sweep waited=0
  until mkdir $lock || [ $waited -ge 60 ]; do waited=$((waited + 1)); sleep 0.05; done
  kill -STOP -1
}
sweep() {
  [ "$2" != hard ] || true >"$ended$1"
  quiet=0 hits=0 waits=0 elusive=no lock=
  look $$
  mine=$group
  read -r second </proc/2/comm
  read -r one two three four five </proc/loadavg
  [ "$2" != hard ] || [ "${four%/*}" -lt 16 ] || elusive=yes
  while [ $quiet -lt 25 ]; do
    if [ $hits -ge 3 ] || [ $elusive = yes ]; then [ "$second" = kthreadd ] || stop; fi
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
    # Whom this has killed may have been stopping others.
    [ -z "$lock$targets" ] || [ "$second" = kthreadd ] || kill -CONT -1
    [ -z "$lock" ] || rmdir $lock
    lock= quiet=$((quiet + 1))
    if [ -n "$targets" ]; then
      quiet=0 hits=$((hits + 1))
    elif living $blank; then
      # Who is dying without memory already gets there, but not before its turn on a busy machine.
      [ $dying = no ] || [ "$second" = kthreadd ] || [ $waits -ge 500 ] || { waits=$((waits + 1)); quiet=0; }
      sleep 0.01
    elif [ $((after - before)) = 2 ]; then
      break
    fi
  done
} 2>/dev/null
"#;

/// Where the script is the first process, everybody goes with it.
pub(super) const NO_SWEEP: &str = "sweep() { :; }\ntoo_late() { false; }\n";

/// `mark mode cwd path name KEY=VALUE… command args…`, with more of KEY=VALUE in variables. The script's own environment
/// has the mark from its first moment, so that a sweep ends it too; the programs that it sweeps with do not. A sweep
/// that was here before it has left a sign.
pub(super) const WRAP: &str = r#"unset CODEGEN_SANDBOX_CALL
mark=$1 mode=$2 cwd=$3 path=$4 name=$5
shift 5
! too_late "$mark" || exit 125
hidden=0
while eval "[ -n \"\${CODEGEN_SANDBOX_ENV_$hidden+set}\" ]"; do
  eval "set -- \"\$CODEGEN_SANDBOX_ENV_$hidden\" \"\$@\""
  unset CODEGEN_SANDBOX_ENV_$hidden
  hidden=$((hidden + 1))
done
case $mode in
merged*) exec 2>&1 ;;
terminal:*) size=${mode#terminal:}; stty rows "${size%:*}" cols "${size#*:}" 2>/dev/null ;;
esac
say() { printf '\036%s %s\n' "$mark" "$1" >&2; }
if [ -n "$cwd" ]; then cd "$cwd" 2>/dev/null || { say cwd; exit 126; }; fi
command_and_last_word() {
  CODEGEN_SANDBOX_CALL=$mark env "$@"
  code=$?
  sweep "$mark"
  if [ $code = 127 ] && ! (PATH=${path:-$PATH}; command -v "$name") >/dev/null 2>&1; then say missing; else say $code; fi
}
case $mode in
collected:*|merged:*) ;;
*)
  command_and_last_word "$@"
  # A client may not end before all of its stdin is taken.
  [ $mode != collected ] || cat >/dev/null
  exit $code ;;
esac
# Its own container: the given number of bytes is the command's stdin, and whatever comes later is the end of the
# client, and so of the server.
bytes=${mode#*:}
exec 3<&0
if [ $$ = 1 ]; then
  { [ $bytes = 0 ] || head -c $bytes <&3; exec >&-; cat <&3 >/dev/null; kill -9 -1; } 2>/dev/null | {
    exec 3<&-
    command_and_last_word "$@"
    kill -9 -1
    exit $code
  }
else
  head -c $bytes <&3 | { exec 3<&-; command_and_last_word "$@"; exit $code; }
fi
"#;

/// Says that it is there; waits until its stdin closes, or brings no line for the time of eight ticks (a
/// machine that is lost closes nothing); then ends everything of the sandbox. And once more,
/// since what a client was asking for when it was killed may begin a little later.
///
/// Ticks and lines come through one pipe, so a guard that was stopped itself has missed nothing when it goes on; and
/// where no process can be started there are no ticks, which ends nobody.
pub(super) const GUARD: &str = r#"echo
exec 3<&0
guard() {
  {
    { while read -r line; do echo beat; done <&3; echo end; } &
    while sleep 2 && echo tick; do :; done
  } 2>/dev/null | {
    ticks=0
    while [ $ticks -lt 8 ] && read -r word && [ $word != end ]; do
      ticks=$((ticks + 1))
      [ $word = tick ] || ticks=0
    done
    sweep "$1" hard
    sleep 2
    sweep "$1" hard
    rm -f "$ended$1"*
  }
}
# An engine without a process of its own makes everybody here a descendant of the client, who would end with it; an
# orphan belongs to the container.
(guard "$1" &) | cat >/dev/null
"#;
