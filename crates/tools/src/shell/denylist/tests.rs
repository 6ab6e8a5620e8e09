use proptest::prelude::*;

use super::*;

fn denied(command: &str) -> Option<String> {
    Denylist::default().check(command).err().map(|denied| denied.token)
}

#[test]
fn refused_wherever_a_command_stands() {
    for command in [
        "sudo ls",
        "a && sudo b",
        "a || sudo b",
        "a; sudo b",
        "a | sudo b",
        "a & sudo b",
        "! sudo b",
        "(sudo b)",
        "{ sudo b; }",
        "a\nsudo b",
        "$(sudo x)",
        "echo $(sudo x)",
        "echo \"a $(sudo x) b\"",
        "`sudo x`",
        "echo `sudo x`",
        "x=$(sudo x)",
        "export X=$(sudo x)",
        "diff <(sudo a) b",
        "tee >(sudo a)",
        "f() { sudo x; }; f",
        "function f { sudo x; }",
        "if sudo x; then y; fi",
        "if x; then sudo y; else z; fi",
        "if x; then y; else sudo z; fi",
        "while sudo x; do y; done",
        "until x; do sudo y; done",
        "for i in a b; do sudo $i; done",
        "for ((i=0;i<3;i++)); do sudo x; done",
        "case $x in a) sudo y;; esac",
        "select x in a; do sudo y; done",
        "[[ -n $(sudo x) ]] && y",
        "(( $(sudo x) + 1 ))",
        "cat <<EOF\n$(sudo x)\nEOF",
        "> out sudo x",
        "2>&1 sudo x",
        "X=1 Y=2 sudo x",
        "time sudo x",
        "coproc sudo x",
        "# comment\nsudo x",
        "s\\\nudo x",
    ] {
        assert_eq!(denied(command).as_deref(), Some("sudo"), "{command}");
    }
}

#[test]
fn refused_however_it_is_spelt() {
    for command in [
        "/usr/bin/sudo x",
        "../../bin/sudo x",
        "s\"u\"do x",
        "s'u'do x",
        "'sudo' x",
        "\"sudo\" x",
        "\\sudo x",
        "s\\udo x",
        "$'sudo' x",
        "$'\\x73udo' x",
        "$'\\163udo' x",
        "x=sudo; $x ls",
        "x=sudo\n${x} ls",
        "x='sudo ls'; $x",
        "x=(sudo ls); \"${x[@]}\"",
        "$(which sudo) ls",
        "\"$(command -v sudo)\" ls",
        "$(echo sudo) ls",
        "{sudo,ls}",
        "for x in sudo; do $x id; done",
        "for x in ls sudo; do $x id; done",
        "for x in s; do ${x}udo id; done",
        "select x in sudo; do $x id; done",
        "su${z}do id",
        "su$z\"do\" id",
        "${x:-sudo} id",
        "${x-sudo} id",
        "${x:=sudo} id",
        "x=1; ${x:+sudo} id",
        "\"${x:-${y:-sudo}}\" id",
        "x=sudo; ${x:-ls} id",
    ] {
        assert_eq!(denied(command).as_deref(), Some("sudo"), "{command}");
    }
}

#[test]
fn refused_behind_other_commands() {
    for command in [
        "env sudo x",
        "env -i X=1 sudo x",
        "env -u HOME -C /tmp sudo x",
        "env -S 'sudo x'",
        "env --split-string='sudo x'",
        "/usr/bin/env X=1 sudo x",
        "command sudo x",
        "command -p sudo x",
        "builtin command sudo x",
        "exec sudo x",
        "exec -a name sudo x",
        "nohup sudo x &",
        "nice sudo x",
        "nice -n 5 sudo x",
        "nice -5 sudo x",
        "time -p sudo x",
        "timeout 5 sudo x",
        "timeout -k 5 -s KILL 10 sudo x",
        "timeout --signal=KILL 10s sudo x",
        "setsid -w sudo x",
        "stdbuf -oL sudo x",
        "stdbuf -o L sudo x",
        "xargs sudo",
        "ls | xargs -n 1 -I {} sudo rm {}",
        "xargs -0 sudo rm",
        "strace -f -o out sudo x",
        "ionice -c 3 sudo x",
        "taskset 0x1 sudo x",
        "flock /tmp/l sudo x",
        "flock /tmp/l -c 'sudo x'",
        "script -q -c 'sudo x' out",
        "watch -n 1 sudo x",
        "watch 'sudo x'",
        "busybox sudo x",
        "nohup nice -n 3 env X=1 sudo x",
        "find . -name x -exec sudo rm {} \\;",
        "find . -execdir sudo rm {} +",
        "find . -exec true \\; -exec sudo rm {} ';'",
        "find . -exec sh -c 'sudo rm $1' _ {} \\;",
        "fd -x sudo rm",
        "eval sudo x",
        "eval \"sudo x\"",
        "eval 'a; sudo x'",
        "trap 'sudo x' EXIT",
        "alias ll='sudo ls'",
    ] {
        assert_eq!(denied(command).as_deref(), Some("sudo"), "{command}");
    }
}

