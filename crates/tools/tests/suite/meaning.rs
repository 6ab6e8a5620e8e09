//! What language servers tell about code that is used by ways around, and what is made of what they leave out.

use crate::{
    loading::programs,
    support::{Bench, Client, Setup},
    verify::{copy, equipment, equipped, fixture},
};
use serde_json::{Value, json};
use std::{fs, os::unix::fs::symlink};

fn read(bench: &Bench, file: &str) -> String {
    fs::read_to_string(bench.root().join(file)).unwrap()
}

/// Reads a file and edits it.
async fn edit(client: &Client, file: &str, old: &str, new: &str) -> String {
    client.ok("Read", json!({"file_path": file})).await;
    client.ok("Edit", json!({"file_path": file, "old_string": old, "new_string": new})).await
}

/// Rust that does not compile is not taken for fine by a server that is up, and what it cannot see is said.
#[tokio::test(flavor = "multi_thread")]
async fn rust_that_does_not_compile_is_told() {
    let bench = equipped("polyglot/rust");
    bench.write("src/lib.rs", "pub mod other;\npub fn total(a: i32) -> i32 {\n    a\n}\n");
    bench.write("src/other.rs", "pub fn two() -> i32 {\n    crate::total(1)\n}\n");
    let client = bench.client();
    client.ok("find_references", json!({"file_path": "src/lib.rs", "symbol": "total"})).await;
    let text = client.ok("diagnostics", json!({"file_path": "src/other.rs"})).await;
    let fine = "no problems in src/other.rs (rust-analyzer does not check ";
    assert!(text.starts_with(fine) && text.ends_with(": run_typecheck does)"), "{text}");
    // Who uses it does not name its file.
    let text = edit(&client, "src/lib.rs", "(a: i32)", "(a: i32, _b: i32)").await;
    assert!(text.contains("\nsrc/other.rs:2:") && text.contains("expected 2 arguments"), "{text}");
    let text = edit(&client, "src/lib.rs", "(a: i32, _b: i32)", "(a: i32)").await;
    assert!(!text.contains("post-edit errors"), "{text}");
    // The linter sees more; on a quick machine it comes in time.
    assert_eq!(text.contains("\nlint"), text.contains("run_typecheck"), "{text}");
    for (old, new, code) in [
        ("    a\n", "    a + nowhere\n", "E0425"),
        ("    a\n", "    nothing(a)\n", "E0425"),
        ("pub mod other;\n", "pub mod other;\nuse other::three;\n", "E0432"),
        ("pub fn total(a: i32) -> i32 {\n    a\n}\n", "", "\nsrc/other.rs:2:"),
    ] {
        let text = edit(&client, "src/lib.rs", old, new).await;
        assert!(
            text.contains("post-edit errors (1, rust-analyzer):") && text.contains(code),
            "{new}: {text}"
        );
        client.ok("undo", json!({})).await;
    }
    // A new file that no module names is not compiled: it is not taken for fine either.
    let lost = json!({"file_path": "src/lost.rs", "content": "pub fn one() -> i32 {\n    \"text\"\n}\n"});
    let text = client.ok("Write", lost).await;
    assert!(text.contains("\nsrc/lost.rs:1:1: hint: no `mod` names this file"), "{text}");
    let text = edit(&client, "src/lost.rs", "text", "texts").await;
    assert!(!text.contains("no `mod` names"), "what was known is not said again: {text}");
    // Nothing is found in it, and why is said.
    for tool in ["find_definition", "find_references", "hover", "call_hierarchy"] {
        let text = client.ok(tool, json!({"file_path": "src/lost.rs", "line": 1, "symbol": "one"})).await;
        assert!(
            text.ends_with("\nno `mod` names src/lost.rs: nothing in it is known until one does"),
            "{text}"
        );
    }
    bench.write("src/other.rs", "pub fn two() -> i32 {\n    totals(1)\n}\n");
    let text = client.ok("diagnostics", json!({"file_path": "src/other.rs"})).await;
    assert!(text.contains("1 problem(s)") && text.contains("E0425"), "{text}");
}

const SHAPE: &str = "export default class Shape {\n  static make(): Shape {\n    return new Shape();\n  }\n  area(): number {\n    return 1;\n  }\n}\nexport const View = (props: { shape: Shape }) => <b>{props.shape.area()}</b>;\n";
const USE: &str =
    "import Shape, { View } from \"./shape\";\nexport const shown = <View shape={Shape.make()} />;\n";
