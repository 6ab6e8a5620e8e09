//! RuntimeConfig: sandboxes, hooks, reading it again.

use crate::support::{ANN, eventually, launch, plain, printed};
use serde_json::{Value, json};
use std::{fs, path::PathBuf};
use testkit::{Launch, Workspace};

/// A workspace, and beside it a folder for the configuration and what hooks write.
struct Bench {
    workspace: Workspace,
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        Self { workspace: Workspace::with(&[("a.txt", "a\n")]), folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes the configuration; `$DIR` in it is the folder.
    fn write(&self, spec: &str) -> PathBuf {
        let file = self.path("runtime.yaml");
        let spec = spec.replace("$DIR", self.folder.path().to_str().unwrap());
        fs::write(&file, format!("apiVersion: codegen-sandbox/v1\nkind: RuntimeConfig\nspec:\n{spec}"))
            .unwrap();
        file
    }

    fn launch(&self, spec: &str) -> Launch {
        let file = self.write(spec);
        launch(&self.workspace).arg("--config").arg(file)
    }

    fn written(&self, name: &str) -> Vec<Value> {
        let text = fs::read_to_string(self.path(name)).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }
}

/// A hook that runs a shell script; in it `$DIR` is the folder.
fn hook(name: &str, kind: &str, phase: &str, mode: &str, script: &str) -> String {
    format!(
        "    {name}:\n      hook: {kind}\n      phases: [{phase}]\n      mode: {mode}\n      command: sh\n      args:\n      - -c\n      - '{script}'\n"
    )
}

const ALLOW: &str = r#"cat >> $DIR/seen; echo "{\"allow\": true}""#;
const DENY: &str = r#"cat >> $DIR/seen; echo "{\"allow\": false, \"reason\": \"not on a Sunday\"}""#;

#[test]
fn a_filter_is_asked_and_may_deny() {
    let bench = Bench::new();
    let hooks = format!(
        "  hooks:\n{}{}",
        hook("first", "tool", "before_execution", "filter", ALLOW)
            .replace("hook: tool\n", "hook: tool\n      tools: [test_len*]\n"),
        hook("second", "tool", "before_execution", "filter", DENY)
            .replace("hook: tool\n", "hook: tool\n      tools: [test_length]\n")
    );
    let mut client = bench.launch(&hooks).stdio();
    client.initialize();
    let told = client.call("test_length", json!({"text": "abc", "workspace": "default"})).err();
    assert_eq!(told, "denied by hook \"second\": not on a Sunday");
    let expected = json!({"hook": "tool", "phase": "before_execution",
                          "request": {"name": "test_length", "args": {"text": "abc", "workspace": "default"}}});
    assert_eq!(bench.written("seen"), [expected.clone(), expected], "in the order of the file");
    assert!(!client.call("test_session", json!({})).ok().is_empty(), "a tool that no hook looks at");
    assert_eq!(bench.written("seen").len(), 2);
}

#[test]
fn a_filter_fails_closed() {
    for (script, why) in [
        ("echo oh no >&2; exit 3", "exit 3; it said: oh no"),
        ("echo yes", "not the JSON object"),
        ("echo \"{}\"", "neither allows nor denies"),
        ("sleep 60", "timed out"),
        ("kill -9 $$", "killed by signal 9"),
    ] {
        let bench = Bench::new();
        let hook = hook("strict", "tool", "before_execution", "filter", script) + "      timeout_ms: 1000\n";
        let mut client = bench.launch(&format!("  hooks:\n{hook}")).stdio();
        client.initialize();
        let told = client.call("test_length", json!({"text": "abc"})).err();
        assert!(told.starts_with("denied by hook \"strict\": ") && told.contains(why), "{script}: {told}");
    }
    let bench = Bench::new();
    let hook =
        "    gone:\n      hook: tool\n      phases: [before_execution]\n      command: ./no-such-hook\n";
    let mut client = bench.launch(&format!("  hooks:\n{hook}")).stdio();
    client.initialize();
    let told = client.call("test_length", json!({"text": "abc"})).err();
    assert!(told.contains("no-such-hook: not found"), "{told}");
}

#[test]
fn a_filter_may_withhold_a_result() {
    let bench = Bench::new();
    let hooks = format!("  hooks:\n{}", hook("censor", "tool", "after_execution", "filter", DENY));
    let mut client = bench.launch(&hooks).stdio();
    client.initialize();
    let told = client.call("test_length", json!({"text": "abc"})).err();
    assert_eq!(told, "result withheld by hook \"censor\": not on a Sunday");
    assert_eq!(bench.written("seen")[0]["response"]["content"][0]["text"], "3");
}

#[test]
fn an_observer_is_never_waited_for_and_its_faults_are_logged() {
    let bench = Bench::new();
    let slow = r#"cat >> $DIR/seen; while [ ! -e $DIR/go ]; do sleep 0.05; done; touch $DIR/done; exit 7"#;
    let hook = hook("watcher", "tool", "after_execution", "observe", slow) + "      timeout_ms: 30000\n";
    let mut client = bench.launch(&format!("  hooks:\n{hook}")).stdio();
    client.initialize();
    assert_eq!(client.call("test_length", json!({"text": "abc"})).ok(), "3", "while the hook still runs");
    assert!(!bench.path("done").exists());
    fs::write(bench.path("go"), "").unwrap();
    eventually("the hook ends", || bench.path("done").exists());
    printed(client.process(), "exit 7");
}

#[test]
fn what_hooks_see_is_scrubbed() {
    let bench = Bench::new();
    let hooks = format!("  hooks:\n{}", hook("reader", "tool", "before_execution", "filter", ALLOW));
    let launch = bench.launch(&hooks).env("CODEGEN_SANDBOX_SECRET_DEPLOY", "hunter2-hunter2");
    let mut client = launch.stdio();
    client.initialize();
    client.call("test_length", json!({"text": "the key is hunter2-hunter2"})).ok();
    let seen = fs::read_to_string(bench.path("seen")).unwrap();
    assert!(seen.contains("[REDACTED:") && !seen.contains("hunter2-hunter2"), "{seen}");
}

#[test]
fn session_hooks_see_a_session_from_its_first_call_to_its_end() {
    let bench = Bench::new();
    let hooks = format!(
        "  hooks:\n{}",
        hook("log", "session", "session_start, session_update, session_end", "filter", ALLOW)
    );
    let mut client = bench.launch(&hooks).stdio();
    client.initialize();
    client.call("test_length", json!({"text": "abc"})).ok();
    client.close();
    assert!(client.process().wait().success());
    let phases: Vec<String> =
        bench.written("seen").iter().map(|event| event["phase"].as_str().unwrap().to_owned()).collect();
    assert_eq!(phases, ["session_start", "session_update", "session_end"]);
    assert_eq!(bench.written("seen")[0]["event"]["session_id"], "stdio");
}

#[test]
fn a_session_may_be_denied() {
    let bench = Bench::new();
    let hooks = format!("  hooks:\n{}", hook("door", "session", "session_start", "filter", DENY));
    let mut client = bench.launch(&hooks).stdio();
    client.initialize();
    for _ in 0..2 {
        let told = client.call("test_length", json!({"text": "abc"})).err();
        assert_eq!(told, "session denied by hook \"door\": not on a Sunday");
    }
    assert_eq!(bench.written("seen").len(), 1, "asked once");
}

#[test]
fn a_hangup_reads_it_again_and_sessions_go_on() {
    let bench = Bench::new();
    let served = bench.launch("  hooks: {}\n").serve();
    let mut client = served.http();
    client.initialize();
    let session = client.call("test_session", json!({})).ok();
    bench.write(&format!("  hooks:\n{}", hook("new", "tool", "before_execution", "filter", DENY)));
    served.process().signal("HUP");
    printed(served.process(), "the configuration was read again");
    let told = client.call("test_session", json!({})).err();
    assert!(told.contains("denied by hook \"new\""), "{told}");
    bench.write("  hoks: {}\n");
    served.process().signal("HUP");
    printed(served.process(), "everything stays as it was");
    printed(served.process(), "runtime.yaml:4:3: spec: unknown key \"hoks\"; did you mean \"hooks\"?");
    assert!(client.call("test_session", json!({})).is_error(), "the old settings are still in force");
    bench.write("  hooks: {}\n");
    served.process().signal("HUP");
    eventually("the hook is gone", || !client.call("test_session", json!({})).is_error());
    assert_eq!(client.call("test_session", json!({})).ok(), session, "the same session all along");
}

#[test]
fn check_says_what_is_wrong_and_where() {
    let bench = Bench::new();
    let check = |spec: &str| {
        let file = bench.write(spec);
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_codegen-sandbox"));
        let output = command.args(["config", "check"]).arg(file).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&text).into_owned())
    };
    let (code, text) =
        check("  sandboxes:\n    plain: { mode: direct }\n  tools: { default_sandbox: plain }\n");
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("ok (1 sandboxes, 0 languages, 0 hooks)"), "{text}");
    for (spec, hints) in [
        ("  sandboxes:\n    a: { mode: isolatd }\n", ["yaml:5:10", "did you mean \"isolated\"?"]),
        ("  sandboxes:\n    a: { mode: isolated, memry: 2GiB }\n", ["yaml:5:26", "did you mean \"memory\"?"]),
        ("  sandboxes:\n    a: { mode: docker_exec }\n", ["yaml:5:5", "container"]),
        ("  languages:\n    cobol: { sandbox: direct }\n", ["yaml:5:5", "no detector for this language"]),
        (
            "  sandboxes:\n    a: { mode: docker_exec, container: c, workdir: ws }\n  languages:\n    go: { sandbox: a }\n",
            ["yaml:5:43", "absolute path"],
        ),
        ("  sandboxes:\n    a: { mode: isolated, netwrok: , }\n", ["yaml:5:26", "did you mean \"network\"?"]),
        ("  sandboxes:\n    a: { mode: isolated, network: null }\n", ["yaml:5:26", "none, loopback or host"]),
        ("  sandboxes:\n    a: { mode: docker_exec, container: c, user: }\n", ["yaml:5:43", "has no value"]),
        (
            "  hooks:\n    a: { hook: tool, phases: [before_execution], command: x, tools: [Bash, bash] }\n",
            ["yaml:5:76", "\"bash\" matches no tool; did you mean \"Bash\"?"],
        ),
        (
            "  hooks:\n    a: { hook: tool, phases: [before_execution], command: x, tools: [\"Run_*\"] }\n",
            ["yaml:5:70", "did you mean \"run_*\"?"],
        ),
        ("  scrub: { patterns: { x: \"(\" } }\n", ["yaml:4:24", "spec.scrub.patterns.x: "]),
        ("  tools: { enabled: [files, shel] }\n", ["yaml:4:29", "did you mean \"shell\"?"]),
    ] {
        let (code, text) = check(spec);
        assert_eq!(code, Some(2), "{text}");
        assert!(hints.iter().all(|hint| text.contains(hint)), "{spec}: {text}");
    }
}

