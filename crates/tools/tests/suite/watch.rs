//! watch_process and watch_process_events over real processes.

use crate::support::{Bench, Client, SECRET, after, until};
use serde_json::{Value, json};

async fn watch(client: &Client, args: Value) -> String {
    let text = client.ok("watch_process", args).await;
    after(&text, "shell_id: ").to_owned()
}

/// Events without their times.
async fn events(client: &Client, id: &str, since: u64) -> Vec<String> {
    let text = client.ok("watch_process_events", json!({"shell_id": id, "since_event_id": since})).await;
    text.lines()
        .map(|line| match line.split_once(' ') {
            Some((number, rest)) if number.starts_with('[') => {
                let (time, rest) = rest.split_once("  ").unwrap();
                time.parse::<jiff::Timestamp>().unwrap();
                format!("{number} {rest}")
            }
            _ => line.to_owned(),
        })
        .collect()
}

async fn until_exited(client: &Client, id: &str) -> Vec<String> {
    until(async || {
        let events = events(client, id, 0).await;
        events.iter().any(|event| event.contains("exited")).then_some(events)
    })
    .await
}

#[tokio::test]
async fn a_process_is_watched_to_its_end() {
    let bench = Bench::new();
    let client = bench.client();
    let command = "echo starting; echo 'Server listening on 3000'; echo 'Error: on stdout'; \
                   printf '\\033[31mError: it broke\\033[0m\\n' >&2; echo 'Fatal: no' >&2; echo fine >&2; exit 3";
    let id = watch(&client, json!({"command": command, "ready_pattern": "listening on \\d+"})).await;
    let mut events = until_exited(&client, &id).await;
    // The two streams come in any order.
    let mut middle: Vec<String> =
        events.drain(1..events.len() - 1).map(|event| event.split_once(' ').unwrap().1.to_owned()).collect();
    middle.sort();
    assert_eq!(events, ["[1] started", "[5] exited  exit=3"]);
    assert_eq!(
        middle,
        ["error (matched \"^Error:\")  Error: it broke", "error (matched \"^Fatal:\")  Fatal: no", "ready"]
    );
    let output = client.ok("BashOutput", json!({"shell_id": id})).await;
    assert!(output.contains("status: completed (exit 3)") && output.contains("fine\n"), "{output}");
}

#[tokio::test]
async fn events_are_facts_too_and_can_be_read_on() {
    let bench = Bench::new();
    let client = bench.client();
    let args = json!({"command": "echo 'oops 1' >&2; exit 1", "error_patterns": ["^oops (\\d)"]});
    let id = watch(&client, args).await;
    until_exited(&client, &id).await;
    assert_eq!(events(&client, &id, 2).await, ["[3] exited  exit=1"]);
    assert_eq!(events(&client, &id, 3).await, ["no events after 3"]);
    let reply = client.call("watch_process_events", json!({"shell_id": id, "since_event_id": 1})).await;
    let facts = reply.structured.unwrap();
    assert_eq!(facts["events"][0]["kind"], "error");
    assert_eq!(facts["events"][0]["matched"], "^oops (\\d)");
    assert_eq!(facts["events"][0]["line"], "oops 1");
    assert_eq!(facts["events"][1]["exit"], 1);
    assert_eq!(facts["dropped"], 0);
}

/// The next line could be the rest of a secret in base64, and the line waits for it in the output.
#[tokio::test]
async fn a_line_is_told_when_it_comes_whatever_may_follow() {
    let bench = Bench::new();
    let client = bench.client();
    let path = "/var/lib/postgresql/data/pg_wal/archive_status";
    let command = format!("echo 'up at {path}'; echo 'Error: cannot open {path}' >&2; sleep 1000");
    let id = watch(&client, json!({"command": command, "ready_pattern": "^up at .*status$"})).await;
    let events = until(async || {
        let events = events(&client, &id, 0).await;
        (events.len() == 3).then_some(events)
    })
    .await;
    let error = format!("error (matched \"^Error:\")  Error: cannot open {path}");
    assert!(events.iter().any(|event| event.ends_with(&error)), "{events:?}");
    assert!(events.iter().any(|event| event.ends_with(" ready")), "{events:?}");
    client.ok("KillShell", json!({"shell_id": id})).await;
    assert_eq!(until_exited(&client, &id).await.len(), 4, "each once");
}

