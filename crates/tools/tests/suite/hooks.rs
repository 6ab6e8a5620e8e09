//! What hooks did is counted.

use crate::support::{Setup, until};
use config::{HookKind, HookMode, HookSpec, Phase};
use sandbox::{Sandbox, direct::Direct};
use serde_json::json;
use std::{sync::Arc, time::Duration};
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
