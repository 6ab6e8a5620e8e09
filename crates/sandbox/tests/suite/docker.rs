//! Containers, with a real engine.

use sandbox::{
    EnvEntry, Outcome, Request, Sandbox, StartRequest, Stdio, global_registry,
    suite::{
        self, Case, Subject,
        orphans::{Nasty, ends_by_the_caller, ends_of},
    },
};
use serde_json::{Map, Value, json};
use std::{
    fs::File,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use testkit::engines::{Container, Docker, USERLAND, docker, podman};
use tokio::io::AsyncReadExt as _;
use tokio_util::sync::CancellationToken;

fn build(mode: &str, config: Value) -> Arc<dyn Sandbox> {
    build_on(docker(), mode, config)
}

fn build_on(engine: &Docker, mode: &str, config: Value) -> Arc<dyn Sandbox> {
    let Value::Object(mut config) = config else { panic!("an object") };
    config.insert("docker_path".into(), json!(engine.client));
    global_registry().lookup(mode).unwrap().build("box", &config).unwrap()
}

fn exec(container: &Container<'_>) -> Arc<dyn Sandbox> {
    build("docker_exec", json!({"container": container.id, "workdir": "/tmp"}))
}

fn run() -> Arc<dyn Sandbox> {
    build("docker_run", json!({"image": docker().image, "network": "none", "workdir": "/tmp"}))
}

#[tokio::test(flavor = "multi_thread")]
async fn docker_exec_passes_the_suite() {
    let container = docker().container();
    suite::run(Subject::new(exec(&container), "/tmp").signals_as_codes()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn docker_run_passes_the_suite_of_collected_calls() {
    fresh_containers_pass(|case| !case.streaming).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn docker_run_passes_the_suite_of_live_processes() {
    fresh_containers_pass(|case| case.streaming).await;
}

async fn fresh_containers_pass(chosen: impl Fn(&Case) -> bool) {
    let shared = tempfile::tempdir().unwrap();
    let mount = format!("{}:/shared", shared.path().display());
    let config = json!({"image": docker().image, "network": "none", "mounts": [mount]});
    let subject = Subject::new(build("docker_run", config), "/shared").signals_as_codes();
    suite::run_some(subject, chosen).await;
}

pub(crate) fn sh(script: &str) -> Request {
    Request { timeout: Duration::from_secs(170), ..Request::new("sh").args(["-c", script]) }
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_codes_and_folders_come_back_apart() {
    let container = docker().container();
    for sandbox in [exec(&container), run()] {
        let mut request = sh("cat; echo \"$GREETING $HOME_TOWN\" >&2; pwd; exit 7");
        request.stdin = b"in\xff\n".to_vec();
        request.env = vec![EnvEntry::parse("GREETING=hello 'you'"), EnvEntry::parse("HOME_TOWN=a=b")];
        let response = sandbox.spawn(request).await;
        assert_eq!(response.outcome, Outcome::Exited(7));
        assert_eq!(response.stdout, b"in\xff\n/tmp\n");
        assert_eq!(String::from_utf8_lossy(&response.stderr), "hello 'you' a=b\n");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_megabytes_go_in_and_come_out() {
    let container = docker().container();
    let bytes: Vec<u8> = (0..50u32 << 20).map(|n| (n ^ n >> 8) as u8).collect();
    let request = Request { stdin: bytes.clone(), timeout: Duration::from_secs(170), ..Request::new("cat") };
    let response = exec(&container).spawn(request).await;
    assert_eq!(response.outcome, Outcome::Exited(0));
    assert!(response.stdout == bytes);
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_of_the_transport_are_not_failures_of_the_program() {
    let gone = build("docker_exec", json!({"container": "no-such-container"}));
    let missing = Request { timeout: Duration::from_secs(170), ..Request::new("no-such-command") };
    let Outcome::Transport { why } = gone.spawn(sh("true")).await.outcome else { panic!("transport") };
    assert!(why.contains("no-such-container"), "{why}");
    let no_image = build("docker_run", json!({"image": "no-such-image:0"}));
    let Outcome::Transport { why } = no_image.spawn(sh("true")).await.outcome else { panic!("transport") };
    assert!(why.contains("no-such-image"), "{why}");
    let container = docker().container();
    for sandbox in [exec(&container), run()] {
        let outcome = sandbox.spawn(missing.clone()).await.outcome;
        assert_eq!(outcome, Outcome::NotFound { command: "no-such-command".into() });
        assert_eq!(sandbox.spawn(sh("exit 125")).await.outcome, Outcome::Exited(125));
        assert_eq!(sandbox.spawn(sh("exit 127")).await.outcome, Outcome::Exited(127));
    }
    let outcome = exec(&container).spawn(sh("kill -SEGV $$")).await.outcome;
    assert_eq!(outcome, Outcome::Signaled(11));
    let no_folder = Request { cwd: Some("/no/such/folder".into()), ..sh("true") };
    assert!(matches!(exec(&container).spawn(no_folder).await.outcome, Outcome::Refused { .. }));
}

/// Detached in the ways that programs detach; each says that it lives.
pub(crate) const NASTY: &str = "(setsid sleep 7001 &) ; nohup sleep 7002 >/dev/null 2>&1 & \
    sh -c 'trap \"\" TERM HUP INT; sleep 7003' & sleep 7004";

#[tokio::test(flavor = "multi_thread")]
async fn a_timeout_or_a_cancel_leaves_nothing() {
    let container = docker().container();
    let sandbox = exec(&container);
    let timed = Request { timeout: Duration::from_secs(2), ..sh(NASTY) };
    assert_eq!(sandbox.spawn(timed).await.outcome, Outcome::TimedOut);
    assert_no_sleepers(&container);
    let cancel = CancellationToken::new();
    let cancelled = Request { cancel: cancel.clone(), ..sh(NASTY) };
    let spawn = sandbox.spawn(cancelled);
    let stop = async {
        while !sleeps(&container.processes(), "sleep 7004") {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        cancel.cancel();
    };
    assert_eq!(tokio::join!(spawn, stop).0.outcome, Outcome::Cancelled);
    assert_no_sleepers(&container);
    // What a program leaves behind when it ends by itself goes with it.
    assert_eq!(sandbox.spawn(sh("(setsid sleep 7001 &); exit 3")).await.outcome, Outcome::Exited(3));
    assert_no_sleepers(&container);

    let label = format!("test={}", container.id);
    let config = json!({"image": docker().image, "network": "none", "extra_args": ["--label", label]});
    let timed = Request { timeout: Duration::from_secs(2), ..sh(NASTY) };
    assert_eq!(build("docker_run", config).spawn(timed).await.outcome, Outcome::TimedOut);
    wait_for(|| labelled(docker(), &label).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn live_processes_stream_and_end_with_their_handle() {
    let container = docker().container();
    let sandbox = exec(&container);
    for stdio in [Stdio::Separate, Stdio::Merged, Stdio::Terminal { cols: 80, rows: 24 }] {
        let request = StartRequest {
            command: "sh".into(),
            args: vec!["-c".into(), "echo started; sleep 7005".into()],
            stdio,
            ..StartRequest::default()
        };
        let mut process = sandbox.streaming().unwrap().start(request).await.unwrap();
        let mut buffer = [0; 64];
        let got = process.stdout.read(&mut buffer).await.unwrap();
        assert!(String::from_utf8_lossy(&buffer[..got]).contains("started"));
        assert!(container.processes().contains("sleep 7005"));
        drop(process);
        wait_for(|| !container.processes().contains("sleep 7005"));
    }
    sandbox.closer().unwrap().close().await.unwrap();
}

/// A client that does this before it is the real one.
pub(crate) fn client(folder: &Path, real: &Path, first: &str) -> PathBuf {
    let path = folder.join("client");
    let script = format!("#!/bin/sh\nreal={}\n{first}\nexec $real \"$@\"\n", real.display());
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// [`exec`] with such a client.
pub(crate) fn exec_after(container: &Container<'_>, folder: &Path, first: &str) -> Arc<dyn Sandbox> {
    let path = client(folder, &docker().client, first);
    let config = json!({"container": container.id, "docker_path": path});
    let factory = global_registry().lookup("docker_exec").unwrap();
    factory.build("box", config.as_object().unwrap()).unwrap()
}

/// The way there loses the stdin of the first collected and of the first merged command, as happens with busy nodes.
#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_was_not_begun_is_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let lost = |mode: &str| folder.path().join(mode);
    let lose = format!(
        "for word; do case $word in separate | merged) mkdir {}/$word 2>/dev/null && exec </dev/null ;; esac; done",
        folder.path().display()
    );
    let container = docker().container();
    let sandbox = exec_after(&container, folder.path(), &lose);
    let env = vec![EnvEntry::parse("WORD=here")];

    let mut request = Request { env: env.clone(), ..sh("cat; echo \"$WORD\"; exit 3") };
    request.stdin = b"all of it, ".to_vec();
    let response = sandbox.spawn(request).await;
    assert_eq!((response.stdout, response.outcome), (b"all of it, here\n".to_vec(), Outcome::Exited(3)));
    assert!(lost("separate").exists());

    let args = ["-c", "echo \"$WORD\"; exit 4"].map(str::to_owned).to_vec();
    let request =
        StartRequest { command: "sh".into(), args, env, stdio: Stdio::Merged, ..StartRequest::default() };
    let mut process = sandbox.streaming().unwrap().start(request).await.unwrap();
    let mut said = String::new();
    process.stdout.read_to_string(&mut said).await.unwrap();
    assert_eq!((said.as_str(), process.control.wait().await), ("here\n", Outcome::Exited(4)));
    assert!(lost("merged").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn values_of_variables_stand_in_no_argument_list() {
    let container = docker().container();
    let run = json!({"image": docker().image, "network": "none"});
    for sandbox in [exec(&container), build("docker_run", run)] {
        hides_variables(&*sandbox).await;
    }
}

/// However a command is started, it gets its variables as they are, and no process of this machine is ever seen with their
/// values among its words.
pub(crate) async fn hides_variables(sandbox: &dyn Sandbox) {
    let done = CancellationToken::new();
    let ended = done.clone();
    let looking = std::thread::spawn(move || {
        let mut seen = Vec::new();
        while !ended.is_cancelled() {
            let entries = std::fs::read_dir("/proc").unwrap();
            // Processes come and go.
            let words = entries.filter_map(|entry| std::fs::read(entry.ok()?.path().join("cmdline")).ok());
            seen.extend(words.filter(|words| words.windows(6).any(|w| w == b"hiding")));
            std::thread::sleep(Duration::from_millis(2));
        }
        seen.iter().map(|words| String::from_utf8_lossy(words).into_owned()).collect::<Vec<_>>()
    });
    let long = format!("LONG={}", "x".repeat(6000));
    let script = "echo \"$TOKEN/$PATH/$MORE/${#LONG}/\"; sleep 1000";
    let expected = "in-\n\"hiding\" $0//bin:/none//6000/\n";
    for stdio in [Stdio::Separate, Stdio::Merged, Stdio::Terminal { cols: 80, rows: 24 }] {
        let request = StartRequest {
            command: "sh".into(),
            args: vec!["-c".into(), script.into()],
            env: ["TOKEN=first", "TOKEN=in-\n\"hiding\" $0", "PATH=/bin:/none", "MORE=", &long]
                .map(EnvEntry::parse)
                .to_vec(),
            stdio,
            ..StartRequest::default()
        };
        let mut process = sandbox.streaming().unwrap().start(request).await.unwrap();
        let mut said = String::new();
        while said.len() < expected.len() {
            let mut buffer = [0; 512];
            let count = process.stdout.read(&mut buffer).await.unwrap();
            assert!(count > 0, "{stdio:?} ended: {said:?}");
            said = (said + &String::from_utf8_lossy(&buffer[..count])).replace("\r\n", "\n");
        }
        assert_eq!(said, expected, "{stdio:?}");
    }
    done.cancel();
    assert_eq!(looking.join().unwrap(), [""; 0]);

    // Names that mean something to a shell, or to the script, or that no shell could export.
    let odd = [
        "odd-name=1",
        "name=2",
        "mode=3",
        "cs_entry=4",
        "IFS=,",
        "SHLVL=9",
        "OPTIND=x",
        "LC_ALL=C",
        "_x=\u{e9}",
    ];
    let env = odd.map(EnvEntry::parse).to_vec();
    let request = Request { env, stdin: b"unread".to_vec(), ..sh("exec env") };
    let response = sandbox.spawn(Request { command: "env".into(), args: Vec::new(), ..request }).await;
    let shown = String::from_utf8_lossy(&response.stdout);
    let missing: Vec<_> = odd.iter().filter(|entry| !shown.lines().any(|line| line == **entry)).collect();
    assert!(missing.is_empty(), "{missing:?} in {shown}");
}

/// This machine's programs, and a folder that both sides know by the same name.
fn volumes(shared: &Path) -> Vec<String> {
    let userland = USERLAND.iter().map(|folder| format!("{folder}:{folder}:ro"));
    userland.chain([format!("{0}:{0}", shared.display())]).collect()
}

/// For programs that would take all of the machine: one processor.
const NARROW: &str = "--cpus=1";

fn as_arguments(volumes: &[String]) -> Vec<&str> {
    [NARROW].into_iter().chain(volumes.iter().flat_map(|volume| ["-v", volume])).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_outlives_a_call_in_a_container() {
    let shared = tempfile::tempdir().unwrap();
    let container = docker().container_with(&as_arguments(&volumes(shared.path())));
    ends_by_the_caller(exec(&container), shared.path()).await;
}

/// How a nasty program is started, and its kind.
type Start = (&'static str, &'static str);

/// Every way to start a calm one, and the worst.
pub(crate) const STARTS: [Start; 5] = [
    ("collected", "setsid"),
    ("separate", "setsid"),
    ("merged", "setsid"),
    ("terminal", "setsid"),
    ("terminal", "bomb"),
];

/// Runs a nasty program from a server of its own; that server, when everybody is in place.
async fn server_with(nasty: &Nasty, how: &str, mode: &str, config: &Value) -> std::process::Child {
    let mut server = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["docker::server_alone", "--exact", "--ignored", "--nocapture"])
        .env("FAR_MODE", mode)
        .env("FAR_CONFIG", config.to_string())
        .env("NASTY_HOW", how)
        .env("NASTY_ARGS", nasty.args().join("\n"))
        .stdout(std::process::Stdio::null())
        .stderr(File::create(nasty.file("errors")).unwrap())
        .spawn()
        .unwrap();
    let ended = async {
        while server.try_wait().unwrap().is_none() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::select! {
        () = nasty.ready() => {}
        () = ended => panic!("{how}: {}", std::fs::read_to_string(nasty.file("errors")).unwrap()),
    }
    server
}

/// Kills such servers, and sees everybody go.
pub(crate) async fn nobody_outlives_the_server(mode: &str, config: &Value, place: &Path, starts: &[Start]) {
    let one = async |(how, kind): &Start| {
        let nasty = Nasty::within(place, kind);
        let mut server = server_with(&nasty, how, mode, config).await;
        server.kill().unwrap();
        server.wait().unwrap();
        nasty.wait_gone("SIGKILL of the server").await;
    };
    // The calm ones only wait.
    let (calm, busy): (Vec<_>, Vec<_>) = starts.iter().partition(|(_, kind)| *kind != "bomb");
    futures_util::future::join_all(calm.into_iter().map(one)).await;
    for start in busy {
        one(start).await;
    }
}

/// A machine that is lost closes no connection.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_falls_silent_is_taken_for_dead() {
    let shared = tempfile::tempdir().unwrap();
    let container = docker().container_with(&as_arguments(&volumes(shared.path())));
    let config = json!({"container": container.id, "docker_path": docker().client});
    let nasty = Nasty::within(shared.path(), "setsid");
    let mut server = server_with(&nasty, "collected", "docker_exec", &config).await;
    let pid = rustix::process::Pid::from_child(&server);
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    nasty.wait_gone("the server was stopped").await;
    server.kill().unwrap();
    server.wait().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "run by nobody_in_a_container_outlives_the_server in a process of its own"]
async fn server_alone() {
    let [mode, config, how, args] =
        ["FAR_MODE", "FAR_CONFIG", "NASTY_HOW", "NASTY_ARGS"].map(|name| std::env::var(name).unwrap());
    let config: Map<String, Value> = serde_json::from_str(&config).unwrap();
    let sandbox = global_registry().lookup(&mode).unwrap().build("box", &config).unwrap();
    let stdio = match how.as_str() {
        "separate" => Stdio::Separate,
        "merged" => Stdio::Merged,
        "terminal" => Stdio::Terminal { cols: 80, rows: 24 },
        _ => {
            // More than anybody takes: an end of stdin that is behind it is seen by nobody.
            let request = Request {
                timeout: Duration::from_secs(170),
                stdin: vec![b'x'; 4 << 20],
                ..Request::new("python3").args(args.lines())
            };
            panic!("it ended by itself: {:?}", sandbox.spawn(request).await);
        }
    };
    let args = args.lines().map(str::to_owned).collect();
    let request = StartRequest { command: "python3".into(), args, stdio, ..StartRequest::default() };
    let mut process = sandbox.streaming().unwrap().start(request).await.unwrap();
    let mut said = Vec::new();
    let _ = process.stdout.read_to_end(&mut said).await;
    panic!("it ended by itself: {}", String::from_utf8_lossy(&said));
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_in_a_container_outlives_the_server() {
    let shared = tempfile::tempdir().unwrap();
    let container = docker().container_with(&as_arguments(&volumes(shared.path())));
    // Whoever watches over the calls gets there late. Its mark names no call.
    let slow =
        client(shared.path(), &docker().client, "for last; do :; done\ncase $last in cs*-) sleep 1 ;; esac");
    let config = json!({"container": container.id, "docker_path": slow});
    nobody_outlives_the_server("docker_exec", &config, shared.path(), &STARTS).await;
}

/// Now and then a connection is made over which nothing ever comes.
#[tokio::test(flavor = "multi_thread")]
async fn a_guard_that_never_speaks_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let container = docker().container();
    let stuck = folder.path().join("stuck");
    let stick = format!(
        "for last; do :; done\ncase $last in cs*-) mkdir {} 2>/dev/null && exec sleep 1000 ;; esac",
        stuck.display()
    );
    let sandbox = exec_after(&container, folder.path(), &stick);
    assert_eq!(sandbox.spawn(sh("exit 7")).await.outcome, Outcome::Exited(7));
    assert!(stuck.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_outlives_a_call_in_a_container_of_its_own() {
    let shared = tempfile::tempdir().unwrap();
    let config = json!({
        "image": docker().image, "network": "none", "mounts": volumes(shared.path()), "extra_args": [NARROW],
    });
    ends_by_the_caller(build("docker_run", config), shared.path()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_of_its_own_does_not_outlive_the_server() {
    let shared = tempfile::tempdir().unwrap();
    let label = format!("test={}", shared.path().display());
    // By the second our process is not the first one of the container; by the third it sees all of the machine.
    let more: [(&[&str], &[Start]); 3] = [
        (&[], &STARTS),
        (&["--init"], &[("collected", "setsid"), ("terminal", "setsid")]),
        (&["--pid", "host"], &[("separate", "setsid")]),
    ];
    for (more, starts) in more {
        let extra_args = [&[NARROW, "--label", &label], more].concat();
        let config = json!({
            "image": docker().image, "network": "none", "mounts": volumes(shared.path()), "extra_args": extra_args,
            "docker_path": docker().client,
        });
        nobody_outlives_the_server("docker_run", &config, shared.path(), starts).await;
    }
    wait_for(|| labelled(docker(), &label).is_empty());
}

/// What a server leaves that was killed before the engine had started what it was asked for.
#[tokio::test(flavor = "multi_thread")]
async fn containers_of_servers_that_are_gone_are_removed_at_the_next_start() {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap();
    let namespace: String = namespace.to_string_lossy().chars().filter(char::is_ascii_digit).collect();
    let mut dead = std::process::Command::new("true").spawn().unwrap();
    dead.wait().unwrap();
    let label = |world: &str, pid: u32| format!("codegen-sandbox.server={world}.{pid}.12345");
    let here = format!("{}.{namespace}", boot.trim());
    let gone = label(&here, dead.id());
    // Nobody here can tell whether that one lives.
    let elsewhere = label("another-machine.1", dead.id());
    let gone = docker().container_with(&["--label", &gone]);
    let elsewhere = docker().container_with(&["--label", &elsewhere]);
    let config = json!({"image": docker().image, "network": "none", "extra_args": ["--label", "test=alive"]});
    let alive = build("docker_run", config);
    let streaming = alive.streaming().unwrap();
    let request = StartRequest {
        command: "sh".into(),
        args: vec!["-c".into(), "echo up; cat; sleep 1000".into()],
        ..StartRequest::default()
    };
    let mut process = streaming.start(request).await.unwrap();
    assert_eq!(process.stdout.read_u8().await.unwrap(), b'u');
    let before = labelled(docker(), "test=alive");
    assert!(!before.is_empty());

    let _next = run();
    let known = |id: &str| docker().run(&["ps", "-aq", "--no-trunc"]).contains(id);
    wait_for(|| !known(&gone.id));
    assert!(known(&elsewhere.id));
    assert!(before.lines().all(known), "a server that lives keeps its container");
    drop(process);
}

/// Scripts and words are the same as for docker; what differs is the client.
#[tokio::test(flavor = "multi_thread")]
async fn podman_takes_the_same_words() {
    const CASES: [&str; 9] = [
        "killed by a signal",
        "stdout and stderr apart",
        "binary bytes",
        "environment merge",
        "missing command",
        "timeout leaves nobody",
        "cancel leaves nobody",
        "live: separate streams",
        "live: kill leaves nobody",
    ];
    let shared = tempfile::tempdir().unwrap();
    let volumes = volumes(shared.path());
    let container = podman().container_with(&as_arguments(&volumes)[1..]);
    let exec = build_on(podman(), "docker_exec", json!({"container": container.id}));
    let extra = ["--label", "test=words"];
    let config = json!({"image": podman().image, "network": "none", "mounts": volumes, "extra_args": extra});
    let run = build_on(podman(), "docker_run", config);
    for sandbox in [exec, run] {
        let subject = Subject::new(sandbox, shared.path()).signals_as_codes();
        suite::run_some(subject, |case| CASES.contains(&case.name)).await;
    }
    wait_for(|| labelled(podman(), "test=words").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_outlives_a_call_in_a_container_of_podman() {
    let shared = tempfile::tempdir().unwrap();
    let container = podman().container_with(&as_arguments(&volumes(shared.path()))[1..]);
    let exec = build_on(podman(), "docker_exec", json!({"container": container.id}));
    // The rougher kinds want a processor cap, which podman does not have here.
    ends_of(exec, shared.path(), &["setsid", "nohup", "daemon"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_outlives_a_call_that_is_a_container_of_podman() {
    let shared = tempfile::tempdir().unwrap();
    let config = json!({"image": podman().image, "network": "none", "mounts": volumes(shared.path())});
    ends_of(build_on(podman(), "docker_run", config), shared.path(), &["setsid"]).await;
}

/// There is no engine: whatever runs in the container descends from the client, the guard too unless it sees to it.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_in_a_container_of_podman_outlives_the_server() {
    let shared = tempfile::tempdir().unwrap();
    let container = podman().container_with(&as_arguments(&volumes(shared.path()))[1..]);
    let exec = json!({"container": container.id, "docker_path": podman().client});
    let label = format!("test={}", shared.path().display());
    let run = json!({
        "image": podman().image, "network": "none", "mounts": volumes(shared.path()),
        "docker_path": podman().client, "extra_args": ["--label", label],
    });
    tokio::join!(
        nobody_outlives_the_server("docker_exec", &exec, shared.path(), &[("collected", "setsid")]),
        nobody_outlives_the_server("docker_run", &run, shared.path(), &[("terminal", "setsid")]),
    );
    // Whoever would have removed what podman knows of the container went with the client.
    let _next = build_on(podman(), "docker_run", run);
    wait_for(|| labelled(podman(), &label).is_empty());
}

#[test]
fn unknown_and_missing_keys_are_named() {
    let lookup = |mode: &str, config: Map<String, Value>| {
        global_registry().lookup(mode).unwrap().build("x", &config).err().unwrap().to_string()
    };
    let key = |name: &str| Map::from_iter([(name.to_owned(), json!("v"))]);
    assert_eq!(
        lookup("docker_exec", key("contaner")),
        "unknown key \"contaner\"; known: container, docker_path, extra_args, user, workdir"
    );
    assert_eq!(lookup("docker_run", key("network")), "missing key \"image\"");
    assert_eq!(lookup("kubectl_exec", key("namespace")), "missing key \"pod\"");
}

fn assert_no_sleepers(container: &Container<'_>) {
    nobody_sleeps(|| container.processes());
}

/// Nothing of a command is left. The script of a call that was given up while it was still on its way to the far side
/// begins nothing, and is gone a moment later.
pub(crate) fn nobody_sleeps(processes: impl Fn() -> String) {
    let now = processes();
    assert!(!sleeps(&now, "sleep 70"), "{now}");
    wait_for(|| !processes().contains("sleep 70"));
}

/// Whether a command has begun to sleep; the arguments of the script that is to begin it tell of that, too.
pub(crate) fn sleeps(processes: &str, what: &str) -> bool {
    let command = |line: &str| line.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ').to_owned();
    processes.lines().any(|line| command(line).starts_with(what))
}

/// Containers with a label.
fn labelled(engine: &Docker, label: &str) -> String {
    engine.run(&["ps", "-aq", "--no-trunc", "--filter", &format!("label={label}")])
}

pub(crate) fn wait_for(condition: impl Fn() -> bool) {
    for _ in 0..400 {
        if condition() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("it never happened");
}
