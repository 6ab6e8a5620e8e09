//! One server as the sandbox of another: the far side is the real binary.

use crate::support::{ANN, BOB, eventually, plain, tokens};
use sandbox::{
    EnvEntry, Outcome, Request, Sandbox, StartRequest, Stdio, global_registry,
    suite::{self, Subject, orphans},
};
use serde_json::json;
use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::Duration,
};
use testkit::{Served, Workspace};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig, crypto,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    },
};

/// A far side whose commands run as `place` says, and its workspace.
struct Far {
    served: Served,
    workspace: Workspace,
    files: Workspace,
}

impl Far {
    fn start(default_sandbox: &str) -> Self {
        let (files, workspace) = (Workspace::with(&[]), Workspace::with(&[("here.txt", "far\n")]));
        let config = files.root().join("runtime.yaml");
        let text = format!(
            "apiVersion: codegen-sandbox/v1\nkind: RuntimeConfig\nspec:\n  sandboxes:\n    \
             locked: {{ mode: isolated }}\n  tools: {{ default_sandbox: {default_sandbox} }}\n"
        );
        std::fs::write(&config, text).unwrap();
        let launch = plain(&workspace).args(["--auth-token-file", &tokens(&files), "--allow-remote-exec"]);
        let served = launch.arg("--config").arg(config).serve();
        Self { served, workspace, files }
    }

    fn sandbox(&self, token: &str) -> Arc<dyn Sandbox> {
        let file = self.files.root().join(token);
        std::fs::write(&file, format!("{token}\n")).unwrap();
        near(&format!("http://{}", self.served.address()), Some(&file))
    }
}

fn near(url: &str, token_file: Option<&Path>) -> Arc<dyn Sandbox> {
    let config = json!({"url": url, "token_file": token_file});
    global_registry().lookup("remote").unwrap().build("far", config.as_object().unwrap()).unwrap()
}

fn sh(script: &str) -> Request {
    Request { timeout: Duration::from_secs(40), ..Request::new("sh").args(["-c", script]) }
}

