//! Code by meaning, with the real language servers, over one root that holds all four languages.

use crate::{
    support::{Bench, Client, until},
    verify::equipped,
};
use serde_json::json;
use std::{fs, path::Path};

/// The servers whose home is this folder, with everything they started: their processes' numbers.
pub(crate) fn servers(home: &Path) -> Vec<i32> {
    let mut marked: Vec<(Vec<u8>, i32, bool)> = Vec::new();
    for process in fs::read_dir("/proc").unwrap().flatten() {
        let environment = fs::read(process.path().join("environ")).unwrap_or_default();
        let marker =
            environment.split(|b| *b == 0).find(|entry| entry.starts_with(b"CODEGEN_SANDBOX_SERVER="));
        let pid = process.file_name().to_str().and_then(|name| name.parse().ok());
        let Some((marker, pid)) = marker.zip(pid) else { continue };
        // What a server starts may go elsewhere.
        let here = fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(home));
        marked.push((marker.to_vec(), pid, here));
    }
    let ours: Vec<Vec<u8>> =
        marked.iter().filter(|(.., here)| *here).map(|(marker, ..)| marker.clone()).collect();
    marked.retain(|(marker, ..)| ours.contains(marker));
    let mut pids: Vec<i32> = marked.into_iter().map(|(_, pid, _)| pid).collect();
    pids.sort_unstable();
    pids
}

pub(crate) fn signal(pids: &[i32], signal: &str) {
    assert!(!pids.is_empty(), "no server runs");
    for pid in pids {
        // One of them may end with another.
        let _ = std::process::Command::new("kill").args([signal, &pid.to_string()]).output();
    }
}

/// What is asked in one language.
pub(crate) struct Case {
    home: &'static str,
    server: &'static str,
    /// Where the function is used, and where it is defined.
    user: &'static str,
    module: &'static str,
    name: &'static str,
    definition: &'static str,
    references: usize,
    comment: &'static str,
    /// A further module with a function, and its use.
    further: (&'static str, &'static str),
    usage: &'static str,
    sub: &'static str,
    /// A definition that no longer fits its use, and what the server says about the use.
    wider: &'static str,
    misfit: &'static str,
    /// A mistake, and what the server calls it.
    pub(crate) broken: &'static str,
    complaint: &'static str,
    /// One more use of the function.
    again: &'static str,
}

const GO: Case = Case {
    home: "go",
    server: "gopls",
    user: "go/main.go",
    module: "go/calc/calc.go",
    name: "Add",
    definition: "func Add(a, b int) int {",
    references: 2,
    comment: "// x",
    further: ("go/calc/more.go", "package calc\n\nfunc Sub(a, b int) int { return a - b }\n"),
    usage: "\nvar _ = calc.Sub(3, 1)\n",
    sub: "Sub",
    wider: "func Add(a, b, c int) int {",
    misfit: "not enough arguments",
    broken: "\nvar wrong int = \"text\"\n",
    complaint: "cannot use \"text\"",
    again: "\nvar _ = calc.{}(3, 4)\n",
};

const RUST: Case = Case {
    home: "rust",
    server: "rust-analyzer",
    user: "rust/src/main.rs",
    module: "rust/src/calc.rs",
    name: "add",
    definition: "pub fn add(a: i32, b: i32) -> i32 {",
    references: 2,
    comment: "// x",
    further: ("rust/src/more.rs", "pub fn sub(a: i32, b: i32) -> i32 {\n    a - b\n}\n"),
    usage: "\nmod more;\npub fn two() -> i32 { more::sub(3, 1) }\n",
    sub: "sub",
    wider: "pub fn add(a: i32, b: i32, _c: i32) -> i32 {",
    misfit: "expected 3 arguments",
    broken: "\npub fn wrong() -> i32 { \"text\" }\n",
    complaint: "expected i32, found &",
    again: "\npub fn again() -> i32 { calc::{}(3, 4) }\n",
};

const WEB: Case = Case {
    home: "web",
    server: "typescript-language-server",
    user: "web/src/main.ts",
    module: "web/src/calc.ts",
    name: "add",
    definition: "export function add(a: number, b: number): number {",
    references: 3,
    comment: "// x",
    further: ("web/src/more.ts", "export function sub(a: number, b: number): number {\n  return a - b;\n}\n"),
    usage: "\nimport { sub } from \"./more\";\nexport const two = sub(3, 1);\n",
    sub: "sub",
    wider: "export function add(a: number, b: number, _c: number): number {",
    misfit: "Expected 3 arguments",
    broken: "\nexport const wrong: number = \"text\";\n",
    complaint: "Type 'string' is not assignable to type 'number'",
    again: "\nexport const again = {}(3, 4);\n",
};