#[test]
fn refused_inside_another_shell() {
    for command in [
        "bash -c 'sudo x'",
        "bash -c \"sudo x\"",
        "sh -c \"a && sudo x\"",
        "bash -lc 'sudo x'",
        "bash -x -e -o pipefail -c 'sudo x'",
        "bash --norc --rcfile f -c 'sudo x'",
        "/bin/bash -c 'sudo x'",
        "bash -c \"bash -c 'sudo x'\"",
        "bash -c \"bash -c \\\"sudo x\\\"\"",
        "bash -c 'cd a && '\"sudo x\"",
        "env bash -c 'sudo x'",
        "xargs sh -c 'sudo x'",
        "X=a; bash -c \"sudo $X\"",
        "bash <<EOF\nsudo x\nEOF",
        "bash <<'EOF'\na\nsudo x\nEOF",
        "bash -s <<-EOF\n\tsudo x\n\tEOF",
        "bash <<< 'sudo x'",
        "bash <<< \"sudo x\"",
        "cat <<EOF | bash\nsudo x\nEOF",
        "echo 'sudo x' | bash",
        "printf 'a\\nsudo x\\n' | sh -s",
        "echo 'sudo x' | bash /dev/stdin",
        "source /dev/stdin <<< \"sudo id\"",
        ". /dev/stdin <<< 'sudo id'",
        ". /dev/fd/0 <<EOF\nsudo x\nEOF",
        "source <(echo sudo id)",
        "bash <(echo sudo id)",
    ] {
        assert_eq!(denied(command).as_deref(), Some("sudo"), "{command}");
    }
}

#[test]
fn everything_on_the_list() {
    for (command, token) in [
        ("su -", "su"),
        ("shutdown now", "shutdown"),
        ("reboot", "reboot"),
        ("halt", "halt"),
        ("poweroff", "poweroff"),
        ("chroot /x ls", "chroot"),
        ("mount /dev/sda /x", "mount"),
        ("umount /x", "umount"),
        ("mkfs /dev/sda", "mkfs*"),
        ("mkfs.ext4 /dev/sda", "mkfs*"),
    ] {
        assert_eq!(denied(command).as_deref(), Some(token), "{command}");
    }
}

#[test]
fn words_that_are_no_commands_pass() {
    for command in [
        "",
        "   ",
        "echo \"don't sudo\"",
        "echo sudo",
        "echo 'sudo x; sudo y'",
        "grep sudo f",
        "grep -rn 'sudo\\|mount' .",
        "git commit -m \"sudo\"",
        "git commit -m 'use sudo; reboot'",
        "git commit -m \"$(cat <<'EOF'\nwhy\nsudo is bad\nEOF\n)\"",
        "cat <<EOF > f\nsudo x\nreboot\nEOF",
        "cat > install.sh <<'EOF'\n#!/bin/sh\nsudo make install\nEOF",
        "ls sudo su mount",
        "cat /etc/sudoers",
        "which sudo",
        "command -v sudo",
        "type sudo",
        "man mount",
        "./mount.sh",
        "sudoedit x",
        "submit",
        "su_x",
        "for x in sudo su; do echo $x; done",
        "for x in sudo su; do which $x; done",
        "source ./sudo",
        ". venv/bin/activate",
        "echo ${x:-sudo}",
        "${EDITOR:-vi} sudo",
        "bash -c \"$TOOL su\"",
        "x=ls; ${x:-sudo} f",
        "for tool in gcc clang; do $tool mount.c; done",
        "case $x in sudo) echo y;; esac",
        "[[ $x == sudo ]]",
        "x=sudo",
        "x=sudo; echo $x",
        "sudo=1",
        "env SUDO=1 ls sudo",
        "find . -name sudo",
        "find . -exec grep sudo {} \\;",
        "xargs grep sudo",
        "bash -c 'echo sudo'",
        "bash script.sh sudo",
        "python3 -c 'print(\"sudo\")'",
        "echo sudo | cat",
        "# sudo x",
        "ls # sudo x",
        "cargo test -- su",
        "docker ps --filter name=sudo",
        "awk '/mount/ { print $1 }' /proc/mounts",
        "sed -i 's/sudo //' f",
        "a=(sudo ls)",
        "time ls sudo",
        "timeout 5 echo sudo",
        "echo \"unterminated sudo",
        "nice",
        "env",
        "xargs",
        "bash",
        "bash -c",
    ] {
        assert_eq!(Denylist::default().check(command), Ok(()), "{command}");
    }
}

#[test]
fn what_does_not_parse_is_checked_word_by_word() {
    for command in [
        "if sudo x; then",
        "sudo x && (",
        "while true; do sudo x",
        "echo ); sudo x",
        "'; sudo x",
        "a | | sudo b",
    ] {
        assert_eq!(denied(command).as_deref(), Some("sudo"), "{command}");
    }
}

