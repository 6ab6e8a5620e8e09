//! Code by name, through the pipeline.

use crate::support::{Bench, Client, Setup};
use serde_json::{Value, json};
use std::fs;

async fn read(client: &Client, path: &str) {
    client.ok("Read", json!({"file_path": path})).await;
}

fn get(bench: &Bench, path: &str) -> String {
    fs::read_to_string(bench.root().join(path)).unwrap()
}

const GO: &str =
    "package p\n\n// Foo is.\nfunc (t *T) Foo(a int) int {\n\treturn a\n}\n\nfunc (u U) Foo() {}\n";

#[tokio::test]
async fn a_body_is_changed_by_name_and_only_if_it_parses() {
    let bench = Bench::new();
    let client = bench.client();
    bench.write("a/f.go", GO);
    let body = |name: &str, new: &str| json!({"file_path": "a/f.go", "function_name": name, "new_body": new});
    let refused = client.err("edit_function_body", body("T.Foo", "return 1")).await;
    assert_eq!(refused, "refusing to edit a/f.go: Read it first");
    read(&client, "a/f.go").await;
    let refused = client.err("edit_function_body", body("T.Foo", "return (1")).await;
    assert!(refused.starts_with("replacement did not parse: line "), "{refused}");
    assert!(refused.ends_with("\nnothing was written"), "{refused}");
    assert_eq!(get(&bench, "a/f.go"), GO);
    let refused = client.err("edit_function_body", body("Foo", "return 1")).await;
    let candidates = "pass one of T.Foo:4 (method), U.Foo:8 (method)";
    assert_eq!(refused, format!("\"Foo\" is ambiguous in a/f.go: 2 candidates\n{candidates}"));
    let refused = client.err("edit_function_body", body("Fu", "return 1")).await;
    assert_eq!(refused, "no function \"Fu\" in a/f.go\nit has T.Foo:4 (method), U.Foo:8 (method)");
    let same = client.ok("edit_function_body", body("T.Foo", "return a")).await;
    assert_eq!(same, "T.Foo in a/f.go already is as asked; nothing written");
    let done = client.call("edit_function_body", body("(*T).Foo", "a++\nreturn a")).await;
    assert_eq!(done.all_text(), "replaced the body of T.Foo in a/f.go (lines 4-7)");
    let facts =
        json!({"path": "a/f.go", "symbol": "T.Foo", "first_line": 4, "last_line": 7, "changed": true});
    assert_eq!(done.structured, Some(facts));
    assert_eq!(get(&bench, "a/f.go"), GO.replace("\treturn a\n", "\ta++\n\treturn a\n"));
    // what was written counts as read, what somebody else wrote does not
    client.ok("edit_function_body", body("U.Foo", "x()")).await;
    bench.write("a/f.go", GO);
    let stale = client.err("edit_function_body", body("U.Foo", "x()")).await;
    assert!(stale.starts_with("refusing to edit a/f.go: it changed since you read it\n"), "{stale}");
    bench.write("notes.txt", "one\n");
    let args = json!({"file_path": "notes.txt", "function_name": "f", "new_body": ""});
    let unknown = client.err("edit_function_body", args).await;
    let known = "go, rust, typescript, tsx, javascript, python";
    let expected =
        format!("edit_function_body has no grammar for notes.txt; it knows {known}\nuse Edit for this file");
    assert_eq!(unknown, expected);
}