pub(crate) const PYTHON: Case = Case {
    home: "python",
    server: "pyright",
    user: "python/main.py",
    module: "python/calc.py",
    name: "add",
    definition: "def add(a: int, b: int) -> int:",
    references: 3,
    comment: "# x",
    further: ("python/more.py", "def sub(a: int, b: int) -> int:\n    return a - b\n"),
    usage: "\nfrom more import sub\nprint(sub(3, 1))\n",
    sub: "sub",
    wider: "def add(a: int, b: int, c: int) -> int:",
    misfit: "Argument missing",
    broken: "\nwrong: int = \"text\"\n",
    complaint: "\"int\"",
    again: "\nprint({}(3, 4))\n",
};

/// The last line of a file that has this word, and its column, both from 1.
pub(crate) fn place(bench: &Bench, file: &str, word: &str) -> (usize, usize) {
    let text = fs::read_to_string(bench.root().join(file)).unwrap();
    let (number, line) = text.lines().enumerate().filter(|(_, line)| line.contains(word)).last().unwrap();
    let byte = line.rfind(word).unwrap();
    (number + 1, line[..byte].chars().count() + 1)
}

pub(crate) async fn bash(client: &Client, command: &str) {
    client.ok("Bash", json!({"command": command})).await;
}

/// Definition, references, hover, outline, calls.
async fn asks(bench: &Bench, client: &Client, case: &Case) {
    let Case { user, module, name, .. } = case;
    let (line, col) = place(bench, user, name);
    let (defined, at) = place(bench, module, name);
    let by_place = json!({"file_path": user, "line": line, "col": col});
    let expected = format!(
        "Found 1 definition(s) for symbol at {user}:{line}:{col}:\n1. {module}:{defined}:{at}  {}",
        case.definition
    );
    assert_eq!(client.ok("find_definition", by_place.clone()).await, expected);
    // The end of the name is as good, and so is the name on its line.
    let end = json!({"file_path": user, "line": line, "symbol": name});
    assert_eq!(client.ok("find_definition", end).await, expected);
    let text = client.ok("find_references", json!({"file_path": module, "symbol": name})).await;
    let first = format!("Found {} reference(s) for symbol at {module}:{defined}:{at}:", case.references);
    assert_eq!(text.lines().next(), Some(first.as_str()), "{text}");
    assert!(
        text.contains(&format!("  {}", case.definition)) && text.contains(&format!("{user}:{line}:{col}  ")),
        "{text}"
    );
    let text = client.ok("hover", by_place.clone()).await;
    assert!(text.to_lowercase().contains("adds two numbers"), "{text}");
    let text = client.ok("document_symbols", json!({"file_path": module})).await;
    assert!(text.contains(&format!("\tfunction {name}")), "{text}");
    let text = client.ok("call_hierarchy", json!({"file_path": module, "symbol": name})).await;
    assert!(text.starts_with(&format!("Found 1 call(s) of {name}:\n1. {user}:{line}:{col}  ")), "{text}");
    let text = client.ok("diagnostics", json!({"file_path": user})).await;
    assert!(text.starts_with(&format!("no problems in {user} (")) && text.contains(case.server), "{text}");
}

/// An edit is told what it broke, also in the files that use what it changed.
async fn hears_of_mistakes(bench: &Bench, client: &Client, case: &Case) {
    let Case { user, module, name, .. } = case;
    let (line, _) = place(bench, user, name);
    client.ok("Read", json!({"file_path": module})).await;
    let edit = |old: &str, new: &str| json!({"file_path": module, "old_string": old, "new_string": new});
    let text = client.ok("Edit", edit(case.definition, case.wider)).await;
    let first = format!("replaced 1 occurrence(s) in {module}\npost-edit errors (1, ");
    assert!(text.starts_with(&first) && text.contains(case.server), "{text}");
    assert!(text.contains(&format!("\n{user}:{line}:")) && text.contains(case.misfit), "{text}");
    let mut back = edit(case.wider, case.definition);
    back["feedback"] = json!("none");
    assert_eq!(client.ok("Edit", back).await, format!("replaced 1 occurrence(s) in {module}"));
    // What was there before is not told again.
    let text =
        client.ok("Edit", edit(case.definition, &format!("{}\n{}", case.comment, case.definition))).await;
    assert!(!text.contains("post-edit errors"), "{text}");
    bash(client, &format!("sed -i '\\|^{}$|d' {module}", case.comment)).await;
}

