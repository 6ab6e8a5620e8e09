//! Whatever a rule does to a command, the answer names the rule and the way to allow it.

use crate::isolated::Host;
use sandbox::{
    EnvEntry, Request, Response, Sandbox,
    isolated::{Builder, Caps, GUARANTEES, Holds, Kernel, Network, Tier},
};
use std::time::Duration;

const TIERS: [Tier; 2] = [Tier::Namespaces, Tier::Landlock];

/// What a command tries, and what the answer says in each tier; nothing where the tier has no such rule.
struct Rule {
    name: &'static str,
    script: &'static str,
    change: fn(Builder) -> Builder,
    namespaces: &'static [&'static str],
    landlock: &'static [&'static str],
}

const SAME: fn(Builder) -> Builder = |builder| builder;

/// With a cap of every kind.
fn capped(builder: Builder) -> Builder {
    builder.caps(Caps {
        memory: Some(200 << 20),
        pids: Some(400),
        cpu_seconds: Some(1),
        file_size: Some(1 << 20),
    })
}

const NETWORK: &str = "there is no network";

const RULES: &[Rule] = &[
    Rule {
        name: "write outside",
        script: "echo x > ~/.profile",
        change: SAME,
        namespaces: &[".profile is read-only inside", "add its folder to `write`"],
        landlock: &[".profile is read-only inside", "add its folder to `write`"],
    },
    Rule {
        name: "read of a credential store",
        script: "cat ~/.aws/credentials",
        change: SAME,
        namespaces: &[".aws/credentials is hidden (credentials)", "add it to `read`"],
        landlock: &[".aws/credentials is hidden (credentials)", "add it to `read`"],
    },
    Rule {
        name: "hooks of git",
        script: "echo evil > .git/hooks/pre-commit || exit 1; exit 1",
        change: SAME,
        namespaces: &[".git/hooks/pre-commit is frozen", "change it outside the sandbox"],
        landlock: &["undid a change to", ".git/hooks/pre-commit"],
    },
    Rule {
        name: "no network",
        script: "/usr/bin/python3 -c 'import socket; socket.create_connection((\"192.0.2.1\", 80), 3)'",
        change: |builder| builder.network(Network::None),
        namespaces: &[NETWORK, "`network: none`", "set `network: host`"],
        landlock: &[],
    },
    Rule {
        name: "loopback only",
        script: "/usr/bin/python3 -c 'import socket; socket.create_connection((\"192.0.2.1\", 80), 3)'",
        change: |builder| builder.network(Network::Loopback),
        namespaces: &[NETWORK, "`network: loopback`", "set `network: host`"],
        landlock: &[],
    },
    Rule {
        name: "signal to another process",
        script: "kill -9 $VICTIM",
        change: SAME,
        namespaces: &["runs outside, and nobody inside can see or signal it", "outside the sandbox"],
        landlock: &["processes outside cannot be signalled", "outside the sandbox"],
    },
    Rule {
        name: "system calls",
        script: "unshare -U true",
        change: SAME,
        namespaces: &["this system call is refused inside"],
        landlock: &["this system call is refused inside"],
    },
    Rule {
        name: "memory",
        script: "/usr/bin/python3 -c 'x = [bytearray(10 << 20) for _ in range(60)]; import time; time.sleep(30)'",
        change: capped,
        namespaces: &["the sandbox caps memory; raise `memory`"],
        landlock: &["the sandbox caps memory; raise `memory`"],
    },
    Rule {
        name: "processor time",
        script: "while :; do :; done",
        change: capped,
        namespaces: &["the sandbox caps processor time; raise `cpu`"],
        landlock: &["the sandbox caps processor time; raise `cpu`"],
    },
    Rule {
        name: "size of a file",
        script: "head -c 3000000 /dev/zero > large",
        change: capped,
        namespaces: &["the sandbox caps the size of a file; raise `file_size`"],
        landlock: &["the sandbox caps the size of a file; raise `file_size`"],
    },
];

async fn attempt(host: &Host, rule: &Rule, tier: Tier) -> Response {
    let sandbox = (rule.change)(host.builder()).tier(tier).build().unwrap();
    let victim = |entry: &EnvEntry| matches!(entry, EnvEntry::Set(name, _) if name == "VICTIM");
    let env = host.facts(Network::Host).into_iter().filter(victim).collect();
    let request = Request::new("bash").args(["-c", rule.script]);
    sandbox.spawn(Request { env, timeout: Duration::from_secs(40), ..request }).await
}

#[tokio::test]
async fn every_rule_is_named_with_the_way_to_allow_it() {
    let host = Host::new();
    for rule in RULES {
        for tier in TIERS {
            let expected = if tier == Tier::Namespaces { rule.namespaces } else { rule.landlock };
            if expected.is_empty() {
                // Then the tier says so when it is asked for.
                let refused = (rule.change)(host.builder()).tier(tier).build().err().map(|e| e.to_string());
                assert!(refused.is_some_and(|why| why.contains("use mode direct")), "{}, {tier}", rule.name);
                continue;
            }
            let response = attempt(&host, rule, tier).await;
            assert!(!response.outcome.success(), "{}, {tier}: {response:?}", rule.name);
            let said = response.notes.join("\n");
            for part in expected {
                assert!(said.contains(part), "{}, {tier}: no \"{part}\" in {response:?}", rule.name);
            }
        }
    }
    assert!(host.victim_lives());
}

/// On kernels that this machine does not run, too.
#[test]
fn a_guarantee_that_is_lacking_has_a_reason_and_a_way_out() {
    for guarantee in GUARANTEES {
        for (tier, holds) in [(Tier::Namespaces, guarantee.namespaces), (Tier::Landlock, guarantee.landlock)]
        {
            for landlock in 0..=7 {
                let (checked, name) = (guarantee.check(tier, Kernel { landlock }), guarantee.name);
                let (reason, way) = match holds {
                    Holds::Yes => {
                        assert!(checked.is_ok(), "{name}");
                        continue;
                    }
                    Holds::FromLandlock(version) if landlock >= version => {
                        assert!(checked.is_ok(), "{name}");
                        continue;
                    }
                    Holds::FromLandlock(version) => {
                        (format!("needs Landlock version {version}"), "later kernel")
                    }
                    Holds::No(why) => (why.to_owned(), "user namespaces"),
                };
                let why = checked.unwrap_err();
                assert!(why.contains(&reason), "{name}: {why}");
                let out = guarantee.way_out(tier);
                assert!(out.contains(way) && out.contains("`require`"), "{name}: {out}");
            }
        }
    }
}
