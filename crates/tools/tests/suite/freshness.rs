//! Changes where nobody would look for them: above a project, in folders that rules ignore, in crates that their
//! workspace leaves out.

use crate::{
    support::{Bench, Client, Setup},
    verify::equipment,
};
use serde_json::json;

fn bench(files: &[(&str, &str)]) -> Bench {
    let bench = equipment(Setup::default());
    for (file, text) in files {
        bench.write(file, text);
    }
    bench
}

async fn diagnostics(client: &Client, file: &str) -> String {
    client.ok("diagnostics", json!({"file_path": file})).await
}

/// A crate that its workspace leaves out is a project of its own.
#[tokio::test(flavor = "multi_thread")]
async fn a_crate_that_its_workspace_leaves_out_is_served() {
    let package =
        |name: &str| format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2021\"\n");
    let out = package("out") + "\n[dependencies]\nbase = { path = \"../base\" }\n";
    let bench = bench(&[
        ("Cargo.toml", "[workspace]\nmembers = [\"base\"]\nexclude = [\"out\"]\nresolver = \"2\"\n"),
        ("base/Cargo.toml", &package("base")),
        ("base/src/lib.rs", "pub fn origin() -> i32 {\n    1\n}\n"),
        ("out/Cargo.toml", &out),
        ("out/src/main.rs", "mod util;\n\nfn main() {\n    util::twice(base::origin());\n}\n"),
        ("out/src/util.rs", "pub fn twice(x: i32) -> i32 {\n    x * 2\n}\n"),
    ]);
    let client = bench.client();
    let text = diagnostics(&client, "out/src/util.rs").await;
    assert!(text.starts_with("no problems in out/src/util.rs"), "{text}");
    for (name, expected) in [("origin", "base/src/lib.rs:1:8"), ("twice", "out/src/util.rs:1:8")] {
        let ask = json!({"file_path": "out/src/main.rs", "line": 4, "symbol": name});
        let text = client.ok("find_definition", ask).await;
        assert!(text.contains(&format!("1. {expected}  ")), "{text}");
    }
    let [status] = &bench.host.language_servers()[..] else { panic!("one server") };
    assert_eq!(status.root, "out");
}