/// What changes through our tools, a shell or whoever else is seen by the next question.
async fn stays_fresh(bench: &Bench, client: &Client, case: &Case) {
    let Case { user, module, name, comment, .. } = case;
    let definition = async |word: &str, expected: String| {
        let (line, col) = place(bench, user, word);
        let text = client.ok("find_definition", json!({"file_path": user, "line": line, "col": col})).await;
        assert!(text.contains(&expected), "{expected} is not in {text}");
    };
    let (line, at) = place(bench, module, name);
    client.ok("Read", json!({"file_path": module})).await;
    let edit = json!({
        "file_path": module, "old_string": case.definition, "new_string": format!("{comment}\n{}", case.definition),
    });
    client.ok("Edit", edit).await;
    definition(name, format!("{module}:{}:{at}  ", line + 1)).await;
    bash(client, &format!("sed -i '1i {comment}' {module}")).await;
    definition(name, format!("{module}:{}:{at}  ", line + 2)).await;
    let (file, text) = case.further;
    bash(client, &format!("printf '%s' '{text}' > {file}; printf '%s' '{}' >> {user}", case.usage)).await;
    let (line, at) = place(bench, file, case.sub);
    definition(case.sub, format!("{file}:{line}:{at}  ")).await;
    fs::write(bench.root().join(user), {
        let before = fs::read_to_string(bench.root().join(user)).unwrap();
        before + case.broken
    })
    .unwrap();
    let text = client.ok("diagnostics", json!({"file_path": user})).await;
    assert!(
        text.contains("1 problem(s)") && text.contains(": error: ") && text.contains(case.complaint),
        "{text}"
    );
    let before = fs::read_to_string(bench.root().join(user)).unwrap();
    fs::write(bench.root().join(user), before.replace(case.broken, "")).unwrap();
    let text = client.ok("diagnostics", json!({"file_path": user})).await;
    assert!(text.starts_with("no problems in "), "{text}");
}

/// A new name everywhere, shown first and written then.
async fn renames(bench: &Bench, client: &Client, case: &Case) {
    let Case { user, module, name, .. } = case;
    let (line, col) = place(bench, user, &format!("{name}(1"));
    let mut args = json!({"file_path": user, "line": line, "col": col, "new_name": "Plus"});
    let read = |file: &str| fs::read_to_string(bench.root().join(file)).unwrap();
    let before = (read(user), read(module));
    let text = client.ok("rename_symbol", args.clone()).await;
    assert!(text.starts_with("Rename → \"Plus\" would touch 2 file(s):\n--- a/"), "{text}");
    assert!(text.contains("Plus(1, 2)") && text.contains(&format!("+++ b/{module}\n")), "{text}");
    assert_eq!(before, (read(user), read(module)), "a preview writes nothing");
    // What somebody adds after the preview is renamed as well.
    let again = case.again.replace("{}", name);
    fs::write(bench.root().join(user), before.0 + &again).unwrap();
    // Read before, so that an edit after the rename needs no further look.
    client.ok("Read", json!({"file_path": user})).await;
    args["apply"] = json!(true);
    let text = client.ok("rename_symbol", args).await;
    assert!(text.contains(&format!("\nM {module}")) && text.contains(&format!("\nM {user}")), "{text}");
    let (main, calc) = (read(user), read(module));
    assert!(main.contains("Plus(1, 2)") && !main.contains(&format!("{name}(1, 2)")), "{main}");
    assert!(main.ends_with(&case.again.replace("{}", "Plus")), "{main}");
    assert!(calc.contains("Plus(a"), "{calc}");
    // Nothing is left over: what uses it is right, and the new name has every use of the old one.
    assert!(!text.contains("post-edit errors"), "{text}");
    let text = client.ok("diagnostics", json!({"file_path": user})).await;
    assert!(!text.contains(": error: "), "{text}");
    let text = client.ok("find_references", json!({"file_path": module, "symbol": "Plus"})).await;
    assert!(text.starts_with(&format!("Found {} reference(s)", case.references + 1)), "{text}");
    client
        .ok("Edit", json!({"file_path": user, "old_string": "Plus(1, 2)", "new_string": "Plus(1, 3)"}))
        .await;
    let text = client.ok("find_definition", json!({"file_path": user, "line": line, "symbol": "Plus"})).await;
    assert!(text.starts_with("Found 1 definition(s)") && text.contains(&format!("1. {module}:")), "{text}");
}