#[test]
fn the_published_schema_is_the_current_one() {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_codegen-sandbox"))
        .args(["config", "schema"])
        .output()
        .unwrap();
    let schema: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(schema["title"], "RuntimeConfig");
    let published =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src/reference/runtime-config.schema.json");
    assert!(
        fs::read(published).unwrap() == output.stdout,
        "refresh it: codegen-sandbox config schema > docs/src/reference/runtime-config.schema.json"
    );
}

#[test]
fn limits_and_tools_come_from_the_file_unless_a_flag_says_otherwise() {
    let bench = Bench::new();
    let spec = "  tools: { enabled: [test_length, test_hold] }\n  limits: { calls: 1 }\n";
    let served = bench.launch(spec).serve();
    let mut client = served.http();
    client.initialize();
    let holding = client.start_call("test_hold", json!({}));
    printed(served.process(), "test_hold begun");
    assert!(client.call("test_length", json!({"text": "x"})).err().contains("(limit 1)"));
    client.cancel(holding);
    let output = bench.launch(spec).args(["--tools", "test_length"]).command("tools").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 1);
}

#[test]
fn a_hangup_changes_tools_denylist_patterns_and_limits_under_a_session() {
    let bench = Bench::new();
    let before = "  tools: { enabled: [Bash, test_session, test_hold] }\n";
    let served = bench.launch(before).args(["--grace", "1s"]).serve();
    let mut client = served.sse();
    client.initialize();
    let session = client.call("test_session", json!({})).ok();
    assert!(
        client.call("Bash", json!({"command": "printf 'TICKET-%s' 123456"})).ok().contains("TICKET-123456")
    );

    let after = "  tools: { enabled: [Bash, test_session, test_hold, test_length], denylist: [printf] }\n  \
                 scrub: { patterns: { ticket: \"TICKET-[0-9]{6}\" } }\n  \
                 limits: { calls: 1, body: 1MiB, connections: 1024, connection_idle: 5s }\n  undo: { keep: 7 }\n";
    bench.write(after);
    served.process().signal("HUP");
    printed(
        served.process(),
        "spec.limits.body, spec.limits.connection_idle, spec.undo.keep: changed in the file",
    );
    client.notification("notifications/tools/list_changed");
    let names: Vec<_> = client.tools().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect();
    assert!(names.contains(&"test_length".to_owned()), "{names:?}");
    let holding = client.start_call("test_hold", json!({}));
    printed(served.process(), "test_hold begun");
    assert!(client.call("test_length", json!({"text": "x"})).err().contains("(limit 1)"));
    client.cancel(holding);
    eventually("the only place is free again", || !client.call("test_session", json!({})).is_error());
    assert!(client.call("Bash", json!({"command": "printf x"})).is_error(), "now it is denied");
    let scrubbed = client.call("Bash", json!({"command": "echo TICKET-123456"})).ok();
    assert!(scrubbed.contains("[REDACTED:ticket]"), "{scrubbed}");

    // A name that is no tool, or a pattern that is none, changes nothing at all, and is shown where it stands.
    for bad in ["  tools: { enabled: [Bahs] }\n", "  scrub: { patterns: { broken: \"(\" } }\n"] {
        let said = served.process().printed().matches("everything stays as it was").count();
        bench.write(bad);
        served.process().signal("HUP");
        eventually("it is refused", || {
            served.process().printed().matches("everything stays as it was").count() > said
        });
        assert_eq!(client.call("test_length", json!({"text": "abc"})).ok(), "3");
    }
    assert_eq!(client.call("test_session", json!({})).ok(), session, "the same session all along");
}

