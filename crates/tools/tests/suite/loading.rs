//! The first answers of rust-analyzer: complete, and about the files as they are, whatever happens while it loads.

use crate::support::{Bench, Setup, watched};
use serde_json::json;
use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio_util::sync::CancellationToken;

/// Stands between the product and a real server, and does something before a message is passed on.
const BETWEEN: &str = r#"#!/usr/bin/python3
import os, subprocess, sys, threading
real = subprocess.Popen(["REAL", *sys.argv[1:]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
loaded = []
def asked(body):
    ASKED
def told(body):
    TOLD
def pass_on(source, into, look):
    while head := source.readline():
        length = 0
        while head.strip():
            if head.lower().startswith(b"content-length:"):
                length = int(head.split(b":")[1])
            head = source.readline()
        body = source.read(length)
        look(body)
        into.write(b"Content-Length: %d\r\n\r\n" % length + body)
        into.flush()
def back():
    pass_on(real.stdout, sys.stdout.buffer, told)
    os._exit(0)
threading.Thread(target=back, daemon=True).start()
pass_on(sys.stdin.buffer, real.stdin, asked)
real.stdin.close()
"#;

/// Puts a program that stands between in place of a server; what it does is Python, indented by four.
pub(crate) fn between(real: &Path, here: &Path, asked: &str, told: &str) {
    let text = BETWEEN.replace("REAL", real.to_str().unwrap()).replace("ASKED", asked).replace("TOLD", told);
    fs::write(here, text).unwrap();
    fs::set_permissions(here, fs::Permissions::from_mode(0o755)).unwrap();
}

/// A folder for programs of a test's own: commands have a /tmp of their own.
pub(crate) fn programs(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// A library, one that a build script writes part of, macros that are programs, and what uses all of them.
const PROJECT: &[(&str, &str)] = &[
    ("Cargo.toml", "[workspace]\nmembers = [\"base\", \"made\", \"derive\", \"app\"]\nresolver = \"2\"\n"),
    ("base/Cargo.toml", "[package]\nname = \"base\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"),
    ("base/src/lib.rs", "pub mod inner;\npub fn origin() -> i32 {\n    1\n}\n"),
    ("base/src/inner.rs", "pub fn near() -> i32 {\n    crate::origin()\n}\n"),
    (
        "made/Cargo.toml",
        "[package]\nname = \"made\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[dependencies]\nbase = { path = \"../base\" }\n",
    ),
    (
        "made/build.rs",
        "fn main() {\n    let out = std::path::PathBuf::from(std::env::var(\"OUT_DIR\").unwrap());\n    std::fs::write(out.join(\"made.rs\"), \"pub fn by_script() -> i32 { 2 }\").unwrap();\n}\n",
    ),
    (
        "made/src/lib.rs",
        "include!(concat!(env!(\"OUT_DIR\"), \"/made.rs\"));\npub fn far() -> i32 {\n    base::origin()\n}\n",
    ),
    (
        "derive/Cargo.toml",
        "[package]\nname = \"derive\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[lib]\nproc-macro = true\n",
    ),
    (
        "derive/src/lib.rs",
        "use proc_macro::TokenStream;\n#[proc_macro_derive(Origin)]\npub fn origin(_: TokenStream) -> TokenStream {\n    \"impl Thing { pub fn by_macro(&self) -> i32 { base::origin() } }\".parse().unwrap()\n}\n",
    ),
    (
        "app/Cargo.toml",
        "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[dependencies]\nbase = { path = \"../base\" }\nmade = { path = \"../made\" }\nderive = { path = \"../derive\" }\n",
    ),
    (
        "app/src/main.rs",
        "#[derive(derive::Origin)]\nstruct Thing;\nfn main() {\n    let _ = base::origin() + made::by_script() + made::far() + base::inner::near();\n    let _ = Thing.by_macro();\n}\n",
    ),
    ("app/tests/it.rs", "#[test]\nfn it() {\n    assert_eq!(base::origin(), 1);\n}\n"),
    ("app/examples/ex.rs", "fn main() {\n    base::origin();\n}\n"),
];

/// Edits of the file that is asked about, of another one, and a new one: made when the server has read all files and
/// before it says so.
const MEANWHILE: &str = "sed -i '1i // one\\n// two' app/src/main.rs
printf 'pub fn farther() -> i32 {\\n    base::origin()\\n}\\n' >> made/src/lib.rs
printf 'pub fn late() -> i32 {\\n    crate::origin()\\n}\\n' > base/src/late.rs
printf 'pub mod late;\\n' >> base/src/lib.rs
";

/// The project, and a rust-analyzer that is meddled with while it loads.
fn meddled() -> Bench {
    let tools = programs("loading-rust-analyzer");
    let asked = "if not loaded and b'\"textDocument/didOpen\"' in body: open('early.txt', 'w').close()
    if not loaded and b'\"textDocument/semanticTokens/range\"' in body: open('rehearsed.txt', 'w').close()";
    let told = "if not loaded and b'\"quiescent\":true' in body:
        loaded.append(1)
        subprocess.run(['sh', 'meanwhile.sh'], check=True)
        open('done.txt', 'w').close()";
    between(&testkit::tools::path("rust-analyzer"), &tools.join("rust-analyzer"), asked, told);
    let path = format!("{}:{}", tools.display(), testkit::tools::search_path().to_string_lossy());
    // A busy machine takes its time: what is answered counts here, not when.
    let mut setup = Setup::default().limits(|limits| limits.server_answer = Duration::from_secs(300));
    setup.settings.environment.retain(|(name, _)| name != "PATH");
    setup.settings.environment.push(("PATH".to_owned(), path));
    let bench = setup.bench();
    for (file, text) in PROJECT {
        bench.write(file, text);
    }
    bench.write("meanwhile.sh", MEANWHILE);
    bench
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_answer_is_complete_and_knows_what_changed_while_it_was_made() {
    let bench = meddled();
    let client = bench.client();
    let (progress, seen) = watched();
    let ask = json!({"file_path": "app/src/main.rs", "symbol": "origin"});
    let mut text = String::new();
    for _ in 0..20 {
        let cancel = CancellationToken::new();
        let reply = client.call_with("find_references", ask.clone(), cancel, progress.clone()).await;
        text = reply.all_text();
        // Many clients wait for a minute and no longer.
        if !text.starts_with("rust-analyzer is still loading the project") {
            assert!(!reply.is_error, "{text}");
            break;
        }
    }
    let places: Vec<&str> =
        text.lines().skip(1).map(|line| line.split_whitespace().nth(1).unwrap_or_default()).collect();
    let expected = [
        "app/examples/ex.rs:2:11",
        "app/src/main.rs:6:19",
        "app/tests/it.rs:3:22",
        "base/src/inner.rs:2:12",
        "base/src/late.rs:2:12",
        "base/src/lib.rs:2:8",
        "made/src/lib.rs:3:11",
        "made/src/lib.rs:6:11",
    ];
    assert_eq!(places, expected, "{text}");
    assert!(bench.root().join("done.txt").exists() && !bench.root().join("early.txt").exists());
    assert!(bench.root().join("rehearsed.txt").exists(), "what is asked first is worked out meanwhile");
    let told = seen.lock().unwrap().iter().any(|update| update.message.contains("rust-analyzer: "));
    assert!(told, "{:?}", seen.lock().unwrap());
    // What a build script wrote and what a macro made are known as well.
    for (name, place) in [("by_script", "made.rs:1:8"), ("by_macro", "app/src/main.rs:3:")] {
        let ask = json!({"file_path": "app/src/main.rs", "symbol": name});
        let text = client.ok("find_definition", ask).await;
        assert!(text.starts_with("Found ") && text.contains(place), "{text}");
    }
    // A crate that came since is known to the next question.
    bench.write("app/src/bin/two.rs", "fn main() {\n    base::origin();\n}\n");
    let text =
        client.ok("find_references", json!({"file_path": "base/src/lib.rs", "symbol": "origin"})).await;
    assert!(text.starts_with("Found 9 reference(s)") && text.contains("app/src/bin/two.rs:2:11"), "{text}");
}