/// A server that was killed is started anew.
async fn survives(bench: &Bench, client: &Client, case: &Case) {
    signal(&servers(&bench.root().join(case.home)), "-9");
    let (line, _) = place(bench, case.user, "Plus(1");
    let at = json!({"file_path": case.user, "line": line, "symbol": "Plus"});
    let text = client.ok("find_definition", at).await;
    assert!(text.starts_with("Found 1 definition(s)"), "{text}");
}

async fn every_question(bench: &Bench, case: &Case) {
    let client = bench.client();
    asks(bench, &client, case).await;
    hears_of_mistakes(bench, &client, case).await;
    stays_fresh(bench, &client, case).await;
    renames(bench, &client, case).await;
    survives(bench, &client, case).await;
}

/// A name may be given with what it is in, whatever a server tells of that; and a new one must be a name.
async fn takes_names_with_what_they_are_in(bench: &Bench, client: &Client) {
    bench.write("web/src/box.ts", "export class Box {\n  put(a: number): number {\n    return a;\n  }\n}\n");
    bench.write("python/shapes.py", "# area is computed here\ndef area(w: int, h: int) -> int:\n    return w * h\n\n\nclass Box:\n    def put(self) -> int:\n        return area(1, 2)\n");
    bench.write(
        "rust/src/calc.rs",
        fs::read_to_string(bench.root().join("rust/src/calc.rs")).unwrap()
            + "\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn fails() {}\n}\n",
    );
    for (symbol, place) in [
        ("shapes.area", "python/shapes.py:2:5  "),
        ("shapes.Box.put", "python/shapes.py:7:9  "),
        ("box.Box.put", "web/src/box.ts:2:3  "),
        ("tests::fails", "rust/src/calc.rs:"),
    ] {
        let text = client.ok("find_definition", json!({"symbol": symbol})).await;
        assert!(text.starts_with("Found 1 definition(s)") && text.contains(place), "{symbol}: {text}");
    }
    let text = client.err("hover", json!({"symbol": "Box.put"})).await;
    assert!(text.contains("ambiguous") && text.contains("box.ts") && text.contains("shapes.py"), "{text}");
    // A name that is none is not asked for, and one that breaks a file is not written.
    let rename = |file: &str, symbol: &str, name: &str| json!({"file_path": file, "symbol": symbol, "new_name": name, "apply": true});
    for (file, symbol, name, why) in [
        ("web/src/calc.ts", "Plus", "foo bar", "is no node identifier: letters, digits, _ and $"),
        ("web/src/calc.ts", "Plus", "a;b", "is no node identifier"),
        ("web/src/calc.ts", "Plus", "class", "with \"class\", a reserved word, web/src/"),
        ("python/shapes.py", "area", "", "is no python identifier"),
        ("python/shapes.py", "area", "lambda", "is a reserved word of python"),
    ] {
        let before = fs::read(bench.root().join(file)).unwrap();
        let text = client.err("rename_symbol", rename(file, symbol, name)).await;
        assert!(text.contains(why), "{text}");
        assert_eq!(fs::read(bench.root().join(file)).unwrap(), before);
    }
    // A name that clashes is written as asked, and what that breaks is told.
    bench.write("web/src/two.ts", "export const one = 1;\nexport const two = one + 1;\n");
    client.ok("diagnostics", json!({"file_path": "web/src/two.ts"})).await;
    let text = client.ok("rename_symbol", rename("web/src/two.ts", "one", "two")).await;
    assert!(text.contains("\nM web/src/two.ts\npost-edit errors (") && text.contains("two"), "{text}");
    let text = client.ok("rename_symbol", rename("web/src/box.ts", "put", "delete")).await;
    assert!(text.contains("\nM web/src/box.ts"), "{text}");
}

