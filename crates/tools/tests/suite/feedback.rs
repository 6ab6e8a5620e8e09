//! What Edit, Write and apply_patch say about the file they changed.

use crate::{
    support::{Client, Setup},
    verify::{equipment, equipped},
};
use serde_json::json;

async fn edit(client: &Client, file: &str, old: &str, new: &str) -> String {
    client.ok("Read", json!({"file_path": file})).await;
    client.ok("Edit", json!({"file_path": file, "old_string": old, "new_string": new})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn rust_findings_come_apart_from_those_that_were_there() {
    let bench = equipped("rust/lint");
    let client = bench.client();
    client.ok("Read", json!({"file_path": "src/lib.rs"})).await;
    let change =
        |old: &str, new: &str| json!({"file_path": "src/lib.rs", "old_string": old, "new_string": new});
    let text = client
        .ok("Edit", change("fn unused() {}\n", "pub fn two() -> i32 {\n    let x = 2;\n    return x;\n}\n"))
        .await;
    assert!(text.starts_with("replaced 1 occurrence(s) in src/lib.rs\npost-edit lint findings ("), "{text}");
    assert!(text.contains("\nsrc/lib.rs:9:5:clippy::needless_return: "), "{text}");
    assert!(!text.contains("len_zero") && text.contains(" were there before)"), "{text}");
    let text = client.ok("Edit", change("return v.len() == 0;", "v.is_empty()")).await;
    assert!(text.contains("\ncured: clippy::len_zero: "), "{text}");
    assert!(!text.contains("post-edit lint findings"), "{text}");
    let text = client
        .ok(
            "Edit",
            change("pub fn two() -> i32 {\n    let x = 2;\n    return x;\n}", "pub fn two()->i32 { 2 }"),
        )
        .await;
    assert!(text.contains("\n--- format ---\n--- a/src/lib.rs\n+++ b/src/lib.rs\n"), "{text}");
    let text = client.ok("Edit", change("pub fn two()", "pub fn two(")).await;
    assert!(
        text.starts_with("replaced 1 occurrence(s) in src/lib.rs\nsyntax error in src/lib.rs:\n"),
        "{text}"
    );
    assert!(!text.contains("lint"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn go_findings_and_format() {
    let bench = equipped("go/lint");
    // One session: what it says about an edit is what the next one is compared with.
    let client = bench.client();
    // A linter that never ran here compiles the standard library first, which may take longer than feedback waits.
    client.call("run_lint", json!({"timeout": 600})).await;
    let text =
        edit(&client, "lint.go", "\tos.Remove(\"x\")\n", "\tos.Remove(\"x\")\n\tos.Remove( \"y\")\n").await;
    assert!(text.contains("\nlint.go:15:11:errcheck: "), "{text}");
    assert!(text.contains("\n--- format ---\n"), "{text}");
    assert!(text.contains("(3 were there before)"), "{text}");
    // What does not compile hides the other findings: they are neither cured by it nor new when it is gone.
    let text = edit(&client, "lint.go", "os.Remove( \"y\")", "os.Remove(y)").await;
    assert!(text.contains(":typecheck: ") && !text.contains("cured"), "{text}");
    let text = edit(&client, "lint.go", "os.Remove(y)", "os.Remove(\"y\")").await;
    assert!(text.contains("cured: typecheck: "), "{text}");
    assert!(!text.contains("unused"), "{text}");
    // A formatter that cannot work is no syntax error.
    let node = equipped("node/jest");
    node.write(".prettierrc", "{ broken");
    node.write("x.js", "export const a = 1;\n");
    let text = edit(&node.client(), "x.js", "1", "2").await;
    assert!(text.contains("\nformat: ") && !text.contains("syntax error"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_no_language_or_no_project_is_left_alone() {
    let bench = equipped("go/lint");
    bench.write("notes.txt", "one\n");
    bench.write("loose.rs", "fn  x( ) {}\n");
    assert_eq!(
        edit(&bench.client(), "notes.txt", "one", "two").await,
        "replaced 1 occurrence(s) in notes.txt"
    );
    assert_eq!(edit(&bench.client(), "loose.rs", "x", "y").await, "replaced 1 occurrence(s) in loose.rs");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_language_server_speaks_where_there_is_no_manifest() {
    let bench = equipment(Setup::default());
    bench.write("maker.py", "def made(p: int) -> int:\n    return p\n");
    bench.write("n.py", "from maker import made\n\nprint(made(1) + 1)\n");
    bench.write("k.py", "k: int = 1\n");
    let client = bench.client();
    client.ok("hover", json!({"file_path": "maker.py", "line": 1, "symbol": "made"})).await;
    let text = edit(&client, "maker.py", "(p: int)", "(p: int, q: int)").await;
    assert!(text.contains("\npost-edit errors (1, ") && text.contains("\nn.py:3:"), "{text}");
    let text = edit(&client, "maker.py", "return p", "return (p").await;
    assert!(text.contains("\nmaker.py:2:"), "{text}");
    // Several files are asked about together, and once.
    let patch = "--- a/k.py\n+++ b/k.py\n@@ -1 +1 @@\n-k: int = 1\n+k: int = \"1\"\n--- a/n.py\n+++ b/n.py\n@@ -1,3 +1,3 @@\n from maker import made\n \n-print(made(1) + 1)\n+print(g(1) + 1)\n";
    client.ok("Read", json!({"file_path": "k.py"})).await;
    client.ok("Read", json!({"file_path": "n.py"})).await;
    let text = client.ok("apply_patch", json!({"patch": patch})).await;
    assert_eq!(text.matches("post-edit errors").count(), 1, "{text}");
    assert!(text.contains("\nk.py:1:") && text.contains("\nn.py:3:"), "{text}");
}
