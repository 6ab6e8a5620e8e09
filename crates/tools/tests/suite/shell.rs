//! Bash, BashOutput and KillShell over real processes.

use crate::support::{Bench, Client, SECRET, Setup, after, until, watched};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

async fn bash(client: &Client, command: &str) -> String {
    client.ok("Bash", json!({"command": command})).await
}

async fn start(client: &Client, command: &str) -> String {
    let text = client.ok("Bash", json!({"command": command, "run_in_background": true})).await;
    after(&text, "shell_id: ").to_owned()
}

async fn read(client: &Client, id: &str, since: Value) -> String {
    client.ok("BashOutput", json!({"shell_id": id, "since": since})).await
}

/// Reads a shell until its reply has `wanted` in it.
async fn read_until(client: &Client, id: &str, wanted: &str) -> String {
    until(async || {
        let text = read(client, id, Value::Null).await;
        text.contains(wanted).then_some(text)
    })
    .await
}

#[tokio::test]
async fn output_comes_in_order_with_the_exit_code_if_it_is_not_0() {
    let bench = Bench::new();
    let client = bench.client();
    assert_eq!(bash(&client, "echo hello").await, "hello\n");
    assert_eq!(bash(&client, "true").await, "");
    assert_eq!(bash(&client, "exit 3").await, "exit: 3");
    assert_eq!(bash(&client, "printf partial; exit 1").await, "partial\nexit: 1");
    assert_eq!(bash(&client, "kill -SEGV $$").await, "exit: 139");
    assert_eq!(bash(&client, "no-such-program 2>/dev/null").await, "exit: 127");
    let mixed = "for i in 1 2 3 4 5; do echo out$i; echo err$i >&2; done";
    assert_eq!(bash(&client, mixed).await, "out1\nerr1\nout2\nerr2\nout3\nerr3\nout4\nerr4\nout5\nerr5\n");
}

#[tokio::test]
async fn it_runs_at_the_root_without_anybody_to_ask() {
    let bench = Bench::new();
    let client = bench.client();
    bench.write("sub/file.txt", "here\n");
    assert_eq!(bash(&client, "pwd; cat sub/file.txt").await, format!("{}\nhere\n", bench.root().display()));
    assert_eq!(bash(&client, "cat; read x; echo \"got $?\"").await, "got 1\n");
    assert_eq!(
        bash(&client, "test -t 0 || test -t 1 || test -t 2 || echo no terminal").await,
        "no terminal\n"
    );
    assert_eq!(bash(&client, "echo $TERM; : </dev/tty").await.lines().next(), Some("dumb"));
    assert_eq!(bash(&client, "test -n \"$PATH\" && test -n \"$HOME\" && echo set").await, "set\n");
}

#[tokio::test]
async fn a_timeout_keeps_what_was_printed() {
    let bench = Bench::new();
    let args = json!({"command": "echo before; sleep 1000; echo after", "timeout": 1});
    let text = bench.client().ok("Bash", args).await;
    assert_eq!(text, "before\nbash: timed out after 1s\nexit: 124");
}

#[tokio::test]
async fn bad_arguments_are_explained() {
    let bench = Bench::new();
    let client = bench.client();
    assert_eq!(
        client.err("Bash", json!({"command": " "})).await,
        "Bash: `command` is empty; say what to run"
    );
    for timeout in [0, 601, 120_000] {
        assert_eq!(
            client.err("Bash", json!({"command": "true", "timeout": timeout})).await,
            format!(
                "Bash: `timeout` must be 1 to 600 seconds, got {timeout}\n\
                 set run_in_background for what takes longer"
            )
        );
    }
    assert_eq!(
        client.err("Bash", json!({"command": "true", "timeout": "1m"})).await,
        "Bash: `timeout` must be a whole number, got \"1m\""
    );
    for tool in ["BashOutput", "KillShell"] {
        assert_eq!(
            client.err(tool, json!({"shell_id": "sh9"})).await,
            "unknown shell_id \"sh9\"; known: none; Bash with run_in_background starts one"
        );
    }
    let id = start(&client, "sleep 1000").await;
    assert_eq!(
        client.err("BashOutput", json!({"shell_id": "x"})).await,
        format!("unknown shell_id \"x\"; known: {id}")
    );
    assert_eq!(
        client.err("BashOutput", json!({"shell_id": id, "since": "soon"})).await,
        "BashOutput: `since` must be a cursor, got \"soon\"\npass `next` of an earlier reply, like \"120:0\""
    );
    let other = bench.client();
    let foreign = other.err("BashOutput", json!({"shell_id": id})).await;
    assert!(foreign.starts_with(&format!("unknown shell_id \"{id}\"; known: none;")), "{foreign}");
}

