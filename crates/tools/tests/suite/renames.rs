//! What a new name must not do: break what was right, or become another thing's name without a word.

use crate::{
    support::{Bench, Client, Setup},
    verify::equipment,
};
use serde_json::{Value, json};
use std::{fs, os::unix::fs::PermissionsExt as _};

fn bench(files: &[(&str, &str)]) -> Bench {
    let bench = equipment(Setup::default());
    for (file, text) in files {
        bench.write(file, text);
    }
    bench
}

fn read(bench: &Bench, file: &str) -> String {
    fs::read_to_string(bench.root().join(file)).unwrap()
}

fn rename(file: &str, line: u32, symbol: &str, new: &str) -> Value {
    json!({"file_path": file, "line": line, "symbol": symbol, "new_name": new, "apply": true})
}

const OWN: &str = "class Impl {\n  run() {\n    return 1;\n  }\n}\nfunction work() {\n  return new Impl();\n}\nexport { Impl as Implementation, work as doWork };\n";
const USER: &str =
    "import { Implementation, doWork } from \"./a\";\nexport const x = new Implementation();\ndoWork();\n";
const BETWEEN: &str = "export { Implementation } from \"./a\";\n";
const BEHIND: &str =
    "import { Implementation } from \"./between\";\nexport const y = new Implementation();\n";

/// What is exported under another name has two names, and each gets a new one alone.
async fn keeps_the_names_of_exports_apart(bench: &Bench, client: &Client) {
    let all = ["src/a.ts", "src/b.ts", "src/between.ts", "src/c.ts"];
    let outside = |name: &str| {
        [
            OWN.replace("as Implementation", &format!("as {name}")),
            USER.replace("Implementation", name),
            BETWEEN.replace("Implementation", name),
            BEHIND.replace("Implementation", name),
        ]
    };
    let inside = OWN.replace("Impl ", "Im ").replace("Impl(", "Im(");
    let inside = [inside, USER.to_owned(), BETWEEN.to_owned(), BEHIND.to_owned()];
    for (at, expected) in [
        (rename("src/a.ts", 1, "Impl", "Im"), inside),
        (rename("src/a.ts", 9, "Implementation", "Xx"), outside("Xx")),
        (rename("src/b.ts", 1, "Implementation", "Xx"), outside("Xx")),
        (rename("src/b.ts", 2, "Implementation", "Xx"), outside("Xx")),
        (rename("src/c.ts", 2, "Implementation", "Xx"), outside("Xx")),
    ] {
        let text = client.ok("rename_symbol", at.clone()).await;
        assert_eq!(all.map(|file| read(bench, file)), expected, "{at}: {text}");
        assert!(!text.contains("post-edit errors") && !text.contains("write both names"), "{at}: {text}");
        client.ok("undo", json!({})).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_under_another_name_is_renamed_alone() {
    let files = [
        ("package.json", "{\"name\": \"x\"}"),
        ("tsconfig.json", "{\"compilerOptions\": {\"strict\": true}, \"include\": [\"src\"]}"),
        ("src/a.ts", OWN),
        ("src/b.ts", USER),
        ("src/between.ts", BETWEEN),
        ("src/c.ts", BEHIND),
    ];
    let classic = bench(&files);
    keeps_the_names_of_exports_apart(&classic, &classic.client()).await;
    let native = bench(&files);
    let installed = testkit::tools::node_modules().join("typescript7");
    let package = fs::read_to_string(installed.join("package.json")).unwrap();
    native.write("node_modules/typescript/package.json", package);
    native.write(
        "node_modules/.bin/tsc",
        format!("#!/bin/sh\nexec {} \"$@\"\n", installed.join("bin/tsc").display()),
    );
    let program = native.root().join("node_modules/.bin/tsc");
    fs::set_permissions(program, fs::Permissions::from_mode(0o755)).unwrap();
    keeps_the_names_of_exports_apart(&native, &native.client()).await;
}