#[tokio::test]
async fn symbols_are_inserted_replaced_and_deleted_by_name() {
    let bench = Bench::new();
    let client = bench.client();
    bench.write("m.py", "class A:\n    def f(self):\n        return 1\n\n\nX = 1\n");
    read(&client, "m.py").await;
    let method = json!({
        "file_path": "m.py", "receiver_type": "A", "method_name": "f", "new_method": "def g(self):\n    return 2",
    });
    assert_eq!(client.ok("insert_after_method", method).await, "inserted after A.f in m.py (lines 5-6)");
    let missing = json!({"file_path": "m.py", "receiver_type": "A", "method_name": "h", "new_method": "def g(self): pass"});
    let refused = client.err("insert_after_method", missing).await;
    assert_eq!(refused, "no method \"A.h\" in m.py\nit has A.f:2 (method), A.g:5 (method)");
    let nobody = json!({"file_path": "m.py", "receiver_type": "", "method_name": "f", "new_method": "def g(self): pass"});
    let refused = client.err("insert_after_method", nobody).await;
    let expected = "insert_after_method: `receiver_type` is empty\nfor a function use insert_after_symbol";
    assert_eq!(refused, expected);
    let refused = client.err("delete_symbol", json!({"file_path": ".", "symbol": "A"})).await;
    assert_eq!(refused, "delete_symbol: . is a folder; pass a file");
    for (tool, args) in [
        (
            "change_function_signature",
            json!({"file_path": "m.py", "function_name": "A.g", "new_signature": "def g(self, a: int) -> int"}),
        ),
        ("replace_symbol", json!({"file_path": "m.py", "symbol": "X", "new_code": "X = 2"})),
        ("insert_before_symbol", json!({"file_path": "m.py", "symbol": "X", "new_code": "W = 0"})),
        ("insert_after_symbol", json!({"file_path": "m.py", "symbol": "X", "new_code": "Y = 3"})),
    ] {
        client.ok(tool, args).await;
    }
    let missing = client.err("change_function_signature", json!({"file_path": "m.py"})).await;
    assert!(missing.starts_with("change_function_signature: missing field `function_name`"), "{missing}");
    let gone = client.ok("delete_symbol", json!({"file_path": "m.py", "symbol": "A.f"})).await;
    assert_eq!(gone, "deleted A.f in m.py");
    let expected = "class A:\n    def g(self, a: int) -> int:\n        return 2\n\n\nW = 0\nX = 2\nY = 3\n";
    assert_eq!(get(&bench, "m.py"), expected);
    // each is one step back
    assert!(client.ok("undo", json!({})).await.starts_with("undid delete_symbol: m.py (1 file(s) changed):"));
    assert!(client.ok("undo", json!({})).await.starts_with("undid insert_after_symbol: m.py (1 "));
    let text = get(&bench, "m.py");
    assert!(text.contains("    def f(self):\n") && text.ends_with("W = 0\nX = 2\n"), "{text}");
}

async fn search(client: &Client, args: Value) -> String {
    client.ok("search_code", args).await
}