#[tokio::test]
async fn what_a_terminal_would_swallow_is_not_shown() {
    let bench = Bench::new();
    let client = bench.client();
    assert_eq!(bash(&client, r"printf '\033[1;31mred\033[0m\033]0;title\007!\n'").await, "red!\n");
    assert_eq!(bash(&client, r"printf '10%%\r50%%\r100%%\ndone\r\n'").await, "100%\ndone\n");
    assert_eq!(bash(&client, r"printf 'a\377b\0c\n'").await, "a\u{fffd}b␀c\n");
}

#[tokio::test]
async fn secrets_stay_inside() {
    let bench = Bench::new();
    let client = bench.client();
    assert_eq!(bash(&client, &format!("echo {SECRET}")).await, "[REDACTED:secret:TOKEN]\n");
    let (a, b) = SECRET.split_at(9);
    let coloured = format!(r"printf '{a}\033[31m{b}\n'");
    assert_eq!(bash(&client, &coloured).await, "[REDACTED:secret:TOKEN]\n");
    let id = start(&client, &format!("printf {a}; sleep 0.2; echo {b}; echo {SECRET} >&2")).await;
    let text = read_until(&client, &id, "completed").await;
    assert!(!text.contains(SECRET), "{text}");
    assert_eq!(text.matches("[REDACTED:secret:TOKEN]\n").count(), 2, "{text}");
}

#[tokio::test]
async fn long_output_keeps_head_and_tail_and_the_rest_can_be_read() {
    let bench = Bench::new();
    let client = bench.client();
    let text = bash(&client, "seq 1 100000; exit 2").await;
    assert!(text.len() < 101 * 1024, "{}", text.len());
    assert!(text.starts_with("1\n2\n3\n") && text.ends_with("\n99999\n100000\nexit: 2"), "{}", &text[..99]);
    let gap = text.lines().find(|line| line.starts_with('…')).unwrap();
    assert_eq!(gap, "… 486495 bytes left out; BashOutput(shell_id=\"sh1\", since=\"51200\") reads on …");
    // Everything from there on, part by part.
    let (mut joined, mut since) = (text[..51200].to_owned(), "51200".to_owned());
    loop {
        let part = read(&client, "sh1", json!(since)).await;
        assert!(part.len() < 102 * 1024);
        assert!(part.starts_with("command: seq 1 100000; exit 2\nstatus: completed (exit 2)\nstarted: 20"));
        let body = part.split_once("bytes) ---\n").unwrap().1;
        let next = after(&part, "next: \"").to_owned();
        joined += body.split_once("\n… ").map_or(body, |(body, _)| body);
        if next == since || !body.contains(" bytes more") {
            break;
        }
        since = next;
    }
    let whole: String = (1..=100_000).map(|n| format!("{n}\n")).collect();
    assert_eq!(joined.len(), whole.len());
    assert!(joined == whole);
}

#[tokio::test]
async fn only_the_latest_long_outputs_are_kept() {
    let bench = Bench::new();
    let client = bench.client();
    for _ in 0..5 {
        bash(&client, "seq 1 30000").await;
    }
    assert_eq!(
        client.err("BashOutput", json!({"shell_id": "sh1"})).await,
        "unknown shell_id \"sh1\"; known: sh2, sh3, sh4, sh5"
    );
    assert!(read(&client, "sh2", Value::Null).await.contains("\n1\n2\n3\n"));
}

#[tokio::test]
async fn a_secret_across_the_cut_is_not_halved() {
    let bench = Bench::new();
    let client = bench.client();
    // The secret stands across the end of the head, and again across the start of the tail.
    let command = format!(
        "head -c 51190 /dev/zero | tr '\\0' x; printf {SECRET}; head -c 200000 /dev/zero | tr '\\0' y; \
         printf {SECRET}; head -c 51190 /dev/zero | tr '\\0' z"
    );
    let text = bash(&client, &command).await;
    let (a, b) = SECRET.split_at(10);
    assert!(!text.contains(a) && !text.contains(b), "half a secret is a leak");
    let part = read(&client, "sh1", json!("51200")).await;
    assert!(!part.contains(a) && !part.contains(b));
}