/// An edit of what many files use looks at some of them and says how many it did not.
async fn says_what_it_did_not_check(bench: &Bench, client: &Client) {
    for n in 0..12 {
        let text = format!("from calc import Plus\n\nprint(Plus({n}, 1))\n");
        bench.write(&format!("python/users/u{n}.py"), text);
    }
    bench.write("python/users/notes.md", "calc");
    client.ok("diagnostics", json!({"file_path": PYTHON.module})).await;
    client.ok("Read", json!({"file_path": PYTHON.module})).await;
    let edit = json!({
        "file_path": PYTHON.module, "old_string": "def Plus(a: int, b: int)",
        "new_string": "def Plus(a: int, b: int, c: int)",
    });
    let text = client.ok("Edit", edit).await;
    let errors = text.lines().filter(|line| line.contains(PYTHON.misfit)).count();
    assert!(text.contains("post-edit errors (") && errors > 0, "{text}");
    assert!(text.contains("\n5 more files that may use it were not checked"), "{text}");
    client.ok("undo", json!({})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_languages_of_one_root() {
    let bench = equipped("polyglot");
    tokio::join!(
        every_question(&bench, &GO),
        every_question(&bench, &RUST),
        every_question(&bench, &WEB),
        every_question(&bench, &PYTHON)
    );
    let client = bench.client();
    let text = client.ok("workspace_symbols", json!({"query": "Plus"})).await;
    for case in [&GO, &RUST, &WEB, &PYTHON] {
        assert!(text.contains(&format!("{}:", case.module)), "{text}");
    }
    let text = client.err("hover", json!({"symbol": "Plus"})).await;
    assert!(text.contains("hover: Plus is ambiguous:\n") && text.contains(RUST.module), "{text}");
    let text = client.ok("find_definition", json!({"symbol": "Stack.Push"})).await;
    assert!(
        text.contains("go/calc/calc.go") && text.contains("func (s *Stack[T]) Push(value T) {"),
        "{text}"
    );
    takes_names_with_what_they_are_in(&bench, &client).await;
    says_what_it_did_not_check(&bench, &client).await;
    // The standard library can be looked at though it lies outside.
    let (line, _) = place(&bench, GO.user, "Println");
    let outside = json!({"file_path": GO.user, "line": line, "symbol": "Println"});
    let text = client.ok("find_definition", outside).await;
    assert!(text.contains("fmt/print.go:") && text.contains("(outside the workspace, read-only; "), "{text}");
    assert!(text.contains("func Println(a ...any) (n int, err error) {"), "{text}");
    let named = text.lines().find_map(|line| line.split_once(". ")?.1.split_once(":")).unwrap().0;
    reads_what_was_named(&client, named).await;
    let text = client
        .err(
            "rename_symbol",
            json!({"file_path": GO.user, "line": line, "symbol": "Println", "new_name": "P"}),
        )
        .await;
    assert!(text.contains("rename_symbol: ") || text.contains("gopls: "), "{text}");
    bench.host.shut_down().await;
    until(async || servers(&bench.root()).is_empty().then_some(())).await;
}

/// A file outside that a server named can be read, and nothing else can be done to it; nothing else outside can.
async fn reads_what_was_named(client: &Client, named: &str) {
    let text = client.ok("Read", json!({"file_path": named, "limit": 3})).await;
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], format!("[{named}: outside the workspace, read-only]"));
    assert!(lines[1].starts_with("1\t// Copyright"), "{text}");
    assert_eq!(lines[4..], ["[lines 1-3; offset=4 reads on]"], "{text}");
    let text = client.ok("Read", json!({"file_path": named, "offset": 5, "limit": 1})).await;
    assert!(text.contains("\n5\tpackage fmt\n"), "{text}");
    let text = client.err("Read", json!({"file_path": named, "offset": 100_000})).await;
    assert_eq!(text, format!("{named} has no line 100000"));
    let edit = json!({"file_path": named, "old_string": "package fmt", "new_string": "package other"});
    assert!(client.err("Edit", edit).await.contains("is outside the workspace"));
    let beside = named.replace("print.go", "scan.go");
    assert!(client.err("Read", json!({"file_path": beside})).await.contains("is outside the workspace"));
}

