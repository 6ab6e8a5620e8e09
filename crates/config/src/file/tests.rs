use super::*;
use crate::hook::HookMode;

fn parse(text: &str) -> Result<RuntimeConfig, FileError> {
    let variable = |name: &str| (name == "POD_NAME").then(|| "web-1".to_owned());
    RuntimeConfig::parse(Path::new("runtime.yaml"), text, &variable)
}

fn wrong(spec: &str) -> String {
    parse(&format!("apiVersion: codegen-sandbox/v1\nkind: RuntimeConfig\nspec:\n{spec}"))
        .unwrap_err()
        .to_string()
}

const FULL: &str = "\
apiVersion: codegen-sandbox/v1
kind: RuntimeConfig
spec:
  sandboxes:
    golang:   { mode: docker_exec, container: go-toolchain, workdir: /workspace }
    locked:   { mode: isolated, network: none, memory: 2GiB }
    sidecar:  { mode: kubectl_exec, pod: ${POD_NAME}, container: hooks }
  tools:
    default_sandbox: locked
  languages:
    go: { sandbox: golang }
  hooks:
    zeta:
      hook: session
      phases: [session_start]
      mode: observe
      command: note
    deny_prod:
      hook: tool
      phases: [before_execution]
      mode: filter
      tools: [\"Bash\", \"run_*\"]
      command: ./hooks/deny-prod.py
      env: [PROD_HOSTS]
      timeout_ms: 3000
      sandbox: sidecar
  limits: { sessions: 5, body: 1MiB, session_idle: 10m, index_budget: 8MiB }
";

#[test]
fn the_examples_of_the_manual_are_read() {
    let block = |page: &'static str| {
        let (_, block) = page.split_once("```yaml\n").unwrap();
        block.split_once("```").unwrap().0
    };
    let config = parse(block(include_str!("../../../../docs/src/configuration.md"))).unwrap();
    assert_eq!((config.default_sandbox.as_deref(), config.undo.keep), (Some("locked"), 100));
    let undo = block(include_str!("../../../../docs/src/snapshots-and-undo.md"));
    let config = parse(&format!("apiVersion: codegen-sandbox/v1\nkind: RuntimeConfig\n{undo}")).unwrap();
    assert_eq!(config.undo.age, Duration::from_secs(7 * 24 * 3600));
}

#[test]
fn everything_that_can_be_said_is_read() {
    let config = parse(FULL).unwrap();
    assert_eq!(config.default_sandbox.as_deref(), Some("locked"));
    assert_eq!(config.languages["go"], "golang");
    let sidecar = config.sandboxes.iter().find(|sandbox| sandbox.name == "sidecar").unwrap();
    assert_eq!((sidecar.mode.as_str(), sidecar.config["pod"].as_str()), ("kubectl_exec", Some("web-1")));
    let names: Vec<&str> = config.hooks.iter().map(|hook| hook.name.as_str()).collect();
    assert_eq!(names, ["zeta", "deny_prod"], "in the order of the file");
    let deny = &config.hooks[1];
    assert_eq!((deny.mode, deny.timeout), (HookMode::Filter, Duration::from_secs(3)));
    assert!(
        deny.command.ends_with("/./hooks/deny-prod.py") && deny.command.starts_with('/'),
        "{}",
        deny.command
    );
    assert!(deny.sees("run_tests") && !deny.sees("Read"));
    assert_eq!((config.limits.sessions, config.limits.body_bytes), (5, 1 << 20));
    assert_eq!(config.limits.index_budget, 8 << 20);
    assert_eq!(config.limits.concurrent_calls, Limits::default().concurrent_calls);
}

#[test]
fn a_misspelt_key_is_shown_where_it_stands() {
    assert_eq!(
        wrong("  sandboxs: {}\n"),
        "runtime.yaml:4:3: spec: unknown key \"sandboxs\"; did you mean \"sandboxes\"? \
         (known: sandboxes, tools, languages, hooks, scrub, limits, undo, secrets)"
    );
    let hook = "  hooks:\n    a: { hook: tool, phases: [before_execution], comand: x }\n";
    let told = wrong(hook);
    assert!(
        told.starts_with(
            "runtime.yaml:5:50: spec.hooks.a: unknown key \"comand\"; did you mean \"command\"?"
        ),
        "{told}"
    );
    let told =
        wrong("  hooks:\n    a:\n      hook: tool\n      phases: [before_exection]\n      command: x\n");
    assert!(
        told.starts_with("runtime.yaml:7:16: ") && told.contains("did you mean \"before_execution\"?"),
        "{told}"
    );
}