const API: &str = "import { add } from \"./calc\";\nexport interface Api {\n  add(a: number, b: number): number;\n}\nexport const plain = { add };\nexport const typed: Api = { add };\nexport const sum = plain.add(1, 2) + typed.add(3, 4);\nexport function other({ add }: Api) {\n  return { add };\n}\n";

async fn knows_tsx(bench: &Bench, client: &Client) {
    // The import of a default is not another symbol of that name.
    let text = client.ok("find_references", json!({"symbol": "Shape"})).await;
    assert!(
        text.contains("for symbol at src/shape.tsx:1:22:") && text.contains("src/use.tsx:1:8  "),
        "{text}"
    );
    let text =
        client.ok("find_definition", json!({"file_path": "src/use.tsx", "line": 2, "symbol": "View"})).await;
    assert!(text.contains("1. src/shape.tsx:9:14  export const View"), "{text}");
    let text = client.ok("document_symbols", json!({"file_path": "src/shape.tsx"})).await;
    assert!(text.contains("class Shape") && text.contains("method area"), "{text}");
    let calls = json!({"file_path": "src/shape.tsx", "symbol": "View", "outgoing": true});
    let text = client.ok("call_hierarchy", calls).await;
    assert!(
        text.starts_with("Found 1 call(s) made by View:\n1. src/shape.tsx:9:") && text.contains("area"),
        "{text}"
    );
    // What an edit breaks in one is told, and so is what it breaks behind a file that only passes things on.
    let text = edit(client, "src/shape.tsx", "area(): number {", "area(by: number): number {").await;
    assert!(text.contains("\nsrc/shape.tsx:9:") && text.contains("Expected 1 arguments"), "{text}");
    client.ok("undo", json!({})).await;
    client.ok("find_references", json!({"file_path": "src/lib/deep.ts", "symbol": "deep"})).await;
    let text = edit(client, "src/lib/deep.ts", "(a: number)", "(a: number, b: number)").await;
    assert!(text.contains("\nsrc/app.ts:2:") && text.contains("Expected 2 arguments"), "{text}");
    client.ok("undo", json!({})).await;
    // Files are called by their names in the workspace.
    let all = read(bench, "src/lib/deep.ts");
    let text = edit(client, "src/lib/deep.ts", &all, "const none = 1;\n").await;
    assert!(text.contains("File 'src/lib/deep.ts' is not a module"), "{text}");
    client.ok("undo", json!({})).await;
    let rename = json!({"symbol": "Shape.area", "new_name": "size", "apply": true});
    client.ok("rename_symbol", rename).await;
    assert_eq!(read(bench, "src/shape.tsx"), SHAPE.replace("area", "size"));
}

const TAKEN: &str = "import { gone } from \"missing\";\nexport { other } from \"missing\";\nexport function f(s: string) {\n  const { data = 1 } = JSON.parse(s);\n  return data + gone;\n}\n";

/// What a variable is taken from keeps its name where nobody knows what that is.
async fn renames_what_was_taken(bench: &Bench, client: &Client) {
    for tool in ["find_definition", "find_references"] {
        let text = client.ok(tool, json!({"file_path": "src/taken.ts", "line": 5, "symbol": "gone"})).await;
        assert!(
            text.ends_with(
                "-server does not know what \"missing\" exports: uses in other files are not known"
            ),
            "{text}"
        );
        let text = client.ok(tool, json!({"file_path": "src/use.tsx", "line": 2, "symbol": "View"})).await;
        assert!(!text.contains("does not know"), "{text}");
    }
    for (line, name, old, now, place) in [
        (5, "data", "data", "const { data: plus = 1 }", "src/taken.ts:4"),
        (5, "gone", "gone", "import { gone as plus } from", "src/taken.ts:1"),
        (2, "other", "other", "export { other as plus } from", "src/taken.ts:2"),
    ] {
        let rename = json!({"file_path": "src/taken.ts", "line": line, "symbol": name, "new_name": "plus", "apply": true});
        let text = client.ok("rename_symbol", rename).await;
        let note = "\n1 place(s) write both names, since typescript-language-server does not know";
        assert!(text.contains(note) && text.ends_with(place), "{text}");
        let taken = read(bench, "src/taken.ts");
        assert!(taken.contains(now) && taken.matches(old).count() == 1, "{taken}");
        assert!(name != "other" || read(bench, "src/passed.ts") == "export { plus } from \"./taken\";\n");
        client.ok("undo", json!({})).await;
    }
}

