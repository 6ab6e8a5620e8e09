//! A stranger's tests of a stranger's sandbox.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use add_a_sandbox::{MODE, factory};
use sandbox::{
    Request, Sandbox, lookup_factory, register_factory,
    suite::{self, Subject, orphans},
};
use serde_json::{Map, Value, json};
use std::sync::{Arc, Once};

fn build(config: Value) -> Result<Arc<dyn Sandbox>, String> {
    static REGISTER: Once = Once::new();
    REGISTER.call_once(|| register_factory(MODE, factory()).unwrap());
    let config: Map<String, Value> = config.as_object().unwrap().clone();
    lookup_factory(MODE).unwrap().build("background", &config).map_err(|error| error.to_string())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn passes_the_suite() {
    let scratch = tempfile::tempdir().unwrap();
    suite::run(Subject::new(build(json!({})).unwrap(), scratch.path())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leaves_nobody_behind() {
    let scratch = tempfile::tempdir().unwrap();
    orphans::ends_by_the_caller(build(json!({})).unwrap(), scratch.path()).await;
}

#[tokio::test]
async fn does_what_it_is_for() {
    let niceness = async |config| {
        let response = build(config).unwrap().spawn(Request::new("nice")).await;
        String::from_utf8(response.stdout).unwrap().trim().parse::<i32>().unwrap()
    };
    let before = niceness(json!({"niceness": 0})).await;
    assert_eq!(niceness(json!({"niceness": 7})).await, (before + 7).min(19));
}

#[test]
fn wrong_configuration_is_named() {
    let wrong = |config| build(config).err().unwrap();
    assert_eq!(wrong(json!({"nice": 1})), "unknown key \"nice\"; known: niceness");
    assert_eq!(wrong(json!({"niceness": 99})), "niceness: must be a number from 0 to 19, not 99");
}
