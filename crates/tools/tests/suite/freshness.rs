//! Changes where nobody would look for them: above a project, in folders that rules ignore, in crates that their
//! workspace leaves out.

use crate::{
    language_servers::{bash, place},
    server_lives::install_typescript_7,
    support::Client,
    verify::equipped_over as bench,
};
use serde_json::json;

async fn diagnostics(client: &Client, file: &str) -> String {
    client.ok("diagnostics", json!({"file_path": file})).await
}

/// What a project extends lies above it.
#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_above_the_project_is_seen() {
    let options = |strict: bool| {
        format!(
            "{{\"compilerOptions\": {{\"strict\": {strict}, \"target\": \"es2022\", \"module\": \"esnext\"}}}}\n"
        )
    };
    let bench = bench(&[
        ("tsconfig.base.json", &options(false)),
        ("web/package.json", "{\"name\": \"web\", \"private\": true}\n"),
        ("web/tsconfig.json", "{\"extends\": \"../tsconfig.base.json\", \"include\": [\"src\"]}\n"),
        ("web/src/one.ts", "export function one(x) {\n  return x;\n}\n"),
    ]);
    let client = bench.client();
    let fine = diagnostics(&client, "web/src/one.ts").await;
    assert!(!fine.contains(": error: "), "{fine}");
    bench.write("tsconfig.base.json", options(true));
    let text = diagnostics(&client, "web/src/one.ts").await;
    assert!(
        text.contains("web/src/one.ts:1:21: error: Parameter 'x' implicitly has an 'any' type"),
        "{text}"
    );
    bench.write("tsconfig.base.json", options(false));
    assert_eq!(diagnostics(&client, "web/src/one.ts").await, fine);
}

/// Generated code is ignored more often than not.
#[tokio::test(flavor = "multi_thread")]
async fn sources_that_rules_ignore_are_seen() {
    let bench = bench(&[
        (".gitignore", "gen/\nlater/\n"),
        ("go.mod", "module example.com/shop\n\ngo 1.22\n"),
        (
            "gen/api/api.go",
            "package api\n\ntype Item struct{ Name string }\n\nfunc New() Item { return Item{} }\n",
        ),
        (
            "main.go",
            "package main\n\nimport \"example.com/shop/gen/api\"\n\nfunc main() {\n\titem := api.New()\n\tprintln(item.Name)\n}\n",
        ),
    ]);
    let client = bench.client();
    let ask = json!({"file_path": "main.go", "symbol": "New"});
    let definition = async || {
        let (line, col) = place(&bench, "gen/api/api.go", "New(");
        let text = client.ok("find_definition", ask.clone()).await;
        assert!(text.contains(&format!("1. gen/api/api.go:{line}:{col}  func New() Item")), "{text}");
    };
    definition().await;
    bash(&client, "sed -i '1i // generated' gen/api/api.go").await;
    definition().await;
    bash(
        &client,
        "sed -i 's/Name string/Name, Size string/' gen/api/api.go && sed -i 's/item.Name/item.Size/' main.go",
    )
    .await;
    let text = diagnostics(&client, "main.go").await;
    assert!(text.starts_with("no problems in main.go"), "{text}");
    client.ok("Read", json!({"file_path": "gen/api/api.go"})).await;
    let edit = json!({"file_path": "gen/api/api.go", "old_string": "Name, Size", "new_string": "Name"});
    client.ok("Edit", edit).await;
    let text = diagnostics(&client, "main.go").await;
    assert!(text.contains("item.Size undefined"), "{text}");
    bash(&client, "sed -i 's/item.Size/item.Name/' main.go").await;
    // A folder that was not there when the server started.
    let generate = "mkdir -p later/more && printf 'package more\\n\\nfunc Most() int { return 1 }\\n' > later/more/more.go && \
                    sed -i 's#^import.*#import (\\n\\t\"example.com/shop/gen/api\"\\n\\t\"example.com/shop/later/more\"\\n)\\n\\nvar _ = more.Most()#' main.go";
    bash(&client, generate).await;
    let text = diagnostics(&client, "main.go").await;
    assert!(text.starts_with("no problems in main.go"), "{text}");
    bash(&client, "sed -i 's/Most/Least/' later/more/more.go").await;
    let text = diagnostics(&client, "main.go").await;
    assert!(text.contains("undefined: more.Most"), "{text}");
}