#[tokio::test]
async fn an_impatient_client_gets_what_there_is_and_comes_back() {
    let bench = Bench::new();
    let client = bench.client();
    let command = "echo one; echo x >> starts; until test -e go; do sleep 0.01; done; echo two; exit 5";
    let text = client.ok("Bash", json!({"command": command, "wait": 0.5})).await;
    assert!(text.starts_with("Bash still running; call Bash again with handle \"h1\""), "{text}");
    assert!(text.ends_with("\none\n"), "{text}");
    bench.write("go", "");
    let text = client.ok("Bash", json!({"command": command, "handle": "h1"})).await;
    assert_eq!(text, "one\ntwo\nexit: 5");
    assert_eq!(bash(&client, "cat starts").await, "x\n");
}

#[tokio::test]
async fn a_preview_is_short() {
    let bench = Bench::new();
    let client = bench.client();
    let text = client.ok("Bash", json!({"command": "seq 1 100000; sleep 1000", "wait": 1})).await;
    assert!(text.len() < 9 * 1024, "{}", text.len());
    assert!(text.contains("\n1\n2\n") && text.contains("99999\n100000\n"), "{text}");
}

#[tokio::test]
async fn a_long_command_gives_signs_of_life() {
    let bench = Bench::new();
    let (progress, seen) = watched();
    let args = json!({"command": "sleep 1.5"});
    bench.client().call_with("Bash", args, CancellationToken::new(), progress).await;
    assert_eq!(seen.lock().unwrap()[0].message, "running for 1 s");
}

#[tokio::test]
async fn a_background_shell_is_read_by_cursor() {
    let bench = Bench::new();
    let client = bench.client();
    let args = json!({
        "command": "echo out1; echo err1 >&2; until test -e go; do sleep 0.01; done; echo out2; exit 4",
        "description": "a little server",
        "run_in_background": true,
    });
    let started = client.ok("Bash", args).await;
    assert_eq!(started, "shell_id: sh1\nruns in the background; BashOutput reads it, KillShell ends it");
    let text = until(async || {
        let text = read(&client, "sh1", Value::Null).await;
        (text.contains("\nout1\n") && text.contains("\nerr1\n")).then_some(text)
    })
    .await;
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("command: echo out1;"), "{text}");
    assert_eq!(lines[1..3], ["description: a little server", "status: running"]);
    let time: jiff::Timestamp = lines[3].strip_prefix("started: ").unwrap().parse().unwrap();
    assert!(time.duration_until(jiff::Timestamp::now()).as_secs() < 60);
    assert_eq!(
        lines[4..],
        ["next: \"5:5\"", "--- stdout (5 bytes) ---", "out1", "--- stderr (5 bytes) ---", "err1"]
    );
    let nothing = read(&client, "sh1", json!("5:5")).await;
    assert!(
        nothing.ends_with("next: \"5:5\"\n--- stdout (0 bytes) ---\n--- stderr (0 bytes) ---\n"),
        "{nothing}"
    );
    bench.write("go", "");
    let text = until(async || {
        let text = read(&client, "sh1", json!("5:5")).await;
        text.contains("completed").then_some(text)
    })
    .await;
    assert!(text.contains("status: completed (exit 4)\n"), "{text}");
    assert!(
        text.ends_with("next: \"10:5\"\n--- stdout (5 bytes) ---\nout2\n--- stderr (0 bytes) ---\n"),
        "{text}"
    );
}

#[tokio::test]
async fn a_prompt_without_an_end_of_line_is_seen() {
    let bench = Bench::new();
    let client = bench.client();
    let id = start(&client, "printf 'Listening on 80'; sleep 1000").await;
    let text = read_until(&client, &id, "(15 bytes)").await;
    assert!(text.contains("next: \"0+15:0\"\n--- stdout (15 bytes) ---\nListening on 80\n"), "{text}");
    let text = client.ok("BashOutput", json!({"shell_id": id, "since": "0+15:0"})).await;
    assert!(
        text.ends_with("next: \"0+15:0\"\n--- stdout (0 bytes) ---\n--- stderr (0 bytes) ---\n"),
        "{text}"
    );
}

#[tokio::test]
async fn a_flood_in_the_background_is_bounded_and_says_so() {
    let bench = Bench::new();
    let client = bench.client();
    let id = start(&client, "seq 1 400000; echo end >&2").await;
    let text = read_until(&client, &id, "completed").await;
    assert!(
        text.contains("[TRUNCATED] stdout: 1640319 bytes of its middle are no longer kept"),
        "{}",
        &text[..300]
    );
    assert!(text.len() < 102 * 1024);
    assert!(text.contains("\n1\n2\n3\n") && text.contains("\n400000\n--- stderr (4 bytes) ---\nend\n"));
    let part = read(&client, &id, json!("60000:0")).await;
    assert!(part.contains("… 1640319 bytes are no longer kept …"), "{}", &part[..300]);
    assert!(part.contains(" bytes more: call again with `next` …"));
}