/// Feedback tells what an edit brings against the file as it was, whatever was said before; a package is one; what was
/// deleted is missed; what was not looked at is said.
#[tokio::test(flavor = "multi_thread")]
async fn go_feedback_is_about_the_edit_and_the_package() {
    let bench = equipped("polyglot/go");
    for n in 0..9 {
        bench.write(&format!("mods/m{n}/go.mod"), format!("module example.com/m{n}\n\ngo 1.21\n"));
        let name = if n == 8 { "Target" } else { "Other" };
        bench.write(&format!("mods/m{n}/m.go"), format!("package m\n\n// Target\nfunc {name}() {{}}\n"));
    }
    bench.write(
        "calc/twice.go",
        "package calc\n\n// Add is used here: \"Add\"\nfunc Twice(a int) int { return Add(a, a) }\n",
    );
    bench.write("use.go", "package main\n\nfunc used() int { return 1 }\n");
    bench.write("words.py", "Twicefold = 1\n");
    let client = bench.client();
    let edit = |old: &str, new: &str| json!({"file_path": "main.go", "old_string": old, "new_string": new});
    bash(&client, "sed -i 's/calc.Add(/calc.Addd(/' main.go").await;
    let text = client.ok("diagnostics", json!({"file_path": "main.go"})).await;
    assert!(text.contains("undefined: calc.Addd"), "{text}");
    bash(&client, "sed -i 's/calc.Addd(/calc.Add(/' main.go").await;
    client.ok("Read", json!({"file_path": "main.go"})).await;
    let text = client.ok("Edit", edit("calc.Add(", "calc.Addd(")).await;
    assert!(text.contains("post-edit errors (1, gopls):") && text.contains("undefined: calc.Addd"), "{text}");
    client.ok("Edit", edit("calc.Addd(", "calc.Add(")).await;
    // The other file of the package does not name the folder.
    client.ok("Read", json!({"file_path": "calc/calc.go"})).await;
    let edit = json!({"file_path": "calc/calc.go", "old_string": "func Add(a, b int) int {", "new_string": "func Add(a, b, c int) int {"});
    let text = client.ok("Edit", edit).await;
    assert!(text.contains("post-edit errors (2, gopls):"), "{text}");
    assert!(text.contains("\ncalc/twice.go:4:") && text.contains("\nmain.go:"), "{text}");
    client.ok("undo", json!({})).await;
    // A symbol by its name in a file is what the code has, not what a comment has.
    let text = client.ok("find_definition", json!({"file_path": "calc/twice.go", "symbol": "Add"})).await;
    assert!(text.contains("1. calc/calc.go:"), "{text}");
    let text = client.ok("find_definition", json!({"symbol": "calc.Twice"})).await;
    assert!(text.contains("1. calc/twice.go:4:6"), "{text}");
    // The package says what it is called; a word that holds the name starts no server for its language.
    let text = client.ok("find_definition", json!({"symbol": "main.used"})).await;
    assert!(text.contains("1. use.go:3:6"), "{text}");
    let all: Vec<&str> = bench.host.language_servers().iter().map(|server| server.name).collect();
    assert_eq!(all, ["gopls"]);
    // A file that is deleted leaves its users behind.
    client.ok("Read", json!({"file_path": "main.go"})).await;
    let edit =
        json!({"file_path": "main.go", "old_string": "calc.Add(", "new_string": "calc.Twice(1) + calc.Add("});
    let text = client.ok("Edit", edit).await;
    assert!(!text.contains("post-edit errors"), "{text}");
    client.ok("Read", json!({"file_path": "calc/twice.go"})).await;
    let gone = "--- a/calc/twice.go\n+++ /dev/null\n@@ -1,4 +0,0 @@\n-package calc\n-\n-// Add is used here: \"Add\"\n-func Twice(a int) int { return Add(a, a) }\n";
    let text = client.ok("apply_patch", json!({"patch": gone})).await;
    assert!(text.contains("undefined: calc.Twice"), "{text}");
    // Nine projects mention it; one was not asked.
    let text = client.err("find_definition", json!({"symbol": "Target"})).await;
    assert!(
        !text.contains("in this workspace") && text.contains("1 more project(s) were not asked: mods/m8"),
        "{text}"
    );
    for name in ["1x", "func", ""] {
        let rename = json!({"file_path": "calc/calc.go", "symbol": "Add", "new_name": name, "apply": true});
        let text = client.err("rename_symbol", rename).await;
        assert!(text.starts_with(&format!("rename_symbol: new_name \"{name}\" is ")), "{text}");
    }
}