#[tokio::test(flavor = "multi_thread")]
async fn search_finds_by_words_and_sees_every_change() {
    let bench = Bench::new();
    let client = bench.client();
    bench.write("src/store.rs", "/// Keeps invoices.\npub struct Store;\n\nimpl Store {\n    /// Opens the vault.\n    pub fn openVault(&self, key: Key) -> Vault {}\n}\n");
    bench.write(
        "web/app.ts",
        "/** Renders the total. */\nexport const renderTotal = (rows: Row[]) => rows;\n",
    );
    bench.write("lib/a.py", "def parse_config(text):\n    \"\"\"Parse it.\n\n    More.\n    \"\"\"\n");
    bench.write("J.java", "class J { int computeTax(int a) { return a; } }\n");
    bench.write("c/x.c", "/* frobs */\nstatic int frob_all(int n) { return n; }\n");
    bench.write(".gitignore", "ignored/\n");
    bench.write("ignored/i.go", "package i\nfunc OpenVault() {}\n");
    bench.write(".git/HEAD", "ref: refs/heads/main\n");
    bench.write(".git/info/exclude", "");
    let found = search(&client, json!({"query": "open vault"})).await;
    let expected =
        "src/store.rs:6 method in Store: pub fn openVault(&self, key: Key) -> Vault\n    Opens the vault.";
    assert_eq!(found, expected);
    let config = search(&client, json!({"query": "parseConfig"})).await;
    assert_eq!(config, "lib/a.py:1 function: def parse_config(text):\n    Parse it.");
    assert!(
        search(&client, json!({"query": "compute tax", "language": "Java"}))
            .await
            .starts_with("J.java:1 method in J: ")
    );
    assert!(
        search(&client, json!({"query": "frob"}))
            .await
            .starts_with("c/x.c:2 function: static int frob_all(int n)")
    );
    bench.write("k.ts", "/** On and on. */\nexport class Kestrel {}\n\nlet kestrel = 1;\n");
    for (query, line) in [("Kestrel", 2), ("kestrel", 4)] {
        let spelled = search(&client, json!({"query": query})).await;
        assert!(spelled.starts_with(&format!("k.ts:{line} ")), "{spelled}");
    }
    fs::remove_file(bench.root().join("k.ts")).unwrap();
    let typed =
        search(&client, json!({"query": "total", "language": "typescript", "kind": "function"})).await;
    assert!(
        typed.starts_with("web/app.ts:2 function: export const renderTotal = (rows: Row[]) =>"),
        "{typed}"
    );
    assert_eq!(
        search(&client, json!({"query": "invoices", "kind": "method"})).await,
        "no symbol fits \"invoices\" (5 files indexed); without `kind` and `language` 1 would"
    );
    let reply = client.call("search_code", json!({"query": "Store", "kind": "struct"})).await;
    let facts = reply.structured.unwrap();
    assert_eq!((&facts["total"], &facts["results"][0]["file"]), (&json!(1), &json!("src/store.rs")));

    // by Bash, by Edit, by moving and deleting: the next question knows
    client.ok("Bash", json!({"command": "printf 'def zebra_stripes(): pass\\n' >> lib/a.py; mkdir -p new; printf 'package n\\n\\nfunc ZebraHerd() {}\\n' > new/z.go"})).await;
    let zebras = search(&client, json!({"query": "zebra"})).await;
    assert!(
        zebras.contains("lib/a.py:6 function: def zebra_stripes():") && zebras.contains("new/z.go:3 "),
        "{zebras}"
    );
    client.ok("Bash", json!({"command": "mv new moved; rm lib/a.py; echo 'moved/' >> .gitignore; echo '/c' >> .gitignore"})).await;
    assert_eq!(
        search(&client, json!({"query": "zebra"})).await,
        "no symbol fits \"zebra\" (3 files indexed)"
    );
    bench.write(".git/info/exclude", "/web\n");
    assert_eq!(
        search(&client, json!({"query": "render total"})).await,
        "no symbol fits \"render total\" (2 files indexed)"
    );
    for (args, why) in [
        (json!({"query": " "}), "`query` is empty"),
        (json!({"query": "!?"}), "`query` holds no words; give words of a name"),
        (json!({"query": "a", "kind": "widget"}), "no kind \"widget\"; there are function, method, class"),
        (json!({"query": "a", "language": "cobol"}), "no grammar for \"cobol\"; it knows go, rust"),
    ] {
        let said = client.err("search_code", args).await;
        assert!(said.contains(why), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn search_is_bounded_and_apart_for_each_workspace() {
    let bench = Setup { workspaces: &["a", "b"], ..Setup::default() }.bench();
    let client = bench.client();
    let many: String = (0..150).map(|n| format!("func Widget{n}() {{}}\n")).collect();
    let root = bench.dir.path().join("a");
    fs::write(root.join("w.go"), format!("package w\n{many}")).unwrap();
    let ask = |workspace: &str, limit: u32| json!({"query": "func", "limit": limit, "workspace": workspace});
    let found = client.ok("search_code", ask("a", 1000)).await;
    assert_eq!(found.lines().count(), 101, "{found}");
    assert!(found.ends_with("\n100 of 150; more words or a higher limit (max 100) tell more"), "{found}");
    assert!(client.ok("search_code", ask("b", 5)).await.starts_with("no symbol fits"));
}

#[tokio::test(flavor = "multi_thread")]
async fn search_takes_hostile_files_and_says_what_it_leaves_out() {
    const SIZE: usize = 550 << 10;
    let bench = Bench::new();
    let client = bench.client();
    let nested = |open: &str| open.repeat(SIZE / open.len());
    bench.write("deep.rs", format!("fn first_walrus() {{}}\n{}", nested("{(")));
    bench.write("deep.py", format!("def second_walrus(): pass\nx = {}", nested("([")));
    bench.write("deep.tsx", format!("function third_walrus() {{}}\nconst a = {}", nested("<a>")));
    bench.write("line.js", format!("function fourth_walrus() {{}} {}", nested("f(1);")));
    bench.write("deep.go", format!("package p\n\nfunc FifthWalrus() {{}}\n\nvar x = {}", nested("func() {")));
    let table = |name: &str| format!("export function {name}() {{}}\n// {}\n", "x".repeat(1 << 20));
    for n in 0..4 {
        bench.write(&format!("table{n}.ts"), table("sixth_walrus"));
    }
    let found = loop {
        let found = search(&client, json!({"query": "walrus", "limit": 50})).await;
        if !found.contains("% built") {
            break found;
        }
    };
    // The grammar of each may give up in its own way; what is not found is counted.
    let names = ["first", "second", "third", "fourth", "Fifth"];
    let missed = names.iter().filter(|name| !found.contains(**name)).count();
    let left = format!("{} file(s) left out, larger than 1 MiB or not parsed in time: ", 4 + missed);
    let last = found.lines().last().unwrap_or_default();
    assert!(last.starts_with(&left) && last.ends_with(", …") && !found.contains("sixth"), "{found}");
    for n in 0..4 {
        bench.write(&format!("table{n}.ts"), "export function sixth_walrus() {}\n");
    }
    for file in ["deep.rs", "deep.py", "deep.tsx", "deep.go", "line.js"] {
        fs::remove_file(bench.root().join(file)).unwrap();
    }
    let found = search(&client, json!({"query": "walrus", "limit": 50})).await;
    assert!(found.contains("sixth") && !found.contains("left out"), "{found}");
    bench.write("table0.ts", table("sixth_walrus"));
    let none = search(&client, json!({"query": "giraffe"})).await;
    let left = "1 file(s) left out, larger than 1 MiB or not parsed in time: table0.ts";
    assert_eq!(none, format!("no symbol fits \"giraffe\" (3 files indexed)\n{left}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn search_takes_any_query() {
    let bench = Bench::new();
    let client = bench.client();
    bench.write("a.go", "package a\n\n// OpenVault opens the vault.\nfunc OpenVault() {}\n");
    for query in ["open.*(vault", "open\0vault", "[open", "the vault of a", "OPEN_VAULT", "\"open\" OR 1=1"] {
        let found = search(&client, json!({"query": query})).await;
        assert!(found.starts_with("a.go:4 function: func OpenVault()"), "{query}: {found}");
    }
    for (limit, lines) in [(0, 2), (u32::MAX, 2)] {
        let found = search(&client, json!({"query": "vault", "limit": limit})).await;
        assert_eq!(found.lines().count(), lines, "{found}");
    }
    let none = search(&client, json!({"query": format!("é🦀\n\0{}", "q".repeat(4000))})).await;
    assert!(none.starts_with("no symbol fits \"é🦀  qqq") && none.chars().count() < 300, "{none}");
    let long = "z".repeat(100_000);
    for (args, why) in [
        (json!({"query": "(.*"}), "search_code: `query` holds no words"),
        (json!({"query": "\0"}), "search_code: `query` holds no words"),
        (
            json!({"query": "open vault ".repeat(9000)}),
            "search_code: `query` has 99000 bytes, more than 4096",
        ),
        (json!({"query": "a", "kind": long}), "search_code: no kind \"zzz"),
        (json!({"query": "a", "language": long}), "search_code has no grammar for \"zzz"),
        (json!({"query": "a", "limit": -1}), "search_code: "),
        (json!({"query": ["a"]}), "search_code: "),
    ] {
        let said = client.err("search_code", args).await;
        assert!(said.starts_with(why) && said.chars().count() < 600, "{said}");
    }
}