/// So are single files, by a pattern.
#[tokio::test(flavor = "multi_thread")]
async fn sources_that_come_and_are_ignored_are_seen() {
    let bench = bench(&[
        (".gitignore", "*.pb.go\n"),
        ("go.mod", "module example.com/shop\n\ngo 1.22\n"),
        ("main.go", "package main\n\nfunc main() { println(Made()) }\n"),
    ]);
    let client = bench.client();
    let text = diagnostics(&client, "main.go").await;
    assert!(text.contains("undefined: Made"), "{text}");
    for _ in 0..2 {
        bash(&client, "printf 'package main\\n\\nfunc Made() int { return 1 }\\n' > made.pb.go").await;
        let text = diagnostics(&client, "main.go").await;
        assert!(text.starts_with("no problems in main.go"), "{text}");
        bash(&client, "sed -i 's/Made/Other/' made.pb.go").await;
        let text = diagnostics(&client, "main.go").await;
        assert!(text.contains("undefined: Made"), "{text}");
        bash(&client, "rm made.pb.go").await;
    }
    // In a folder that comes with it.
    let generate = "mkdir -p api/v1 && printf 'package v1\\n\\nfunc Made() int { return 1 }\\n' > api/v1/a.pb.go && \
                    printf 'package main\\n\\nimport \"example.com/shop/api/v1\"\\n\\nfunc main() { println(v1.Made()) }\\n' > main.go";
    bash(&client, generate).await;
    let text = diagnostics(&client, "main.go").await;
    assert!(text.starts_with("no problems in main.go"), "{text}");
    bash(&client, "sed -i 's/Made/Other/' api/v1/a.pb.go").await;
    let text = diagnostics(&client, "main.go").await;
    assert!(text.contains("undefined: v1.Made"), "{text}");
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

/// A server for TypeScript looks again at what a project imports when it is asked about the project, not before.
#[tokio::test(flavor = "multi_thread")]
async fn who_uses_a_module_that_moved_is_found() {
    tokio::join!(users_are_found(false), users_are_found(true));
}

async fn users_are_found(native: bool) {
    let project = "{\"compilerOptions\": {\"strict\": true, \"target\": \"es2022\", \"module\": \"esnext\", \"moduleResolution\": \"bundler\"}, \"include\": [\"src\"]}\n";
    let user = |from: &str| {
        format!("import {{ area }} from \"../../core/src/{from}\";\nexport const a = area(1, 2);\n")
    };
    let mut files =
        vec![("package.json", "{\"name\": \"mono\", \"private\": true, \"workspaces\": [\"packages/*\"]}\n")];
    let one = user("size");
    for (file, text) in [
        ("packages/core/tsconfig.json", project),
        ("packages/core/src/size.ts", "export function area(a: number, b: number) {\n  return a * b;\n}\n"),
        ("packages/app/tsconfig.json", project),
        ("packages/app/src/app.ts", &one),
        ("packages/ui/tsconfig.json", project),
        ("packages/ui/src/ui.ts", &one),
    ] {
        files.push((file, text));
    }
    let bench = bench(&files);
    if native {
        install_typescript_7(&bench);
    }
    let client = bench.client();
    let ask = |name: &str| json!({"file_path": format!("packages/core/src/{name}.ts"), "symbol": "area"});
    let known = client.ok("find_references", ask("size")).await;
    assert!(known.starts_with("Found 5 reference(s)"), "{known}");
    assert_eq!(bench.host.language_servers()[0].name == "tsc", native);
    let shift = |from: &str, to: &str| {
        format!(
            "cd packages && mv core/src/{from}.ts core/src/{to}.ts && sed -i 's#src/{from}#src/{to}#' */src/*.ts"
        )
    };
    bash(&client, &shift("size", "measure")).await;
    let text = client.ok("find_references", ask("measure")).await;
    assert_eq!(text, known.replace("size.ts", "measure.ts").replace("src/size\"", "src/measure\""));
    bash(&client, &shift("measure", "extent")).await;
    let mut rename = ask("extent");
    rename["new_name"] = json!("surface");
    rename["apply"] = json!(true);
    let text = client.ok("rename_symbol", rename).await;
    for file in ["packages/app/src/app.ts", "packages/ui/src/ui.ts"] {
        let now = std::fs::read_to_string(bench.root().join(file)).unwrap();
        assert_eq!(now, user("extent").replace("area", "surface"), "{file}: {text}");
    }
}