fn transport(outcome: Outcome) -> String {
    match outcome {
        Outcome::Transport { why } => why,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn remote_passes_the_suite() {
    let far = Far::start("locked");
    suite::run(Subject::new(far.sandbox(ANN), far.workspace.root())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_outlives_a_call_at_the_far_side() {
    let far = Far::start("direct");
    orphans::ends_by_the_caller(far.sandbox(ANN), far.workspace.root()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_megabytes_a_folder_and_an_environment() {
    let far = Far::start("direct");
    let sandbox = far.sandbox(ANN);
    let bytes: Vec<u8> = (0..50u32 << 20).map(|n| (n ^ n >> 8) as u8).collect();
    let response = sandbox.spawn(Request { stdin: bytes.clone(), ..sh("cat") }).await;
    assert_eq!(response.outcome, Outcome::Exited(0));
    assert!(response.stdout == bytes, "{} of {} bytes came back", response.stdout.len(), bytes.len());
    // A command that names no folder runs in the far side's workspace.
    let env = ["A=near", "CARGO_MANIFEST_DIR"].map(EnvEntry::parse).to_vec();
    let response =
        sandbox.spawn(Request { env, ..sh("cat here.txt; echo \"$A $CARGO_MANIFEST_DIR\"") }).await;
    let expected = format!("far\nnear {}\n", env!("CARGO_MANIFEST_DIR"));
    assert_eq!(String::from_utf8_lossy(&response.stdout), expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_configured_server_runs_bash_at_the_far_side_for_as_long_as_it_lives() {
    let far = Far::start("direct");
    let (workspace, files) = (Workspace::with(&[("here.txt", "near\n")]), Workspace::with(&[]));
    let (token, config) = (files.root().join("token"), files.root().join("runtime.yaml"));
    std::fs::write(&token, ANN).unwrap();
    let text = format!(
        "apiVersion: codegen-sandbox/v1\nkind: RuntimeConfig\nspec:\n  sandboxes:\n    cloud: {{ mode: remote, \
         url: \"http://{}\", token_file: {}, workdir: {} }}\n  tools: {{ default_sandbox: cloud }}\n",
        far.served.address(),
        token.display(),
        far.workspace.root().display()
    );
    std::fs::write(&config, text).unwrap();
    let mut client = plain(&workspace).arg("--config").arg(config).stdio();
    client.initialize();
    let said = client.call("Bash", json!({ "command": "cat here.txt; exit 3" })).text();
    assert!(said.contains("far") && said.contains('3'), "{said}");
    assert!(!said.contains("in this sandbox"), "{said}");
    // Paths are shown as they were printed, with a word on where they are.
    let said = client.call("Bash", json!({ "command": "pwd" })).text();
    let [here, there] = [&workspace, &far.workspace].map(|of| of.root().display().to_string());
    let remark = format!("in this sandbox the workspace ({here}) is {there}");
    assert!(said.starts_with(&there) && said.contains(&remark), "{said}");
    // The near side's death is the far command's, in the background as well.
    let nasty = [false, true].map(|background| {
        let nasty = orphans::Nasty::within(far.workspace.root(), "setsid");
        let command = format!("python3 {}", nasty.args().join(" "));
        client.start_call("Bash", json!({ "command": command, "run_in_background": background }));
        nasty
    });
    for nasty in &nasty {
        nasty.ready().await;
    }
    client.process().kill();
    for nasty in &nasty {
        nasty.wait_gone("SIGKILL of the near server").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_may_not_is_told_so() {
    let far = Far::start("direct");
    let readonly = transport(far.sandbox(BOB).spawn(sh("true")).await.outcome);
    assert!(readonly.contains("403") && readonly.contains("read-only"), "{readonly}");
    let stranger = transport(far.sandbox("0123456789abcdef-stranger").spawn(sh("true")).await.outcome);
    assert!(stranger.contains("401"), "{stranger}");
    let workspace = Workspace::with(&[]);
    let closed = plain(&workspace).serve();
    let closed =
        transport(near(&format!("http://{}", closed.address()), None).spawn(sh("true")).await.outcome);
    assert!(closed.contains("--allow-remote-exec"), "{closed}");
    let nobody = transport(near("http://127.0.0.1:1", None).spawn(sh("true")).await.outcome);
    assert!(nobody.contains("http://127.0.0.1:1"), "{nobody}");
    let without_tokens = plain(&workspace).arg("--allow-remote-exec").command("serve").output().unwrap();
    assert_eq!(without_tokens.status.code(), Some(2));
}

/// Whichever way the far side goes, the call has its answer, and the next one a new connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_far_side_that_vanishes_is_an_answer() {
    let workspace = Workspace::with(&[]);
    let flag = workspace.root().join("flag");
    for signal in ["KILL", "STOP"] {
        let far = Far::start("direct");
        let sandbox = far.sandbox(ANN);
        let call = sandbox.spawn(sh(&format!("touch {}; sleep 1000", flag.display())));
        let vanish = async {
            let seen = flag.clone();
            let wait = move || eventually("the far command runs", || seen.exists());
            tokio::task::spawn_blocking(wait).await.unwrap();
            far.served.process().signal(signal);
        };
        let (response, ()) = tokio::join!(call, vanish);
        assert!(transport(response.outcome).contains("sign of life"));
        std::fs::remove_file(&flag).unwrap();
        if signal == "STOP" {
            far.served.process().signal("CONT");
            assert_eq!(sandbox.spawn(sh("exit 3")).await.outcome, Outcome::Exited(3), "the next call works");
            let live = StartRequest {
                command: "sh".into(),
                args: vec!["-c".into(), "sleep 1000".into()],
                stdio: Stdio::Merged,
                ..StartRequest::default()
            };
            let process = sandbox.streaming().unwrap().start(live).await.unwrap();
            far.served.process().kill();
            transport(process.control.wait().await);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_far_side_that_has_ended_runs_nothing_for_others() {
    let far = Far::start("direct");
    let sandbox = far.sandbox(ANN);
    let nasty = orphans::KINDS.map(|kind| orphans::Nasty::within(far.workspace.root(), kind));
    let mut live = Vec::new();
    for nasty in &nasty {
        live.push(sandbox.streaming().unwrap().start(nasty.live()).await.unwrap());
        nasty.ready().await;
    }
    far.served.process().signal("TERM");
    assert!(far.served.process().wait().success());
    for nasty in &nasty {
        nasty.assert_gone("the end of the far side");
    }
}

/// A certificate for this machine that is its own authority, and its key.
fn certificate(folder: &Path, name: &str) -> (PathBuf, PathBuf) {
    let [certificate, key] = ["crt", "key"].map(|kind| folder.join(format!("{name}.{kind}")));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"])
        .args([
            "-subj",
            &format!("/CN=codegen-sandbox test of {name}"),
            "-addext",
            &format!("subjectAltName=DNS:{name}"),
            "-days",
            "2",
        ])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .arg("-keyout")
        .arg(&key)
        .arg("-out")
        .arg(&certificate)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    (certificate, key)
}

/// What an operator puts before a far side: TLS on one side, the plain server on the other.
async fn tls_before(far: SocketAddr, certificate: &Path, key: &Path) -> SocketAddr {
    let chain = CertificateDer::pem_file_iter(certificate).unwrap().collect::<Result<_, _>>().unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, PrivateKeyDer::from_pem_file(key).unwrap())
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let mut outside = acceptor.accept(stream).await?;
                let mut inside = TcpStream::connect(far).await?;
                tokio::io::copy_bidirectional(&mut outside, &mut inside).await
            });
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_carries_calls_to_a_far_side_that_proves_who_it_is_and_to_no_other() {
    let far = Far::start("direct");
    let folder = far.files.root();
    let (trusted, key) = certificate(folder, "localhost");
    let plain = far.served.address();
    let port = tls_before(plain, &trusted, &key).await.port();
    let token = folder.join(ANN);
    std::fs::write(&token, ANN).unwrap();
    let build = |url: &str, ca_file: Option<&Path>| {
        let config = json!({"url": url, "token_file": token, "ca_file": ca_file});
        let config = config.as_object().unwrap();
        global_registry().lookup("remote").unwrap().build("far", config)
    };
    let url = format!("https://localhost:{port}");
    let sandbox = build(&url, Some(&trusted)).unwrap();
    let bytes = vec![7; 3 << 20];
    let response = sandbox.spawn(Request { stdin: bytes.clone(), ..sh("cat; exit 5") }).await;
    assert_eq!(response.outcome, Outcome::Exited(5));
    assert!(response.stdout == bytes, "{} of {} bytes came back", response.stdout.len(), bytes.len());
    orphans::ends_of(sandbox, far.workspace.root(), &["setsid"]).await;

    let refused = async |url: &str, ca_file: Option<&Path>| {
        transport(build(url, ca_file).unwrap().spawn(sh("true")).await.outcome)
    };
    let unknown = refused(&url, None).await;
    assert!(unknown.contains("UnknownIssuer") && unknown.contains("ca_file"), "{unknown}");
    let (other, _) = certificate(folder, "other.example");
    let unknown = refused(&url, Some(&other)).await;
    assert!(unknown.contains("ca_file"), "{unknown}");
    let misnamed = refused(&format!("https://127.0.0.1:{port}"), Some(&trusted)).await;
    assert!(misnamed.contains("certificate") && misnamed.contains("127.0.0.1"), "{misnamed}");
    let unencrypted = refused(&format!("https://localhost:{}", plain.port()), Some(&trusted)).await;
    assert!(unencrypted.contains("http://"), "{unencrypted}");

    let bad = |url: &str, ca_file: &Path| build(url, Some(ca_file)).err().unwrap().to_string();
    assert!(bad(&url, &key).contains("holds no certificate"), "{}", bad(&url, &key));
    assert!(bad(&url, &folder.join("none.pem")).contains("none.pem"));
    assert!(bad("http://localhost:1", &trusted).contains("https://"));
}
