//! What a start tells, and what it costs.

use crate::support::{launch, plain, printed};
use serde_json::json;
use testkit::Workspace;

/// Memory of its own of a server that nobody uses. The pages of the program's file come on top; they say
/// more about how it was compiled, so the bench looks at them in a release build.
const IDLE_BYTES: u64 = 4 << 20;

/// Resident bytes of one more session that nobody uses.
const SESSION_BYTES: u64 = 64 << 10;

#[test]
fn serve_says_what_it_found_and_what_to_paste() {
    let workspace = Workspace::with(&[("go.mod", "module x\n")]);
    let served = plain(&workspace).serve();
    let url = served.url("/mcp");
    printed(served.process(), "\"mcpServers\"");
    let banner = served.process().printed();
    for part in [
        workspace.root().to_str().unwrap(),
        "isolation",
        "holds      write-fence",
        "whoever is on this machine",
        &format!("claude mcp add --transport http codegen-sandbox {url}"),
        &format!("\"url\": \"{url}\""),
    ] {
        assert!(banner.contains(part), "{part}: {banner}");
    }
}

#[test]
fn instructions_are_short_and_fit() {
    let workspace = Workspace::with(&[]);
    let text =
        |launch: testkit::Launch| launch.stdio().initialize()["instructions"].as_str().unwrap().to_owned();
    let full = text(plain(&workspace));
    assert!(!full.is_empty() && full.len() <= 700, "{} bytes: {full}", full.len());
    let several = format!("one={0},two={0}", workspace.root().display());
    let several =
        text(testkit::Launch::new(env!("CARGO_BIN_EXE_codegen-sandbox")).args(["--workspaces", &several]));
    assert!(several.contains("one, two") && several.len() <= 700, "{several}");
    // Whatever is registered: no name of a tool that is not.
    for arguments in [vec!["--readonly"], vec!["--tools", "Grep"], vec!["--tools", "Edit,run_tests,Bash"]] {
        let launch = plain(&workspace).args(arguments.clone());
        let mut client = launch.stdio();
        let text = client.initialize()["instructions"].as_str().unwrap().to_owned();
        let names = |client: &mut testkit::Client| {
            let tools = client.tools();
            tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let (there, mut every) = (names(&mut client), plain(&workspace).stdio());
        every.initialize();
        for absent in names(&mut every).iter().filter(|name| !there.contains(name)) {
            let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
            assert!(!words.into_iter().any(|word| word == absent), "{arguments:?} names {absent}: {text}");
        }
    }
}

#[test]
fn bash_names_its_isolation_once_a_session() {
    let workspace = Workspace::with(&[]);
    let served = plain(&workspace).serve();
    for _ in 0..2 {
        let mut client = served.http();
        client.initialize();
        let mut run = |word: &str| client.call("Bash", json!({"command": format!("echo {word}")})).ok();
        let first = run("one");
        assert!(first.starts_with("one\nisolation: "), "{first}");
        assert_eq!((run("two").as_str(), run("three").as_str()), ("two\n", "three\n"));
    }
}

#[test]
fn logs_never_touch_stdout() {
    let workspace = Workspace::with(&[]);
    let mut client = launch(&workspace).args(["--log", "trace"]).stdio();
    client.initialize();
    client.call("test_panic", json!({})).err();
    assert_eq!(
        client.call("test_length", json!({"text": "x"})).ok(),
        "1",
        "stdout held nothing but the protocol"
    );
    printed(client.process(), "a probe that panics");
}

#[test]
fn secrets_that_are_of_no_use_or_shown_are_told() {
    let workspace = Workspace::with(&[]);
    let secrets = Workspace::with(&[("OPEN", "lying around\n"), ("tls.key", "a key\n"), (".aside", "x\n")]);
    let short = secrets.write("SHORT", "abc\n");
    std::fs::set_permissions(short, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let launch = plain(&workspace).env("CODEGEN_SANDBOX_SECRET_MY.KEY", "value").arg("--secrets-dir");
    let mut client = launch.arg(secrets.root()).stdio();
    client.initialize();
    for told in [
        "secret OPEN: its file is open to every user of the machine (mode 644); chmod 600 it",
        "\"tls.key\" is no secret: names are made of letters, digits, `_` and `-`;",
        "CODEGEN_SANDBOX_SECRET_MY.KEY is no secret: names are made of letters,",
        "secret SHORT is shown wherever it stands: it is too short",
    ] {
        printed(client.process(), told);
    }
    assert!(!client.process().printed().contains(".aside"), "{}", client.process().printed());
    // Once each, and again only what is new.
    secrets.write("LATER", "lying around, too\n");
    client.call("secrets_available", json!({})).ok();
    printed(client.process(), "secret LATER: its file is open");
    assert_eq!(client.process().printed().matches("secret OPEN:").count(), 1);
}

#[test]
fn an_idle_server_is_small() {
    let workspace = Workspace::with(&[]);
    let served = plain(&workspace).serve();
    let status = std::fs::read_to_string(format!("/proc/{}/status", served.process().pid())).unwrap();
    let kilobytes = |field: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
    };
    let (own, file) = (kilobytes("RssAnon:"), kilobytes("RssFile:"));
    println!("idle: {own} KiB of its own, {file} KiB of its file");
    assert!(own << 10 < IDLE_BYTES, "{own} KiB");
}

#[test]
fn a_further_session_is_small() {
    let workspace = Workspace::with(&[]);
    let served = plain(&workspace).serve();
    let open = |count: usize| {
        for _ in 0..count {
            assert_eq!(crate::support::initialize().send(served.address()).unwrap().status, 200);
        }
    };
    // The first ones warm up the allocator.
    open(50);
    let before = served.process().resident_bytes();
    open(150);
    let each = served.process().resident_bytes().saturating_sub(before) / 150;
    println!("a further idle session: {each} bytes resident");
    assert!(each < SESSION_BYTES, "{each} bytes");
}