#[test]
fn a_key_without_a_value_is_still_a_key() {
    for (spec, place, hint) in [
        ("  sandboxs:\n", "4:3", "did you mean \"sandboxes\"?"),
        ("  toolz: ~\n", "4:3", "did you mean \"tools\"?"),
        ("  limits: { sesions: , calls: 1 }\n", "4:13", "did you mean \"sessions\"?"),
        ("  limits: { sessions: }\n", "4:13", "spec.limits.sessions: "),
        ("  tools: { default_sandbox: null }\n", "4:12", "has no value"),
        ("  tools: { enabled: }\n", "4:12", "has no value"),
        ("  hooks:\n    a:\n", "5:5", "must be a table"),
        ("  scrub: { patterns: { x: } }\n", "4:24", "has no value"),
    ] {
        let told = wrong(spec);
        assert!(
            told.starts_with(&format!("runtime.yaml:{place}: ")) && told.contains(hint),
            "{spec} {place} {hint}: {told}"
        );
    }
    let empty = parse("apiVersion: codegen-sandbox/v1\nkind: RuntimeConfig\nspec:\n  hooks:\n  tools: ~\n");
    assert!(empty.is_ok_and(|config| config.hooks.is_empty()), "a block whose lines are all commented out");
    let sandbox = "  sandboxes:\n    a: { mode: isolated, network: null }\n";
    let config =
        parse(&format!("apiVersion: codegen-sandbox/v1\nkind: RuntimeConfig\nspec:\n{sandbox}")).unwrap();
    assert!(config.sandboxes[0].config["network"].is_null(), "its mode's to judge");
}

#[test]
fn names_must_be_declared() {
    let told =
        wrong("  sandboxes:\n    golang: { mode: direct }\n  languages:\n    go: { sandbox: golnag }\n");
    assert_eq!(
        told,
        "runtime.yaml:7:11: spec.languages.go.sandbox: no sandbox \"golnag\" is declared under spec.sandboxes \
         (declared: golang); did you mean \"golang\"?"
    );
    assert!(wrong("  tools: { default_sandbox: locked }\n").contains("(declared: none)"));
}

#[test]
fn values_must_make_sense() {
    for (spec, place, hint) in [
        ("  sandboxes:\n    a: { mode: x, pod: \"${NOPE}\" }\n", "5:19", "NOPE is not set"),
        ("  limits: { sessions: many }\n", "4:13", "not a whole number"),
        ("  limits: { sessions: 0 }\n", "4:13", "above 0"),
        ("  limits: { body: lots }\n", "4:13", "not a size"),
        (
            "  hooks:\n    a: { hook: session, phases: [before_execution], command: x }\n",
            "5:34",
            "session_start, session_update",
        ),
        ("  hooks:\n    a: { hook: tool, phases: [], command: x }\n", "5:22", "never run"),
        ("  sandboxes:\n    a: {}\n", "5:5", "missing field `mode`"),
        ("  tools: [a]\n", "4:3", "must be a table"),
        ("  hooks: { a: 5 }\n", "4:12", "must be a table"),
        ("  sandboxes: {\n", "", "not YAML"),
    ] {
        let told = wrong(spec);
        assert!(
            told.starts_with(&format!("runtime.yaml:{place}")) && told.contains(hint),
            "{place} {hint}: {told}"
        );
    }
    assert!(parse("kind: RuntimeConfig\n").unwrap_err().why.contains("missing field `apiVersion`"));
    let version = parse("apiVersion: codegen-sandbox/v2\nkind: RuntimeConfig\n").unwrap_err().to_string();
    assert!(version.starts_with("runtime.yaml:1:1: ") && version.contains("codegen-sandbox/v1"), "{version}");
    assert!(parse("").is_err());
}

#[test]
fn the_schema_names_every_key() {
    let schema = json_schema().to_string();
    for key in
        ["apiVersion", "default_sandbox", "timeout_ms", "before_execution", "kubectl_exec", "session_idle"]
    {
        assert!(schema.contains(key), "{key}");
    }
}

#[test]
fn undo_and_secrets_have_switches() {
    let parse =
        |spec: &str| parse(&format!("apiVersion: codegen-sandbox/v1\nkind: RuntimeConfig\nspec:\n{spec}"));
    let config = parse("  undo: { keep: 7, max_age: 2h }\n  secrets: { reveal: false }\n").unwrap();
    assert_eq!((config.undo.keep, config.undo.age), (7, Duration::from_secs(7200)));
    assert!(config.undo.enabled && config.hide_secrets);
    assert!(!parse("  undo: { enabled: false }\n").unwrap().undo.enabled);
    assert!(wrong("  undo: { keep: 0 }\n").contains("spec.undo.keep: must be above 0"));
    assert!(wrong("  undo: { max_age: soon }\n").contains("spec.undo.max_age"));
}

#[test]
fn an_entry_of_the_denylist_that_refuses_nothing_is_named() {
    let said = wrong("  tools: { denylist: [curl, \" \"] }\n");
    assert!(said.contains("spec.tools.denylist[1]: an empty entry refuses nothing"), "{said}");
    for entry in ["*curl", "git pu*"] {
        let said = wrong(&format!("  tools: {{ denylist: [\"{entry}\"] }}\n"));
        assert!(said.contains("spec.tools.denylist[0]: `*` may stand at the end"), "{said}");
    }
    let fine = "apiVersion: codegen-sandbox/v1\nkind: RuntimeConfig\nspec:\n  tools: { denylist: [\"mkfs*\", git push] }\n";
    assert_eq!(parse(fine).unwrap().denylist.map(|list| list.len()), Some(2));
}