#[test]
fn operators_replace_the_list() {
    let list = Denylist::new(vec!["git push".into(), "rm*".into(), String::new()]);
    assert_eq!(list.check("sudo x"), Ok(()));
    assert_eq!(list.check("git pull"), Ok(()));
    assert_eq!(list.check("git push --force").err().map(|d| d.token).as_deref(), Some("git push"));
    assert_eq!(
        list.check("a && rmdir x").err().map(|d| (d.token, d.word)),
        Some(("rm*".into(), "rmdir".into()))
    );
    let paths = Denylist::new(vec!["/usr/bin/curl".into()]);
    for command in ["curl x", "/usr/bin/curl x", "/opt/bin/curl x"] {
        let denied = paths.check(command).unwrap_err();
        assert_eq!(denied.token, "/usr/bin/curl", "{command}");
    }
    assert_eq!(Denylist::new(Vec::new()).check("sudo x"), Ok(()));
}

#[test]
fn letters_of_any_script_are_letters() {
    // Each of these ended the process: the grammar's scanner looked up the second character in a table of 256.
    for command in ["echo {\u{10ffff}", "echo {1..\u{10ffff}}", "echo {😀..3}", "bash -c $'{\\U0010ffff'"] {
        assert_eq!(denied(command), None, "{command}");
    }
    assert_eq!(denied("echo {1..\u{10ffff}}; sudo é").as_deref(), Some("sudo"));
    assert_eq!(denied("/é/sudo x").as_deref(), Some("sudo"));
    let list = Denylist::new(vec!["löschen alles".into()]);
    assert_eq!(list.check("löschen nichts"), Ok(()));
    assert_eq!(list.check("löschen alles").err().map(|d| d.word).as_deref(), Some("l__schen"));
}

#[test]
fn the_refusal_names_the_token() {
    let denied = Denylist::default().check("/usr/bin/sudo x").expect_err("refused");
    assert!(
        denied.to_string().contains("`/usr/bin/sudo`") && denied.to_string().contains("`sudo`"),
        "{denied}"
    );
}

#[test]
fn words_within_words_and_values_that_double_end() {
    let deep = |inner: &str| format!("echo {}{inner}{}", "$(echo ".repeat(5000), ")".repeat(5000));
    assert_eq!(denied(&deep("x")), None);
    assert_eq!(denied(&deep("$(sudo x)")), Some("sudo".to_owned()));
    let doubled: String = (1..30).map(|n| format!("v{n}=\"$v{0}$v{0}\"; ", n - 1)).collect();
    let command = format!("v0=aaaaaaaaaaaaaaaa; {doubled}");
    assert_eq!(denied(&format!("{command} true")), None);
    assert_eq!(denied(&format!("{command} sudo x")), Some("sudo".to_owned()));
}

#[test]
fn deep_nesting_ends() {
    let deep = format!("{}sudo x{}", "$(".repeat(3000), ")".repeat(3000));
    assert!(denied(&deep).is_some());
    let shells = (0..12).fold("sudo x".to_owned(), |inner, _| format!("bash -c {inner:?}"));
    let _ = denied(&shells);
}

proptest! {
    #[test]
    fn never_panics(text in "\\PC{0,200}") {
        let _ = denied(&text);
    }

    #[test]
    fn never_panics_on_shell_like_text(parts in prop::collection::vec(prop::sample::select(vec![
        "sudo", " ", "\n", ";", "&&", "|", "$(", ")", "`", "\"", "'", "\\", "$'", "\\x7", "\\u", "é", "{", "}", "<<EOF", "EOF", "<<<",
        "bash -c", "env", "-S", "xargs", "find", "-exec", "x=", "$x", "${", "if", "then", "fi", "case", "in", "esac", "[[", "]]", "(", "#",
    ]), 0..40)) {
        let _ = denied(&parts.concat());
        let _ = denied(&parts.join(" "));
    }
}

proptest! {
    #[test]
    fn bare_words_are_judged_as_if_they_were_parsed(
        words in prop::collection::vec(prop::sample::select(vec![
            "sudo", "/usr/bin/sudo", "mkfs.ext4", "mount", "env", "-u", "X", "xargs", "-n", "2", "nice", "nohup",
            "timeout", "5", "time", "coproc", "if", "bash", "-c", "sh", "eval", "find", ".", "-exec", "+", "echo",
            "ls", "a.b,c:d@e%f", "export", "cd", "true",
        ]), 0..6)
    ) {
        let (text, list, left) = (words.join(" "), Denylist::default(), Cell::new(1 << 20));
        let script = Script { list: &list, depth: 0, left: &left };
        prop_assert_eq!(script.check(&text), script.check_parsed(&text), "{}", text);
    }
}
