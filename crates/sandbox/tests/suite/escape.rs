//! Attempts to get out, in each tier, each held against the guarantee that it would break.

use crate::isolated::Host;
use sandbox::{
    Outcome, Request, Sandbox,
    isolated::{Guarantee, Kernel, Network, Tier},
};
use std::time::Duration;

/// Runs all attempts; returns how many there were and those that broke a guarantee, or did not work though they must.
async fn attempts(tier: Tier, network: Network) -> (usize, Vec<String>) {
    let host = Host::new();
    let sandbox = host.builder().tier(tier).network(network).build().unwrap();
    let before = host.state();
    let mut request = Request::new("/usr/bin/python3").args([host.script("escape.py")]);
    request.timeout = Duration::from_secs(55);
    request.env = host.facts(network);
    let response = sandbox.spawn(request).await;
    let text = String::from_utf8_lossy(&response.stdout).into_owned();
    assert_eq!(response.outcome, Outcome::Exited(0), "{text}\n{}", String::from_utf8_lossy(&response.stderr));

    let mut wrong = Vec::new();
    let mut count = 0;
    for line in text.lines() {
        let [guarantee, name, outcome, detail] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("cannot read {line:?}")
        };
        let right = if guarantee.is_empty() {
            outcome == "done"
        } else {
            count += 1;
            let promised =
                Guarantee::named(guarantee).unwrap_or_else(|| panic!("no guarantee {guarantee:?}"));
            // What a tier does not promise is listed in the table, and not judged here.
            promised.check(tier, Kernel::running()).is_err() || outcome == "denied"
        };
        if !right {
            wrong.push(format!("{guarantee}: {name}: {outcome} ({detail})"));
        }
    }
    assert!(text.contains("\tend\tdone\t"), "the attempts did not come to their end:\n{text}");
    assert!(host.victim_lives(), "the process of the host was killed");
    drop(sandbox);
    if host.state() != before {
        wrong.push(format!("the host was changed:\n{}\n---\n{}", before.join("\n"), host.state().join("\n")));
    }
    (count, wrong)
}

async fn no_escape(tier: Tier, network: Network) {
    let (count, wrong) = attempts(tier, network).await;
    assert!(count >= 60, "only {count} attempts");
    assert!(wrong.is_empty(), "{tier}, {} of {count} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[tokio::test]
async fn namespaces_hold() {
    no_escape(Tier::Namespaces, Network::Host).await;
}

#[tokio::test]
async fn namespaces_hold_without_network() {
    no_escape(Tier::Namespaces, Network::None).await;
    no_escape(Tier::Namespaces, Network::Loopback).await;
}

#[tokio::test]
async fn landlock_holds() {
    no_escape(Tier::Landlock, Network::Host).await;
}