#[test]
fn an_audit_line_is_one_json_object() {
    let bench = Bench::new();
    let hooks = format!(
        "  hooks:\n{}",
        hook("gate", "tool", "before_execution", "filter", DENY)
            .replace("hook: tool\n", "hook: tool\n      tools: [test_length]\n")
    );
    let launch = bench.launch(&hooks).env("CODEGEN_SANDBOX_SECRET_DEPLOY", "hunter2-hunter2");
    let mut client = launch.args(["--log", "info,audit=debug"]).stdio();
    client.initialize();
    client.call("Bash", json!({"command": "echo 12345", "secrets": ["DEPLOY"]})).ok();
    client.call("no tool: hunter2", json!({})).err();
    client.call("secret", json!({"name": "NOPE"})).err();
    client.call("test_length", json!({"text": "abc"})).err();
    client.close();
    assert!(client.process().wait().success());
    printed(client.process(), "session_end");
    let text = client.process().printed();
    let lines: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    assert!(lines.iter().all(|line| line["target"] == "audit" && line["timestamp"].is_string()), "{text}");
    let with = |event: Value| {
        let event = event.as_object().unwrap();
        let is = |line: &&Value| event.iter().all(|(key, value)| line[key] == *value);
        assert_eq!(lines.iter().filter(is).count(), 1, "{event:?}\n{text}");
    };
    with(json!({"event": "secret", "name": "DEPLOY", "tool": "Bash", "granted": true, "session": "stdio"}));
    with(json!({"event": "secret", "name": "NOPE", "granted": false}));
    with(json!({"event": "call", "tool": "Bash", "status": "ok", "session": "stdio"}));
    let calls = lines.iter().filter(|line| line["event"] == "call");
    assert!(calls.clone().all(|line| line["bytes"].as_u64() > Some(0)) && calls.count() == 4, "{text}");
    with(json!({"event": "call", "tool": "unknown", "status": "error"}));
    with(json!({"event": "session_start", "session": "stdio", "readonly": false}));
    with(json!({"event": "session_end", "session": "stdio"}));
    with(json!({"event": "hook_denial", "hook": "gate", "phase": "before_execution"}));
    assert!(!text.contains("hunter2"), "{text}");
}

