//! What a new name must not do: break what was right, or become another thing's name without a word.

use crate::{
    support::{Bench, Client},
    verify::equipped_over as bench,
};
use serde_json::{Value, json};
use std::{fs, os::unix::fs::PermissionsExt as _};

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

/// Only gopls refuses a name that something else has; for the others it is said.
#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_is_taken_is_told() {
    let bench = bench(&[
        ("py/pyproject.toml", "[project]\nname = \"p\"\nversion = \"0\"\n"),
        (
            "py/cap.py",
            "def area(w, h):\n    total = 5\n    return w * h + total\n\n\ndef other(total):\n    return total\n\n\nclass K:\n    def a(self): return 1\n    def b(self): return 2\n",
        ),
        ("web/package.json", "{}"),
        ("web/tsconfig.json", "{}"),
        (
            "web/cap.ts",
            "export function area(w: number, h: number): number {\n  const inner = () => 3;\n  return w * h + inner();\n}\nexport const far = { inner: 1 }.inner;\n",
        ),
        ("rust/Cargo.toml", "[package]\nname = \"r\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"),
        (
            "rust/src/lib.rs",
            "pub fn area(w: f64, h: f64) -> f64 {\n    let total = 5.0;\n    w * h + total\n}\n",
        ),
    ]);
    let client = bench.client();
    let said = |name: &str, places: &str| {
        let count = places.split(", ").count();
        format!(
            "\n{count} place(s) are called `{name}` already; see that none of them is hidden or merged: {places}"
        )
    };
    for (file, line, symbol, new, places) in [
        ("py/cap.py", 1, "w", "total", "py/cap.py:2:5, py/cap.py:3:20"),
        ("py/cap.py", 11, "a", "b", "py/cap.py:12:9"),
        // Where a name of the module is seen, any of its functions may mean something else by it.
        ("py/cap.py", 1, "area", "total", "py/cap.py:2:5, py/cap.py:3:20, py/cap.py:6:11, py/cap.py:7:12"),
        ("web/cap.ts", 1, "h", "inner", "web/cap.ts:2:9, web/cap.ts:3:18"),
        ("rust/src/lib.rs", 1, "w", "total", "rust/src/lib.rs:2:9, rust/src/lib.rs:3:13"),
    ] {
        let mut at = rename(file, line, symbol, new);
        let applied = client.ok("rename_symbol", at.clone()).await;
        assert!(applied.ends_with(&said(new, places)), "{at}: {applied}");
        client.ok("undo", json!({})).await;
        at["apply"] = json!(false);
        let preview = client.ok("rename_symbol", at.clone()).await;
        assert!(preview.ends_with(&said(new, places)), "{at}: {preview}");
    }
    for (file, line, symbol, new) in
        [("py/cap.py", 6, "total", "w"), ("web/cap.ts", 1, "w", "far"), ("rust/src/lib.rs", 1, "w", "q")]
    {
        let text = client.ok("rename_symbol", rename(file, line, symbol, new)).await;
        assert!(!text.contains("already stands"), "{file}: {text}");
    }
}

const DOCUMENTED: &str = "/// Doubles `total`, see [`area`] and [`Self`].\n///\n/// ```\n/// let total = 2;\n/// assert_eq!(r::area(total), 4);\n/// ```\npub fn area(total: i32) -> i32 {\n    println!(\"{total}\");\n    unknown!(\"{total} {}\", total);\n    total * 2\n}\n\npub fn other(total: i32) -> i32 {\n    unknown!(\"{total}\");\n    area(total)\n}\n\npub struct Point {\n    pub x: i32,\n}\n\npub fn make(x: i32) -> Point {\n    Point { x }\n}\n";

/// rust-analyzer passes over documentation, and over what macros are given that it does not know.
#[tokio::test(flavor = "multi_thread")]
async fn what_rust_mentions_is_renamed_or_told() {
    let bench = bench(&[
        ("Cargo.toml", "[package]\nname = \"r\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"),
        ("src/lib.rs", DOCUMENTED),
    ]);
    let client = bench.client();
    let named = |text: &str| {
        text.split_once(" place(s) keep the name")
            .map(|(_, rest)| rest.rsplit_once(": ").unwrap().1.to_owned())
    };
    // Inside its function a variable is meant, elsewhere others are.
    let text = client.ok("rename_symbol", rename("src/lib.rs", 7, "total", "sum")).await;
    let left = "src/lib.rs:9:28, src/lib.rs:1:14, src/lib.rs:9:16";
    assert_eq!(named(&text).as_deref(), Some(left), "{text}");
    assert!(read(&bench, "src/lib.rs").contains("println!(\"{sum}\")"), "{text}");
    client.ok("undo", json!({})).await;
    // A link leads to what it names, an example does not.
    let text = client.ok("rename_symbol", rename("src/lib.rs", 7, "area", "surface")).await;
    assert_eq!(named(&text).as_deref(), Some("src/lib.rs:5:19"), "{text}");
    let now = read(&bench, "src/lib.rs");
    assert!(
        now.contains("[`surface`]") && now.contains("pub fn surface(") && now.contains("r::area("),
        "{now}"
    );
    client.ok("undo", json!({})).await;
    let text = client.ok("rename_symbol", rename("src/lib.rs", 22, "x", "wide")).await;
    assert_eq!(named(&text), None, "{text}");
    assert!(read(&bench, "src/lib.rs").contains("Point { x: wide }"), "{text}");
}

/// What is passed on through `**` has a parameter's name, and no server knows.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_passed_on_to_a_parameter_is_told() {
    let bench = bench(&[
        ("pyproject.toml", "[project]\nname = \"p\"\nversion = \"0\"\n"),
        (
            "a.py",
            "def area(width, height=1):\n    return width * height\n\n\ndef outer(**kwargs):\n    return area(**kwargs)\n\n\ndef other(width):\n    return width\n\n\nouter(width=2, height=3)\narea(width=1)\nother(width=1)\n",
        ),
        ("b.py", "from a import outer\n\nouter(width=5)\n"),
    ]);
    let client = bench.client();
    let text = client.ok("rename_symbol", rename("a.py", 1, "width", "wide")).await;
    assert!(text.contains("\n2 place(s) keep the name, since ") && text.contains("`**` takes"), "{text}");
    assert!(text.ends_with(": a.py:13:7, b.py:3:7"), "{text}");
    assert!(read(&bench, "a.py").ends_with("\narea(wide=1)\nother(width=1)\n"), "{text}");
    // A function's name is no parameter's.
    let text = client.ok("rename_symbol", rename("a.py", 9, "other", "height")).await;
    assert!(!text.contains("keep the name"), "{text}");
}