#[tokio::test]
async fn silence_is_an_event() {
    let bench = Bench::new();
    let client = bench.client();
    let args = json!({"command": "echo up; sleep 1000", "idle_timeout_seconds": 1, "error_patterns": []});
    let id = watch(&client, args).await;
    let events = until(async || {
        let events = events(&client, &id, 0).await;
        (events.len() == 2).then_some(events)
    })
    .await;
    assert_eq!(events, ["[1] started", "[2] idle_timeout"]);
    assert_eq!(client.ok("KillShell", json!({"shell_id": id})).await, format!("killed: {id}"));
    assert_eq!(until_exited(&client, &id).await[2], "[3] exited  exit=137");
}

#[tokio::test]
async fn a_flood_of_errors_is_bounded_announced_and_starves_nobody() {
    let bench = Bench::new();
    let client = bench.client();
    let id = watch(&client, json!({"command": "yes 'Error: again' >&2"})).await;
    let text = until(async || {
        let text = client.ok("watch_process_events", json!({"shell_id": id})).await;
        text.contains("events dropped; the latest 1024 are kept …").then_some(text)
    })
    .await;
    assert!(text.len() < 110 * 1024);
    assert_eq!(client.ok("Bash", json!({"command": "echo alive"})).await, "alive\n");
    assert_eq!(client.ok("KillShell", json!({"shell_id": id})).await, format!("killed: {id}"));
}

#[tokio::test]
async fn events_are_pushed_without_flooding_or_secrets() {
    let bench = Bench::new();
    let client = bench.client();
    let mut notices = client.session.notices();
    let command = format!("for i in $(seq 500); do echo 'Error: {SECRET}' >&2; done; exit 9");
    let id = watch(&client, json!({"command": command})).await;
    let mut seen = Vec::new();
    loop {
        let notice = notices.recv().await.unwrap();
        let last = notice.text.contains("exited");
        seen.push(notice);
        if last {
            break;
        }
    }
    assert!(seen.len() < 50, "{}", seen.len());
    assert!(seen[0].text.starts_with(&format!("{id} [1] ")) && seen[0].text.ends_with("started"), "{seen:?}");
    let [.., error, exited] = &seen[..] else { panic!("{seen:?}") };
    assert!(error.text.contains("[501] ") && exited.text.ends_with("exit=9"), "{seen:?}");
    assert!(
        seen.iter().any(|notice| notice.text.ends_with(" events before it were not pushed)")),
        "{seen:?}"
    );
    assert!(seen.iter().all(|notice| !notice.text.contains(SECRET)), "{seen:?}");
}

#[tokio::test]
async fn bad_calls_are_explained() {
    let bench = Bench::new();
    let client = bench.client();
    assert_eq!(
        client.err("watch_process", json!({"command": ""})).await,
        "watch_process: `command` is empty; say what to run"
    );
    let many: Vec<String> = (0..33).map(|n| n.to_string()).collect();
    assert_eq!(
        client.err("watch_process", json!({"command": "true", "error_patterns": many})).await,
        "watch_process: `error_patterns` takes at most 32 patterns, got 33"
    );
    assert_eq!(
        client.err("watch_process", json!({"command": "true", "idle_timeout_seconds": 3601})).await,
        "watch_process: `idle_timeout_seconds` must be 0 to 3600, got 3601"
    );
    let bad = client.err("watch_process", json!({"command": "true", "ready_pattern": "("})).await;
    assert!(bad.starts_with("watch_process: `ready_pattern` is no regular expression"), "{bad}");
    let text = client.ok("Bash", json!({"command": "sleep 1000", "run_in_background": true})).await;
    let id = after(&text, "shell_id: ");
    assert_eq!(
        client.err("watch_process_events", json!({"shell_id": id})).await,
        format!("{id} was started by Bash and has no events\nread it with BashOutput(shell_id=\"{id}\")")
    );
    assert!(
        client.err("watch_process_events", json!({"shell_id": "sh7"})).await.contains("unknown shell_id")
    );
}

#[tokio::test]
async fn a_watched_process_gets_secrets_that_its_events_do_not_show() {
    let bench = Bench::new();
    let client = bench.client();
    let command = "[ \"${#TOKEN}\" = 28 ] && echo \"Error: $TOKEN\" >&2";
    let id = watch(&client, json!({"command": command, "secrets": ["TOKEN"]})).await;
    let events = until_exited(&client, &id).await;
    assert_eq!(events[1], "[2] error (matched \"^Error:\")  Error: [REDACTED:secret:TOKEN]");
    let unknown = client.err("watch_process", json!({"command": "true", "secrets": ["NONE"]})).await;
    assert!(unknown.contains("unknown secret \"NONE\""), "{unknown}");
}