#[test]
fn commands_read_neither_the_folder_of_secrets_nor_the_tokens() {
    let bench = Bench::new();
    // Commands have a /tmp of their own, in which there is nothing to hide.
    let kept = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (secrets, tokens) = (kept.path().join("secrets"), kept.path().join("tokens"));
    fs::create_dir(&secrets).unwrap();
    fs::write(secrets.join("DEPLOY_TOKEN"), "the value to deploy with").unwrap();
    fs::write(&tokens, format!("ann:{ANN}\n")).unwrap();
    fs::write(kept.path().join("beside"), "open").unwrap();
    // That of another server, which some languages may run at.
    let far = kept.path().join("far");
    fs::write(&far, "token-of-the-far-side").unwrap();
    let config = bench.write(&format!(
        "  secrets: {{ reveal: false }}\n  sandboxes:\n    cloud: {{ mode: remote, url: \"http://127.0.0.1:9\", \
         token_file: {} }}\n",
        far.display()
    ));
    let launch = plain(&bench.workspace).arg("--config").arg(config).arg("--secrets-dir").arg(&secrets);
    let served = launch.arg("--auth-token-file").arg(&tokens).serve();
    let mut client = served.http_with_token(ANN);
    client.initialize();
    let command = format!("cd {}; rev beside secrets/DEPLOY_TOKEN tokens far; true", kept.path().display());
    let said = client.call("Bash", json!({"command": command})).ok();
    let backwards = |text: &str| text.chars().rev().collect::<String>();
    assert!(said.contains("nepo"), "{said}");
    for kept in ["to deploy with", ANN, "token-of-the-far-side"] {
        assert!(!said.contains(&backwards(kept)), "{said}");
    }
}
