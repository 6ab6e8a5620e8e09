//! What every call goes through, whatever the tool.

use crate::{
    probes::{Drift, Echo, Fail, Gate, Hold, March},
    support::{Bench, SECRET, Setup, after, none, watched},
};
use serde_json::json;
use std::{sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;
use tools::{Access, Catalog};

fn setup(gate: &Gate) -> Setup {
    let catalog = Catalog::default()
        .with(Echo)
        .with(Fail)
        .with(Hold(gate.clone()))
        .with(March(gate.clone()))
        .with(Drift(gate.clone()));
    Setup { catalog, ..Setup::default() }
}

fn bench(gate: &Gate) -> Bench {
    setup(gate).bench()
}

#[tokio::test]
async fn bad_arguments_name_the_field_and_what_it_should_be() {
    let bench = bench(&Gate::default());
    let client = bench.client();
    assert_eq!(client.err("Echo", json!({"text": 3})).await, "Echo: `text` must be a string, got 3");
    assert_eq!(
        client.err("Echo", json!({"text": "a", "times": -1})).await,
        "Echo: `times` must be a whole number of at least 0, got -1"
    );
    assert_eq!(client.err("Echo", none()).await, "Echo: missing field `text`\nEcho takes: text, times");
    let unknown = client.err("Echo", json!({"text": "a", "txet": 1})).await;
    let mean = "Echo: unknown field `txet`; did you mean \"text\"?\nEcho takes: text, times";
    assert_eq!(unknown, mean);
    assert_eq!(
        client.err("Fail", json!({"how": "softly"})).await,
        "Fail: `how` must be one of \"caller\", \"fault\", \"panic\", \"panic_blocking\", got \"softly\""
    );
    assert_eq!(
        client.err("March", json!({"wait": "long"})).await,
        "March: `wait` must be a number of seconds, 0 to 86400, got \"long\""
    );
    assert_eq!(client.err("March", json!({"handle": 1})).await, "March: `handle` must be a string, got 1");
    let unknown = client.err("March", json!({"wiat": 1})).await;
    assert!(unknown.contains("did you mean \"wait\"?\nMarch takes: handle, "), "{unknown}");
    // An optional argument that is null was left out.
    let echoed = json!({"text": "a", "times": 2.0, "workspace": null});
    assert_eq!(client.ok("Echo", echoed).await, client.ok("Echo", json!({"text": "a", "times": 2})).await);
    // Only long tools take `wait`.
    assert!(client.err("Echo", json!({"text": "a", "wait": 1})).await.contains("unknown field `wait`"));
}

#[tokio::test]
async fn an_unknown_tool_names_the_known_ones() {
    let bench = bench(&Gate::default());
    assert_eq!(
        bench.client().err("Eco", none()).await,
        "unknown tool \"Eco\"; registered: Echo, Fail, Hold, March, Drift"
    );
}

#[tokio::test]
async fn a_read_only_session_cannot_change_things() {
    let bench = bench(&Gate::default());
    let client = bench.client_with(Access::ReadOnly);
    assert_eq!(
        client.err("Fail", json!({"how": "caller"})).await,
        "Fail changes things, and this session is read-only\ncall a tool that only reads, or ask for access that lets you write"
    );
    assert_eq!(client.ok("Echo", json!({"text": "a"})).await, "a");
}

#[tokio::test]
async fn a_read_only_server_has_no_tools_that_change_things() {
    let mut setup = setup(&Gate::default());
    setup.settings.readonly = true;
    let bench = setup.bench();
    let names: Vec<_> = bench.host.tools().listed().iter().map(|tool| tool.spec.name).collect();
    assert_eq!(names, ["Echo", "Hold", "March"]);
    let text = bench.client().err("Fail", json!({"how": "caller"})).await;
    assert_eq!(text, "unknown tool \"Fail\"; registered: Echo, Hold, March");
}

#[tokio::test]
async fn tools_can_be_chosen_by_group_and_name() {
    let names = |filter: &[&str]| {
        let mut setup = setup(&Gate::default());
        setup.settings.tools.0 = filter.iter().map(|entry| (*entry).to_owned()).collect();
        let bench = setup.bench();
        bench.host.tools().listed().iter().map(|tool| tool.spec.name).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names(&["Echo", "March"]), "Echo March");
    assert_eq!(names(&["-Echo"]), "Fail Hold March Drift");
    assert_eq!(names(&["state", "-Hold"]), "Echo Fail March Drift");
}

#[tokio::test]
async fn several_workspaces_must_be_told_apart() {
    let bench = Setup { workspaces: &["zeta", "alpha"], ..setup(&Gate::default()) }.bench();
    let client = bench.client();
    assert_eq!(
        client.err("Echo", json!({"text": "a"})).await,
        "multi-workspace sandbox: 2 workspaces configured (alpha, zeta) — pass `workspace` to pick one"
    );
    assert_eq!(
        client.err("Echo", json!({"text": "a", "workspace": "Alpha"})).await,
        "unknown workspace \"Alpha\"; configured: alpha, zeta"
    );
    assert_eq!(
        client.err("Echo", json!({"text": "a", "workspace": 1})).await,
        "Echo: `workspace` must be a string, got 1"
    );
    assert_eq!(client.ok("Echo", json!({"text": "a", "workspace": "zeta"})).await, "a");
    for tool in bench.host.tools().listed() {
        assert!(tool.input_schema["properties"].get("workspace").is_some(), "{}", tool.spec.name);
    }
}

#[tokio::test]
async fn one_workspace_needs_no_name_but_takes_it() {
    let bench = bench(&Gate::default());
    let client = bench.client();
    assert_eq!(client.ok("Echo", json!({"text": "a", "workspace": "default"})).await, "a");
    assert_eq!(
        client.err("Echo", json!({"text": "a", "workspace": "x"})).await,
        "unknown workspace \"x\"; configured: default"
    );
}

#[tokio::test]
async fn faults_and_panics_end_the_call_and_nothing_else() {
    let bench = bench(&Gate::default());
    let client = bench.client();
    for how in ["fault", "panic", "panic_blocking"] {
        let text = client.err("Fail", json!({"how": how})).await;
        assert!(text.starts_with("Fail: internal error E"), "{text}");
        assert!(!text.contains("fire") && !text.contains("bug"), "details stay in the log: {text}");
    }
    assert_eq!(client.ok("Echo", json!({"text": "still here"})).await, "still here");
}

#[tokio::test]
async fn no_secret_leaves_by_any_door() {
    let gate = Gate::default();
    let bench = bench(&gate);
    let client = bench.client();
    let reply = client.call("Echo", json!({"text": format!("it is {SECRET}.")})).await;
    assert_eq!(reply.all_text(), "it is [REDACTED:secret:TOKEN].");
    assert_eq!(reply.structured, Some(json!({"text": "it is [REDACTED:secret:TOKEN]."})));
    assert_eq!(client.err("Fail", json!({"how": "caller"})).await, "no [REDACTED:secret:TOKEN]\ntry another");
    // An argument error quotes what was given.
    assert!(!client.err("Fail", json!({"how": SECRET})).await.contains(SECRET));
    let (progress, seen) = watched();
    let args = json!({"say": SECRET, "wait": 0.01});
    let reply = client.call_with("March", args, CancellationToken::new(), progress).await;
    assert!(!reply.all_text().contains(SECRET), "{}", reply.all_text());
    assert!(reply.all_text().contains("so far: [REDACTED"), "{}", reply.all_text());
    assert_eq!(seen.lock().unwrap()[0].message, "half way [REDACTED:secret:TOKEN]");
}

#[tokio::test]
async fn a_reply_is_bounded_and_says_so() {
    let bench = bench(&Gate::default());
    let reply = bench.client().call("Echo", json!({"text": "0123456789", "times": 100_000})).await;
    let text = reply.all_text();
    assert!(text.len() < 420 * 1024, "{}", text.len());
    assert!(text.starts_with("0123456789") && text.contains("bytes left out"));
    assert!(
        text.ends_with("structured content (about 1000012 bytes) shortened"),
        "{}",
        &text[text.len() - 99..]
    );
    // Clients refuse an answer of a tool with an output schema that is not as it says.
    let structured = reply.structured.unwrap();
    let text = structured["text"].as_str().unwrap();
    assert!(text.len() < 400 * 1024 && text.contains("bytes left out"), "{}", text.len());
}

#[tokio::test]
async fn a_cancel_stops_the_work() {
    let gate = Gate::default();
    let bench = bench(&gate);
    let client = bench.client();
    for (count, tool) in [(1, "Hold"), (2, "March")] {
        let running = client.spawn(tool, none());
        gate.until_started(count).await;
        running.cancel.cancel();
        let reply = running.task.await.unwrap();
        assert!(reply.is_error);
        assert_eq!(reply.all_text(), format!("{tool}: cancelled"));
        gate.until_dropped(count).await;
    }
}

#[tokio::test]
async fn a_caller_that_goes_away_stops_the_work() {
    let gate = Gate::default();
    let bench = bench(&gate);
    let client = bench.client();
    for (count, tool) in [(1, "Hold"), (2, "March")] {
        let running = client.spawn(tool, none());
        gate.until_started(count).await;
        running.task.abort();
        gate.until_dropped(count).await;
    }
}

#[tokio::test]
async fn who_waits_no_longer_gets_a_handle_and_nothing_starts_twice() {
    let gate = Gate::default();
    let bench = bench(&gate);
    let client = bench.client();
    let text = client.ok("March", json!({"say": "A", "wait": 0.05})).await;
    assert_eq!(
        text,
        "March still running; call March again with handle \"h1\" to go on waiting\nhalf way A\nso far: A"
    );
    // Some clients insist on what the schema requires: the same arguments may come along again, others not.
    let again = client.ok("March", json!({"say": "A", "wait": 0, "handle": "h1"})).await;
    assert_eq!(again, text);
    assert_eq!(
        client.err("March", json!({"say": "B", "wait": 0, "handle": "h1"})).await,
        "March: `handle` goes on with the call it came from, so `say` would be ignored\n\
         leave out `say` to go on waiting, or `handle` to make another call"
    );
    let waiting = client.spawn("March", json!({"handle": "h1"}));
    tokio::task::yield_now().await;
    assert_eq!(
        client.err("March", json!({"handle": "h1"})).await,
        "another call already waits for handle \"h1\"\nlet that call end, or cancel it"
    );
    assert_eq!(gate.started(), 1);
    gate.open.notify_waiters();
    assert_eq!(waiting.task.await.unwrap().all_text(), "arrived A");
    assert_eq!(
        client.err("March", json!({"handle": "h1"})).await,
        "unknown handle \"h1\"; open handles: none\nleave out `handle` to make the call anew"
    );
    assert_eq!(gate.started(), 1);
}

#[tokio::test]
async fn a_result_waits_for_its_caller() {
    let gate = Gate::default();
    let bench = bench(&gate);
    let client = bench.client();
    client.ok("March", json!({"say": "A", "wait": 0.01})).await;
    gate.open.notify_waiters();
    gate.until_dropped(1).await;
    assert_eq!(client.ok("March", json!({"handle": "h1", "wait": 30})).await, "arrived A");
}

#[tokio::test]
async fn a_handle_is_good_for_its_tool_and_session_only() {
    let gate = Gate::default();
    let bench = bench(&gate);
    let client = bench.client();
    let text = client.ok("March", json!({"wait": 0.01})).await;
    let handle = after(&text, "handle \"");
    assert_eq!(
        client.err("Drift", json!({"handle": handle})).await,
        "handle \"h1\" belongs to March, not to Drift\ncall March with it"
    );
    let told = client.err("March", json!({"handle": "h7"})).await;
    assert!(told.starts_with("unknown handle \"h7\"; open handles: h1\n"), "{told}");
    let other = bench.client();
    assert_eq!(
        other.err("March", json!({"handle": handle})).await,
        "unknown handle \"h1\"; open handles: none\nleave out `handle` to make the call anew"
    );
    // Nothing of that harmed the call.
    gate.open.notify_waiters();
    assert_eq!(client.ok("March", json!({"handle": handle})).await, "arrived ");
}

#[tokio::test]
async fn a_wait_that_is_given_up_frees_the_handle_and_ends_the_work() {
    let gate = Gate::default();
    let bench = bench(&gate);
    let client = bench.client();
    client.ok("March", json!({"wait": 0.01})).await;
    let waiting = client.spawn("March", json!({"handle": "h1"}));
    tokio::task::yield_now().await;
    waiting.task.abort();
    gate.until_dropped(1).await;
    assert_eq!(
        client.err("March", json!({"handle": "h1"})).await,
        "unknown handle \"h1\"; open handles: none\nleave out `handle` to make the call anew"
    );
}

#[tokio::test]
async fn a_session_takes_its_calls_with_it() {
    let gate = Gate::default();
    let bench = bench(&gate);
    let client = bench.client();
    client.ok("March", json!({"wait": 0.01})).await;
    let running = [client.spawn("March", none()), client.spawn("Hold", none())];
    gate.until_started(3).await;
    drop(client);
    gate.until_dropped(3).await;
    for call in running {
        assert!(call.task.await.unwrap().is_error);
    }
}

#[tokio::test]
async fn calls_at_once_are_limited_and_waiting_by_handle_is_not_one() {
    let gate = Gate::default();
    let bench = setup(&gate).limits(|limits| limits.concurrent_calls = 2).bench();
    let client = bench.client();
    client.ok("March", json!({"wait": 0.01})).await;
    let hold = client.spawn("Hold", none());
    gate.until_started(2).await;
    let refused = "too many calls at once (limit 2)\nwait for one to end and call again";
    assert_eq!(client.err("Echo", json!({"text": "a"})).await, refused);
    assert_eq!(bench.client().err("Echo", json!({"text": "a"})).await, refused, "over all sessions");
    assert!(client.ok("March", json!({"handle": "h1", "wait": 0})).await.contains("still running"));
    gate.open.notify_waiters();
    hold.task.await.unwrap();
    assert_eq!(client.ok("March", json!({"handle": "h1"})).await, "arrived ");
    assert_eq!(client.ok("Echo", json!({"text": "a"})).await, "a");
}

#[tokio::test]
async fn shutting_down_lets_short_calls_end_and_cancels_the_rest() {
    let gate = Gate::default();
    let bench = setup(&gate).limits(|limits| limits.grace = Duration::from_millis(200)).bench();
    let client = bench.client();
    let hold = client.spawn("Hold", none());
    gate.until_started(1).await;
    let host = Arc::clone(&bench.host);
    let down = tokio::spawn(async move { host.shut_down().await });
    tokio::task::yield_now().await;
    assert_eq!(
        client.err("Echo", json!({"text": "a"})).await,
        "the server is shutting down\nconnect again when it is back"
    );
    gate.open.notify_waiters();
    assert_eq!(hold.task.await.unwrap().all_text(), "held");
    down.await.unwrap();

    let gate = Gate::default();
    let bench = setup(&gate).limits(|limits| limits.grace = Duration::from_millis(50)).bench();
    let client = bench.client();
    let running = [client.spawn("Hold", none()), client.spawn("March", none())];
    gate.until_started(2).await;
    bench.host.shut_down().await;
    for call in running {
        let reply = call.task.await.unwrap();
        assert!(reply.is_error && reply.all_text().ends_with("cancelled"), "{}", reply.all_text());
    }
    gate.until_dropped(2).await;
}

#[tokio::test(start_paused = true)]
async fn a_slow_call_gives_signs_of_life_and_falls_silent_with_its_answer() {
    let gate = Gate::default();
    let bench = bench(&gate);
    let client = bench.client();
    let (progress, seen) = watched();
    let args = json!({"wait": 3.5});
    client.call_with("March", args, CancellationToken::new(), progress).await;
    let count = {
        let seen = seen.lock().unwrap();
        assert_eq!(seen.len(), 4, "its own word and one a second: {seen:?}");
        assert!(seen.is_sorted_by(|a, b| a.done < b.done), "{seen:?}");
        assert!(seen.iter().all(|update| update.message == "half way " && update.total == Some(2.0)));
        seen.len()
    };
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(seen.lock().unwrap().len(), count, "the request was answered");
    // Whoever goes on waiting hears of it with his own token.
    let (progress, later) = watched();
    let args = json!({"handle": "h1", "wait": 1.5});
    client.call_with("March", args, CancellationToken::new(), progress).await;
    assert_eq!(later.lock().unwrap().len(), 1);
    assert_eq!(seen.lock().unwrap().len(), count);
}

#[tokio::test(start_paused = true)]
async fn a_short_tool_that_takes_long_gives_signs_of_life_too() {
    let gate = Gate::default();
    let bench = bench(&gate);
    let client = bench.client();
    let (progress, seen) = watched();
    let call = client.call_with("Hold", none(), CancellationToken::new(), progress);
    let open = async {
        tokio::time::sleep(Duration::from_millis(2500)).await;
        gate.open.notify_waiters();
    };
    tokio::join!(call, open);
    let messages: Vec<String> = seen.lock().unwrap().iter().map(|update| update.message.clone()).collect();
    assert_eq!(messages, ["running for 1 s", "running for 2 s"]);
}

#[tokio::test]
async fn finished_calls_nobody_asks_for_are_forgotten_in_the_end() {
    let gate = Gate::default();
    let bench = bench(&gate);
    let client = bench.client();
    for round in 1..=20 {
        client.ok("March", json!({"wait": 0.001})).await;
        gate.open.notify_waiters();
        gate.until_dropped(round).await;
    }
    tokio::task::yield_now().await;
    client.ok("March", json!({"wait": 0.001})).await;
    assert!(client.err("March", json!({"handle": "h1"})).await.contains("unknown handle \"h1\""));
    assert_eq!(client.ok("March", json!({"handle": "h20"})).await, "arrived ");
}

#[tokio::test]
async fn many_sessions_call_at_once() {
    let bench = Arc::new(bench(&Gate::default()));
    let calls = (0..32).map(|n| {
        let client = bench.client();
        tokio::spawn(async move { client.ok("Echo", json!({"text": n.to_string()})).await })
    });
    for (n, call) in calls.collect::<Vec<_>>().into_iter().enumerate() {
        assert_eq!(call.await.unwrap(), n.to_string());
    }
}
