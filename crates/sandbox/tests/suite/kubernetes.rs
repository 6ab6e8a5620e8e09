//! Pods, with a real cluster.

use crate::docker::{
    NASTY, STARTS, hides_variables, nobody_outlives_the_server, nobody_sleeps, sh, sleeps, wait_for,
};
use sandbox::{
    EnvEntry, Outcome, Request, Sandbox, global_registry,
    suite::{self, Subject, orphans::ends_by_the_caller},
};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use testkit::engines::kubernetes;
use tokio_util::sync::CancellationToken;

fn config() -> Value {
    let cluster = kubernetes();
    json!({
        "pod": cluster.pod, "container": "main", "namespace": "default", "context": "test", "workdir": "/tmp",
        "kubeconfig": cluster.kubeconfig, "kubectl_path": cluster.client,
    })
}

pub(crate) fn build(more: Value) -> Arc<dyn Sandbox> {
    let mut config = config();
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    global_registry().lookup("kubectl_exec").unwrap().build("pod", config.as_object().unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_exec_passes_the_suite() {
    suite::run(Subject::new(build(json!({})), "/tmp").signals_as_codes()).await;
}

/// One program at a time that takes all it gets.
static NARROW: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

#[tokio::test(flavor = "multi_thread")]
async fn nobody_outlives_a_call_in_a_pod() {
    let _alone = NARROW.lock().await;
    ends_by_the_caller(build(json!({"pod": kubernetes().narrow_pod})), &kubernetes().shared).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_in_a_pod_outlives_the_server() {
    let _alone = NARROW.lock().await;
    let mut config = config();
    config["pod"] = json!(kubernetes().narrow_pod);
    nobody_outlives_the_server("kubectl_exec", &config, &kubernetes().shared, &STARTS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_codes_and_failures_of_the_transport_come_back_apart() {
    let pod = build(json!({}));
    let mut request = sh("cat; echo \"$GREETING\" >&2; pwd; exit 7");
    request.stdin = b"in\xff\n".to_vec();
    request.env = vec![EnvEntry::parse("GREETING=hello 'you'")];
    let response = pod.spawn(request).await;
    assert_eq!(response.outcome, Outcome::Exited(7));
    assert_eq!(response.stdout, b"in\xff\n/tmp\n");
    assert_eq!(String::from_utf8_lossy(&response.stderr), "hello 'you'\n");

    let transport = |outcome: Outcome| match outcome {
        Outcome::Transport { why } => why,
        other => panic!("{other:?}"),
    };
    let no_pod = build(json!({"pod": "no-such-pod"}));
    assert!(transport(no_pod.spawn(sh("true")).await.outcome).contains("no-such-pod"));
    let no_container = build(json!({"container": "no-such-container"}));
    assert!(transport(no_container.spawn(sh("true")).await.outcome).contains("no-such-container"));
    let no_cluster = build(json!({"extra_args": ["--server=https://127.0.0.1:1"]}));
    assert!(transport(no_cluster.spawn(sh("true")).await.outcome).contains("127.0.0.1:1"));
    // The client's own code for a failure is a program's like any other.
    assert_eq!(pod.spawn(sh("exit 1")).await.outcome, Outcome::Exited(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn values_of_variables_stand_in_no_argument_list() {
    hides_variables(&*build(json!({}))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_megabytes_go_into_a_pod_and_come_out() {
    let bytes: Vec<u8> = (0..50u32 << 20).map(|n| (n ^ n >> 8) as u8).collect();
    let request = Request { stdin: bytes.clone(), timeout: Duration::from_secs(170), ..Request::new("cat") };
    let pod = build(json!({}));
    let mut response = pod.spawn(request.clone()).await;
    // An engine that has too much to do resets connections, and what goes through them is told to be lost: whoever can
    // say it again does so.
    for _ in 0..2 {
        if matches!(&response.outcome, Outcome::Transport { why } if why.contains("connection reset by peer"))
        {
            response = pod.spawn(request.clone()).await;
        }
    }
    assert_eq!(response.outcome, Outcome::Exited(0));
    assert!(response.stdout == bytes, "{} of {} bytes came back", response.stdout.len(), bytes.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timeout_or_a_cancel_leaves_nothing_in_the_pod() {
    let pod = build(json!({}));
    let timed = Request { timeout: Duration::from_secs(2), ..sh(NASTY) };
    assert_eq!(pod.spawn(timed).await.outcome, Outcome::TimedOut);
    nobody_sleeps(|| kubernetes().processes());
    let cancel = CancellationToken::new();
    let cancelled = Request { cancel: cancel.clone(), ..sh(NASTY) };
    let stop = async {
        tokio::task::spawn_blocking(|| wait_for(|| sleeps(&kubernetes().processes(), "sleep 7004")))
            .await
            .unwrap();
        cancel.cancel();
    };
    assert_eq!(tokio::join!(pod.spawn(cancelled), stop).0.outcome, Outcome::Cancelled);
    nobody_sleeps(|| kubernetes().processes());
}
