//! The exported suite, on the backends of this crate.

use sandbox::{
    EnvEntry, Outcome, Request, Sandbox,
    direct::Direct,
    suite::{self, Subject},
};
use std::sync::Arc;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn direct_passes_the_suite() {
    let scratch = tempfile::tempdir().unwrap();
    suite::run(Subject::new(Arc::new(Direct::new("direct")), scratch.path())).await;
}

#[tokio::test]
async fn direct_passes_the_suite_on_one_thread() {
    let scratch = tempfile::tempdir().unwrap();
    suite::run(Subject::new(Arc::new(Direct::new("direct")), scratch.path())).await;
}

#[tokio::test]
async fn scripts_without_an_interpreter_line_run_as_in_a_shell() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script");
    std::fs::write(&script, "echo \"$0\" \"$1\"\n").unwrap();
    let path = script.to_str().unwrap().to_owned();
    let refused = Direct::new("direct").spawn(Request::new(&path)).await;
    assert!(
        matches!(&refused.outcome, Outcome::Refused { why } if why.contains("not executable")),
        "{refused:?}"
    );

    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let response = Direct::new("direct").spawn(Request::new(&path).args(["x"])).await;
    assert_eq!(String::from_utf8_lossy(&response.stdout), format!("{path} x\n"), "{}", response.outcome);
}

#[tokio::test]
async fn the_requests_own_path_finds_the_command() {
    let folder = tempfile::tempdir().unwrap();
    let tool = folder.path().join("my-tool");
    std::fs::write(&tool, "#!/bin/sh\necho mine\n").unwrap();
    std::fs::set_permissions(&tool, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut request = Request::new("my-tool");
    request.env = vec![EnvEntry::Set("PATH".into(), folder.path().display().to_string())];
    assert_eq!(Direct::new("direct").spawn(request).await.stdout, b"mine\n");
}

#[tokio::test]
async fn a_nul_byte_is_refused_by_name() {
    let response = Direct::new("direct").spawn(Request::new("echo").args(["a\0b"])).await;
    let expected = Outcome::Refused { why: "an argument contains a NUL byte".into() };
    assert_eq!(response.outcome, expected);
}

#[tokio::test]
async fn a_missing_folder_is_named() {
    let mut request = Request::new("true");
    request.cwd = Some("/no/such/folder".into());
    let outcome = Direct::new("direct").spawn(request).await.outcome;
    assert!(outcome.to_string().contains("working directory /no/such/folder"), "{outcome}");
}

/// This process's session as the kernel writes it: 0 where its leader lives outside our PID namespace, which is
/// how a container's `exec` starts programs.
fn own_session() -> String {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let after_name = stat.rsplit_once(") ").unwrap().1;
    after_name.split(' ').nth(3).unwrap().to_owned()
}

#[tokio::test]
async fn children_have_default_signals_and_a_group_of_their_own() {
    let script = r"
import os, signal
print(os.getpgid(0) == os.getpid() and os.getsid(0) != SERVER, signal.getsignal(signal.SIGTERM) == signal.SIG_DFL, len(signal.pthread_sigmask(0, [])))
status = open('/proc/self/status').read()
ignored = [l.split()[1] for l in status.splitlines() if l.startswith('SigIgn')][0]
print(hex(int(ignored, 16) & 0x7fffffff), sorted(os.listdir('/proc/self/fd'))[:3], len(os.listdir('/proc/self/fd')))
";
    // `-I`: Python itself ignores SIGPIPE and SIGXFSZ, so only those may show.
    let script = script.replace("SERVER", &own_session());
    let response = Direct::new("direct").spawn(Request::new("python3").args(["-I", "-c", &script])).await;
    let text = String::from_utf8_lossy(&response.stdout);
    assert_eq!(text, "True True 0\n0x1001000 ['0', '1', '2'] 4\n", "{response:?}");
}
