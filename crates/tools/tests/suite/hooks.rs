//! What hooks did is counted.

use crate::support::{Setup, until};
use config::{HookKind, HookMode, HookSpec, Phase};
use futures_util::future::BoxFuture;
use sandbox::{Closer, Request, Response, Sandbox, direct::Direct};
use serde_json::json;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};
use tools::{HookTally, Runtime};

fn hook(name: &str, mode: HookMode) -> HookSpec {
    HookSpec {
        name: name.to_owned(),
        kind: HookKind::Tool,
        phases: vec![Phase::BeforeExecution],
        mode,
        tools: Vec::new(),
        command: "sh".to_owned(),
        args: vec!["-c".to_owned(), "exit 3".to_owned()],
        env: Vec::new(),
        timeout: Duration::from_secs(10),
        sandbox: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn denials_and_faults_are_counted_by_hook_and_outlive_a_reload() {
    let bench = Setup::default().bench();
    let sandbox: Arc<dyn Sandbox> = Arc::new(Direct::new("direct"));
    let runtime = || {
        Runtime::new(Arc::clone(&sandbox))
            .with_hook(hook("watcher", HookMode::Observe), Arc::clone(&sandbox))
            .with_hook(hook("gate", HookMode::Filter), Arc::clone(&sandbox))
    };
    let client = bench.client();
    for round in 1..=2 {
        bench.host.reload(&bench.host.settings.clone(), runtime()).unwrap();
        let denied = client.err("Glob", json!({"pattern": "*"})).await;
        assert!(denied.starts_with("denied by hook \"gate\""), "{denied}");
        let expected = [
            ("gate".to_owned(), HookTally { denied: round, faults: 0 }),
            ("watcher".to_owned(), HookTally { denied: 0, faults: round }),
        ];
        until(async || (bench.host.hook_tallies() == expected.clone().into()).then_some(())).await;
    }
}

/// Counts how often it was closed.
struct Closable(Direct, AtomicU32);

impl Closable {
    fn new() -> Arc<Self> {
        Arc::new(Self(Direct::new("closable"), AtomicU32::new(0)))
    }
}

impl Sandbox for Closable {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn spawn(&self, request: Request) -> BoxFuture<'_, Response> {
        self.0.spawn(request)
    }

    fn closer(&self) -> Option<&dyn Closer> {
        Some(self)
    }
}

impl Closer for Closable {
    fn close(&self) -> BoxFuture<'_, Result<(), String>> {
        self.1.fetch_add(1, Ordering::Relaxed);
        Box::pin(async { Ok(()) })
    }
}

#[tokio::test]
async fn a_sandbox_that_was_given_to_a_hook_is_its_makers_to_close() {
    let (given, owned) = (Closable::new(), Closable::new());
    let runtime = Runtime::new(Arc::clone(&owned) as Arc<dyn Sandbox>)
        .owning([Arc::clone(&owned) as Arc<dyn Sandbox>])
        .with_hook(hook("watcher", HookMode::Observe), given.clone());
    runtime.close().await;
    assert_eq!((given.1.load(Ordering::Relaxed), owned.1.load(Ordering::Relaxed)), (0, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_result_leaves_before_a_filter_has_seen_it() {
    let bench = Setup::default().bench();
    let sandbox: Arc<dyn Sandbox> = Arc::new(Direct::new("direct"));
    let censor = HookSpec {
        phases: vec![Phase::AfterExecution],
        tools: vec!["Bash".to_owned()],
        args: vec!["-c".to_owned(), "grep -q CONFIDENTIAL && exit 3; echo '{\"allow\": true}'".to_owned()],
        ..hook("censor", HookMode::Filter)
    };
    let runtime = Runtime::new(Arc::clone(&sandbox)).with_hook(censor, sandbox);
    bench.host.reload(&bench.host.settings.clone(), runtime).unwrap();
    let client = bench.client();
    // Split in the source, so that the hook does not find it in the arguments.
    let command = "echo CONFID''ENTIAL; touch printed; until [ -e go ]; do sleep 0.05; done";
    let begun = client.ok("Bash", json!({"command": command, "wait": 0.05})).await;
    until(async || bench.root().join("printed").exists().then_some(())).await;
    let again = client.ok("Bash", json!({"handle": "h1", "wait": 0.05})).await;
    assert!(!format!("{begun}{again}").contains("CONFIDENTIAL"), "{begun}{again}");
    bench.write("go", "");
    let withheld = client.err("Bash", json!({"handle": "h1"})).await;
    assert!(withheld.starts_with("result withheld by hook \"censor\""), "{withheld}");

    // What it prints in the background is read by another tool.
    let begun = client.ok("Bash", json!({"command": command, "run_in_background": true})).await;
    let id = crate::support::after(&begun, "shell_id: ").to_owned();
    let told = until(async || {
        let reply = client.call("BashOutput", json!({"shell_id": id})).await;
        (reply.is_error || reply.all_text().contains("CONFIDENTIAL")).then(|| reply.all_text())
    })
    .await;
    assert!(told.starts_with("result withheld by hook \"censor\""), "{told}");
}