/// A diff of long lines is short.
async fn previews_long_lines(bench: &Bench, client: &Client) {
    bench.write("src/wide.ts", format!("export const wide = 1; // {}\n", "x".repeat(50_000)));
    let rename = json!({"file_path": "src/wide.ts", "symbol": "wide", "new_name": "long"});
    let text = client.ok("rename_symbol", rename).await;
    assert!(text.contains("\n+export const long = 1; // xx") && text.len() < 4000, "{text}");
    assert_eq!(text.matches("x…\n").count(), 2, "{text}");
}

/// Both names are written where a property gets its variable's name.
async fn renames_shorthands(bench: &Bench, client: &Client) {
    let rename = |line: u32| json!({"file_path": "src/api.ts", "line": line, "symbol": "add", "new_name": "plus", "apply": true});
    let text = client.ok("rename_symbol", rename(1)).await;
    assert!(!text.contains("post-edit errors"), "{text}");
    let api = API.replace("{ add } from", "{ plus } from").replace("= { add }", "= { add: plus }");
    assert_eq!(read(bench, "src/api.ts"), api);
    client.ok("undo", json!({})).await;
    assert_eq!(read(bench, "src/api.ts"), API);
    // And the other way round, for the property alone.
    let text = client.ok("rename_symbol", rename(3)).await;
    assert!(!text.contains("post-edit errors"), "{text}");
    let api = API
        .replace("  add(a", "  plus(a")
        .replace("Api = { add }", "Api = { plus: add }")
        .replace("typed.add", "typed.plus")
        .replace("other({ add }", "other({ plus }")
        .replace("return { add }", "return { add: plus }");
    assert_eq!(read(bench, "src/api.ts"), api);
    let text = client.ok("diagnostics", json!({"file_path": "src/api.ts"})).await;
    assert!(text.starts_with("no problems in "), "{text}");
    client.ok("undo", json!({})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn typescript_by_ways_around() {
    let bench = equipped("polyglot/web");
    for (file, text) in [
        ("src/shape.tsx", SHAPE),
        ("src/use.tsx", USE),
        ("src/api.ts", API),
        ("src/taken.ts", TAKEN),
        ("src/passed.ts", "export { other } from \"./taken\";\n"),
        ("src/lib/deep.ts", "export function deep(a: number): number {\n  return a;\n}\n"),
        ("src/lib/index.ts", "export * from \"./deep\";\n"),
        ("src/app.ts", "import { deep } from \"./lib\";\nexport const one = deep(1);\n"),
    ] {
        bench.write(file, text);
    }
    let client = bench.client();
    knows_tsx(&bench, &client).await;
    renames_shorthands(&bench, &client).await;
    renames_what_was_taken(&bench, &client).await;
    previews_long_lines(&bench, &client).await;
    // One file that cannot be written, and none is.
    let odd = b"import { add } from \"./calc\";\n// caf\xe9\nexport const odd = add(1, 2);\n";
    bench.write("src/zz.ts", odd);
    let files = ["src/calc.ts", "src/main.ts", "src/api.ts"];
    let before = files.map(|file| read(&bench, file));
    let rename = json!({"file_path": "src/calc.ts", "symbol": "add", "new_name": "plus", "apply": true});
    let text = client.err("rename_symbol", rename.clone()).await;
    assert_eq!(text, "rename_symbol: src/zz.ts is not UTF-8; convert it first");
    assert_eq!(files.map(|file| read(&bench, file)), before);
    assert_eq!(fs::read(bench.root().join("src/zz.ts")).unwrap(), odd);
    fs::remove_file(bench.root().join("src/zz.ts")).unwrap();
    client.ok("rename_symbol", rename).await;
    assert!(read(&bench, "src/main.ts").contains("plus(1, 2)"));
}

/// A bench whose PATH has nothing but these programs and what every machine has.
fn alone(name: &str, links: &[(&str, std::path::PathBuf)]) -> Bench {
    let mut setup = Setup::default();
    let tools = programs(name);
    for (name, real) in links {
        let _ = fs::remove_file(tools.join(name));
        symlink(real, tools.join(name)).unwrap();
    }
    setup.settings.environment.retain(|(name, _)| name != "PATH" && name != "VIRTUAL_ENV");
    setup.settings.environment.push(("PATH".to_owned(), format!("{}:/usr/bin:/bin", tools.display())));
    setup.bench()
}

/// The project's own server comes before another that is better known; a list that is cut goes on where it was cut;
/// what a package passes on is used through it.
#[tokio::test(flavor = "multi_thread")]
async fn a_project_has_a_server_of_its_own() {
    let real = |program: &str| testkit::tools::python("python").with_file_name(program);
    let program = "basedpyright-langserver";
    let bench = alone("known-server", &[(program, real(program))]);
    bench.write("pyproject.toml", "[project]\nname = \"x\"\nversion = \"0\"\n");
    bench.write(".venv/pyvenv.cfg", "home = /usr/bin\n");
    bench.write(".venv/bin/activate", "");
    symlink(real("ty"), bench.root().join(".venv/bin/ty")).unwrap();
    bench.write("pkg/_impl.py", "def add(a: int) -> int:\n    return a\n");
    bench.write("pkg/__init__.py", "from ._impl import add\n\n__all__ = [\"add\"]\n");
    let uses: String = (0..150).map(|n| format!("x{n} = add({n})\n")).collect();
    bench.write("app.py", format!("from pkg import add\n\n{uses}"));
    bench.write("wrong.py", "from pkg import add\n\nadd(\"one\")\n");
    let client = bench.client();
    // It says some time after its start that it can be asked.
    let text = client.ok("diagnostics", json!({"file_path": "wrong.py"})).await;
    assert!(text.starts_with("1 problem(s) in wrong.py (ty):\nwrong.py:3:"), "{text}");
    fs::remove_file(bench.root().join("wrong.py")).unwrap();
    let text = client.ok("diagnostics", json!({"file_path": "app.py"})).await;
    assert_eq!(text, "no problems in app.py (ty)");
    let list = |offset: Value| json!({"file_path": "app.py", "line": 3, "symbol": "add", "offset": offset});
    let first = client.ok("find_references", list(Value::Null)).await;
    let last = first.lines().last().unwrap();
    assert!(last.ends_with("; offset=100 goes on"), "{first}");
    let rest = client.ok("find_references", list(json!(100))).await;
    assert!(rest.lines().nth(1).unwrap().starts_with("101. ") && !rest.contains('…'), "{rest}");
    assert_eq!(first.lines().next(), rest.lines().next());
    for n in 0..150 {
        let line = format!("  x{n} = add({n})");
        assert!(first.lines().chain(rest.lines()).any(|it| it.ends_with(&line)), "{line}");
    }
    let text = edit(&client, "pkg/_impl.py", "(a: int)", "(a: int, b: int)").await;
    assert!(text.contains("post-edit errors (150, ty):") && text.contains("\napp.py:3:"), "{text}");
}

/// Where only a TypeScript 7 is installed, it serves.
#[tokio::test(flavor = "multi_thread")]
async fn typescript_7_serves_from_the_path() {
    let path = testkit::tools::search_path();
    let node = std::env::split_paths(&path).map(|folder| folder.join("node")).find(|node| node.is_file());
    let links = [
        ("tsc", testkit::tools::node_modules().join("typescript7/bin/tsc")),
        ("node", node.expect("node is on the PATH")),
    ];
    let bench = alone("tsc-alone", &links);
    copy(&fixture("polyglot/web"), &bench.root());
    let at = json!({"file_path": "src/main.ts", "symbol": "add"});
    let text = bench.client().ok("find_definition", at).await;
    assert!(text.contains("1. src/calc.ts:2:17  export function add("), "{text}");
}

/// pyright tells the last of those with one name alone.
#[tokio::test(flavor = "multi_thread")]
async fn all_declarations_of_a_name_are_listed() {
    let bench = equipment(Setup::default());
    bench.write("pyproject.toml", "[project]\nname = \"p\"\nversion = \"0\"\n");
    bench.write(
        "a.py",
        "import sys\nfrom typing import overload\n\n\n@overload\ndef f(x: int) -> int: ...\n@overload\ndef f(x: str) -> str: ...\ndef f(x):\n    return x\n\n\nif sys.platform == \"win32\":\n    def g():\n        return 1\nelse:\n    def g():\n        return 2\n\n\nclass K:\n    @property\n    def v(self):\n        return 1\n\n    @v.setter\n    def v(self, new):\n        pass\n",
    );
    let client = bench.client();
    let text = client.ok("document_symbols", json!({"file_path": "a.py"})).await;
    let rows: Vec<&str> = text.lines().filter(|row| !row.contains("variable ")).collect();
    let expected = [
        "5-6\tfunction f",
        "7-8\tfunction f",
        "9-10\tfunction f",
        "14-15\tfunction g",
        "17-18\tfunction g",
        "21-28\tclass K",
        "22-24\t  method v",
        "26-28\t  method v",
    ];
    assert_eq!(rows[1..], expected, "{text}");
}
