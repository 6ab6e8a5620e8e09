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
