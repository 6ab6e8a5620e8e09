//! Ending: short calls end, long ones are cut, a second signal means now.

use crate::support::{launch, printed, stateless_call, text};
use serde_json::json;
use testkit::Workspace;

#[test]
fn a_signal_lets_a_short_call_end_and_refuses_new_ones() {
    let workspace = Workspace::with(&[]);
    for signal in ["TERM", "INT"] {
        let served = launch(&workspace).args(["--grace", "20s"]).serve();
        let mut client = served.http();
        client.initialize();
        let id = client.start_call("test_hold", json!({"milliseconds": 1500}));
        printed(served.process(), "test_hold begun");
        served.process().signal(signal);
        printed(served.process(), "stopping");
        let refused = text(&stateless_call("/mcp", "raw", "test_session", json!({})), &served);
        assert!(refused.contains("shutting down"), "{refused}");
        assert_eq!(client.reply(id).ok(), "held", "{signal}");
        assert_eq!(served.process().wait().code(), Some(0), "{signal}");
    }
}

#[test]
fn a_long_call_is_cut_after_the_grace() {
    let workspace = Workspace::with(&[]);
    let served = launch(&workspace).args(["--grace", "200ms"]).serve();
    let mut client = served.http();
    client.initialize();
    let id = client.start_call("test_hold", json!({}));
    printed(served.process(), "test_hold begun");
    served.process().signal("TERM");
    let told = client.reply(id).err();
    assert!(told.contains("cancelled"), "{told}");
    assert_eq!(served.process().wait().code(), Some(0));
    assert!(served.process().printed().contains("test_hold gone"));
}

#[test]
fn a_second_signal_ends_at_once() {
    let workspace = Workspace::with(&[]);
    let served = launch(&workspace).args(["--grace", "1h"]).serve();
    let mut client = served.http();
    client.initialize();
    client.start_call("test_hold", json!({}));
    printed(served.process(), "test_hold begun");
    served.process().signal("TERM");
    printed(served.process(), "stopping");
    served.process().signal("TERM");
    assert_eq!(served.process().wait().code(), Some(130));
}

#[test]
fn a_signal_ends_stdio_too() {
    let workspace = Workspace::with(&[]);
    let mut client = launch(&workspace).args(["--grace", "200ms"]).stdio();
    client.initialize();
    client.start_call("test_hold", json!({}));
    printed(client.process(), "test_hold begun");
    client.process().signal("TERM");
    assert_eq!(client.process().wait().code(), Some(0));
    assert!(client.process().printed().contains("test_hold gone"));
}

#[test]
fn a_signal_lets_a_short_call_end_over_stdio_and_refuses_new_ones() {
    let workspace = Workspace::with(&[]);
    let mut client = launch(&workspace).args(["--grace", "20s"]).stdio();
    client.initialize();
    let id = client.start_call("test_hold", json!({"milliseconds": 1500}));
    printed(client.process(), "test_hold begun");
    client.process().signal("TERM");
    printed(client.process(), "stopping");
    let refused = client.call("Glob", json!({"pattern": "*"})).err();
    assert!(refused.contains("shutting down"), "{refused}");
    assert_eq!(client.reply(id).ok(), "held");
    assert_eq!(client.process().wait().code(), Some(0));
}