#[tokio::test]
async fn kill_shell_ends_it() {
    let bench = Bench::new();
    let client = bench.client();
    let id = start(&client, "echo up; sleep 1000").await;
    read_until(&client, &id, "up\n").await;
    let reply = client.call("KillShell", json!({"shell_id": id})).await;
    assert_eq!(reply.all_text(), format!("killed: {id}"));
    assert_eq!(reply.structured, Some(json!({"shell_id": id, "killed": true})));
    let text = read(&client, &id, Value::Null).await;
    assert!(text.contains("status: completed (exit 137)") && text.contains("\nup\n"), "{text}");
    let again = client.ok("KillShell", json!({"shell_id": id})).await;
    assert_eq!(again, format!("{id} had already ended"));
}

#[tokio::test]
async fn background_shells_are_limited() {
    let bench = Bench::new();
    let client = bench.client();
    for _ in 0..16 {
        start(&client, "sleep 1000").await;
    }
    let text = client.err("Bash", json!({"command": "sleep 1000", "run_in_background": true})).await;
    assert!(text.starts_with("too many background shells (limit 16); running: sh1, sh2,"), "{text}");
    assert!(text.ends_with("\nend one with KillShell"), "{text}");
    client.ok("KillShell", json!({"shell_id": "sh3"})).await;
    assert_eq!(start(&client, "sleep 1000").await, "sh17");
    // Those that come at the same time are counted, too.
    let other = bench.client();
    let command = json!({"command": "sleep 1000", "run_in_background": true});
    let replies = futures_util::future::join_all((0..40).map(|_| other.call("Bash", command.clone()))).await;
    assert_eq!(replies.iter().filter(|reply| !reply.is_error).count(), 16);
}

#[tokio::test]
async fn the_oldest_ended_shells_are_forgotten() {
    let bench = Bench::new();
    let client = bench.client();
    for _ in 0..18 {
        let id = start(&client, "echo done").await;
        read_until(&client, &id, "completed").await;
    }
    assert!(client.err("BashOutput", json!({"shell_id": "sh1"})).await.contains("unknown shell_id"));
    assert!(read(&client, "sh17", Value::Null).await.contains("done"));
}

#[tokio::test]
async fn bash_can_be_used_by_many_at_once() {
    let bench = Bench::new();
    let calls: Vec<_> = (0..24)
        .map(|n| {
            let client = bench.client();
            tokio::spawn(async move { bash(&client, &format!("echo {n}")).await })
        })
        .collect();
    for (n, call) in calls.into_iter().enumerate() {
        assert_eq!(call.await.unwrap(), format!("{n}\n"));
    }
}

/// Memory can be judged only in a process where nothing else happens.
#[test]
fn a_gigabyte_costs_no_memory() {
    let exe = std::env::current_exe().unwrap();
    let status = std::process::Command::new(exe)
        .args(["--exact", "shell::gigabyte_alone", "--ignored", "--nocapture"])
        .status()
        .unwrap();
    assert!(status.success());
}

#[tokio::test]
#[ignore = "run by a_gigabyte_costs_no_memory, in a process of its own"]
async fn gigabyte_alone() {
    let bench = Setup::default().limits(|limits| limits.kept_output = 4 << 20).bench();
    let client = bench.client();
    bash(&client, "seq 1 30000").await;
    let before = peak();
    let text = bash(&client, "yes 'all work and no play makes jack a dull boy' | head -c 1073741824").await;
    let id = start(&client, "yes 'the same in the background' | head -c 3145728").await;
    read_until(&client, &id, "completed").await;
    let grown = peak() - before;
    println!("peak memory grew by {} KiB", grown >> 10);
    assert!(grown < 16 << 20, "{grown}");
    assert!(text.len() < 101 * 1024);
    assert!(
        text.contains("… 1073639424 bytes left out; BashOutput(shell_id=\"sh2\""),
        "{}",
        &text[51200..51400]
    );
    assert!(text.contains("; the first 4194304 bytes are kept …"));
    let last = client.ok("BashOutput", json!({"shell_id": "sh2", "since": "4194300"})).await;
    assert!(last.contains("[TRUNCATED] the first 4194304 bytes are kept\n"), "{last}");
}

fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}
