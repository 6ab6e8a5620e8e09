//! How language servers come and go: shared, hung, idle, in the way, chosen among several.

use crate::{
    language_servers::{PYTHON, bash, place, servers, signal},
    loading::{between, programs},
    support::{Bench, Client, Setup, until, watched},
    verify::{copy, equipped, equipped_with, fixture},
};
use serde_json::{Value, json};
use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, time::Duration};
use tokio_util::sync::CancellationToken;

fn at_add(bench: &Bench) -> Value {
    let (line, col) = place(bench, "main.go", "Add(");
    json!({"file_path": "main.go", "line": line, "col": col})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_shared_and_one_that_hangs_is_replaced() {
    let setup = Setup::default().limits(|limits| limits.server_answer = Duration::from_secs(4));
    let bench = equipped_with("polyglot/go", setup);
    let client = bench.client();
    let (progress, seen) = watched();
    let reply = client.call_with("find_definition", at_add(&bench), CancellationToken::new(), progress).await;
    assert!(!reply.is_error, "{}", reply.all_text());
    let told = seen.lock().unwrap().iter().any(|update| update.message.starts_with("waiting for gopls: "));
    assert!(told, "{:?}", seen.lock().unwrap());
    let [status] = &bench.host.language_servers()[..] else { panic!("one server") };
    assert_eq!((status.name, status.language, status.root.as_str()), ("gopls", "go", ""));
    assert!(status.processes >= 1 && status.memory > 1 << 20, "{status:?}");
    let seen = tools::machine_servers().into_iter().find(|server| server.folder == bench.root()).unwrap();
    assert!(seen.command.contains("gopls") && seen.memory > 1 << 20, "{seen:?}");
    let first = servers(&bench.root());
    bench.client().ok("hover", at_add(&bench)).await;
    assert_eq!(servers(&bench.root()), first, "another session has the same server");
    signal(&first, "-STOP");
    let text = client.err("find_references", at_add(&bench)).await;
    assert!(text.starts_with("gopls did not answer within 4 s and was ended"), "{text}");
    let text = client.ok("find_references", at_add(&bench)).await;
    assert!(text.starts_with("Found 2 reference(s)"), "{text}");
    let second = servers(&bench.root());
    assert!(second.iter().all(|pid| !first.contains(pid)), "{first:?} {second:?}");
    // An edit says that it heard nothing, the next one does not ask again, and the server is ended.
    client.ok("Read", json!({"file_path": "calc/calc.go"})).await;
    signal(&second, "-STOP");
    let edit =
        |old: &str, new: &str| json!({"file_path": "calc/calc.go", "old_string": old, "new_string": new});
    let text = client.ok("Edit", edit("return a + b", "return b + a")).await;
    assert!(text.contains("\ngopls did not answer within 0.4 s: "), "{text}");
    let text = client.ok("Edit", edit("return b + a", "return a + b")).await;
    assert!(!text.contains("did not answer"), "{text}");
    until(async || servers(&bench.root()).is_empty().then_some(())).await;
    let text = client.ok("find_references", at_add(&bench)).await;
    assert!(text.starts_with("Found 2 reference(s)"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_tells_that_the_server_ended_meanwhile() {
    let bench = equipped("polyglot/go");
    let client = bench.client();
    client.ok("find_definition", at_add(&bench)).await;
    client.ok("Read", json!({"file_path": "calc/calc.go"})).await;
    let server = servers(&bench.root());
    // It hears the question and never answers.
    signal(&server, "-STOP");
    let edit =
        json!({"file_path": "calc/calc.go", "old_string": "return a + b", "new_string": "return b + a"});
    let file = bench.root().join("calc/calc.go");
    let (text, ()) = tokio::join!(client.ok("Edit", edit), async {
        let changed = async || fs::read_to_string(&file).unwrap().contains("b + a").then_some(());
        until(changed).await;
        signal(&server, "-KILL");
    });
    assert!(text.contains("\ngopls ended before it answered: what the edit broke is not known"), "{text}");
}

/// typescript-language-server stays when what is behind it was ended by a signal, and answers with nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_lost_what_is_behind_it_is_replaced() {
    let bench = equipped("polyglot/web");
    let client = bench.client();
    let (line, col) = place(&bench, "src/main.ts", "add(");
    let at = json!({"file_path": "src/main.ts", "line": line, "col": col});
    let behind = || {
        let is = |pid: &i32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains("tsserver.js")
        };
        servers(&bench.root()).into_iter().filter(is).collect::<Vec<i32>>()
    };
    let known = client.ok("find_references", at.clone()).await;
    assert!(known.starts_with("Found 3 reference(s)"), "{known}");
    for kind in ["-KILL", "-ABRT"] {
        let first = behind();
        signal(&first, kind);
        assert_eq!(client.ok("find_references", at.clone()).await, known, "{kind}");
        assert!(behind().iter().all(|pid| !first.contains(pid)), "{kind}");
    }
    // Whoever waits for an answer at that moment does not get one that knows nothing.
    bench.write("src/main.ts", "export const wrong: number = \"text\";\n");
    let held = behind();
    signal(&held, "-STOP");
    let (text, ()) = tokio::join!(client.ok("diagnostics", json!({"file_path": "src/main.ts"})), async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        signal(&held, "-KILL");
    });
    assert!(text.starts_with("1 problem(s) in src/main.ts"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_ends_when_it_is_idle_or_too_large() {
    let setup = Setup::default().limits(|limits| limits.server_idle = Duration::from_millis(500));
    let bench = equipped_with("polyglot/go", setup);
    let client = bench.client();
    client.ok("find_definition", at_add(&bench)).await;
    until(async || servers(&bench.root()).is_empty().then_some(())).await;
    client.ok("find_definition", at_add(&bench)).await;

    let setup = Setup::default().limits(|limits| limits.server_memory = 1 << 20);
    let bench = equipped_with("polyglot/go", setup);
    let text = bench.client().call("find_definition", at_add(&bench)).await.all_text();
    assert!(text.contains("gopls was ended: it took ") || text.starts_with("Found 1"), "{text}");
    until(async || servers(&bench.root()).is_empty().then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mistakes_are_explained() {
    let mut setup = Setup::default();
    setup.settings.environment.retain(|(name, _)| name != "PATH");
    setup.settings.environment.push(("PATH".to_owned(), "/usr/bin:/bin".to_owned()));
    let bench = setup.bench();
    copy(&fixture("polyglot"), &bench.root());
    let client = bench.client();
    let at = |file: &str| json!({"file_path": file, "line": 1, "col": 1});
    for (file, missing, get) in [
        ("go/main.go", "gopls", "go install golang.org/x/tools/gopls@latest"),
        ("rust/src/main.rs", "rust-analyzer", "rustup component add rust-analyzer rust-src"),
        ("web/src/main.ts", "typescript-language-server", "npm install --save-dev"),
        ("python/main.py", "basedpyright-langserver", "pip install basedpyright"),
    ] {
        let text = client.err("find_definition", at(file)).await;
        assert!(text.starts_with(&format!("find_definition: {missing}: not found on PATH")), "{text}");
        assert!(text.contains(&format!("get it: {get}")), "{text}");
    }
    let text = client.err("hover", at("notes.txt")).await;
    assert!(text.contains("hover: no language server for notes.txt; served: "), "{text}");
    let text = client.err("hover", at("../outside.go")).await;
    assert!(text.contains("outside"), "{text}");
    let text = client.err("hover", at("go/none.go")).await;
    assert!(text.contains("hover: no such file: go/none.go"), "{text}");
    let text = client.err("hover", json!({})).await;
    assert!(text.contains("pass file_path, line and col, or symbol"), "{text}");
}

/// Puts a TypeScript 7 into a project.
pub(crate) fn install_typescript_7(bench: &Bench) {
    let modules = bench.root().join("node_modules");
    let installed = testkit::tools::node_modules().join("typescript7");
    for (file, text) in [
        ("typescript/package.json", fs::read_to_string(installed.join("package.json")).unwrap()),
        (".bin/tsc", format!("#!/bin/sh\nexec {} \"$@\"\n", installed.join("bin/tsc").display())),
    ] {
        bench.write(&format!("node_modules/{file}"), text);
    }
    fs::set_permissions(modules.join(".bin/tsc"), fs::Permissions::from_mode(0o755)).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn typescript_7_has_a_server_of_its_own() {
    let bench = equipped("polyglot/web");
    install_typescript_7(&bench);
    let client = bench.client();
    let (line, col) = place(&bench, "src/main.ts", "add(");
    let at = json!({"file_path": "src/main.ts", "line": line, "col": col});
    let text = client.ok("find_definition", at.clone()).await;
    assert!(text.contains("1. src/calc.ts:2:17  export function add("), "{text}");
    bash(&client, "sed -i '1i // x' src/calc.ts").await;
    let text = client.ok("find_references", at).await;
    assert!(text.starts_with("Found 3 reference(s)") && text.contains("src/calc.ts:3:17  "), "{text}");
    let text = client.ok("diagnostics", json!({"file_path": "src/main.ts"})).await;
    assert_eq!(text, "no problems in src/main.ts (tsc)");
    // What an installation brings lies where nobody watches; the manifest tells.
    let install = "mkdir -p node_modules/dep && echo 'export function dep(): number;' > node_modules/dep/index.d.ts && \
                   echo '{\"name\": \"dep\", \"types\": \"index.d.ts\"}' > node_modules/dep/package.json && \
                   sed -i 's/\"private\"/\"dependencies\": {\"dep\": \"1\"}, \"private\"/' package.json && \
                   echo 'import { dep } from \"dep\"; dep();' >> src/main.ts";
    bash(&client, install).await;
    let (line, _) = place(&bench, "src/main.ts", "dep();");
    let text = client
        .ok("find_definition", json!({"file_path": "src/main.ts", "line": line, "symbol": "dep"}))
        .await;
    assert!(text.contains("1. node_modules/dep/index.d.ts:1:17  "), "{text}");
    let rename = json!({"file_path": "src/calc.ts", "symbol": "add", "new_name": "plus", "apply": true});
    client.ok("rename_symbol", rename).await;
    let main = fs::read_to_string(bench.root().join("src/main.ts")).unwrap();
    assert!(main.contains("import { plus } from"), "{main}");
}

/// A bench for the Python fixture that finds one language server alone.
fn only(program: &str) -> Bench {
    with_program("only", program, |real, here| std::os::unix::fs::symlink(real, here).unwrap())
}

/// The same with what `place` puts where the program is looked for; it is told where the real one is.
fn with_program(name: &str, program: &str, place: impl FnOnce(&Path, &Path)) -> Bench {
    let mut setup = Setup::default();
    let tools = programs(&format!("{name}-{program}"));
    let _ = fs::remove_file(tools.join(program));
    place(&testkit::tools::python("python").with_file_name(program), &tools.join(program));
    setup.settings.environment.retain(|(name, _)| name != "PATH" && name != "VIRTUAL_ENV");
    setup.settings.environment.push(("PATH".to_owned(), format!("{}:/usr/bin:/bin", tools.display())));
    let bench = setup.bench();
    copy(&fixture("polyglot/python"), &bench.root());
    bench
}

/// The other servers for Python: chosen when they are the ones there are.
async fn python_by(program: &str, name: &str, finds_types: bool) {
    let bench = only(program);
    let client = bench.client();
    let (line, col) = place(&bench, "main.py", "add(1");
    let at = json!({"file_path": "main.py", "line": line, "col": col});
    let text = client.ok("find_definition", at.clone()).await;
    assert!(text.starts_with("Found 1 definition(s)") && text.contains("1. calc.py:"), "{program}: {text}");
    // Another program's change is known to the next question.
    bash(&client, "sed -i '1i # x' calc.py").await;
    let (defined, _) = place(&bench, "calc.py", "def add");
    let text = client.ok("find_references", at).await;
    assert!(text.contains(&format!("calc.py:{defined}:")) && text.contains("main.py:"), "{program}: {text}");
    let before = fs::read_to_string(bench.root().join("main.py")).unwrap();
    bench.write("main.py", before.clone() + PYTHON.broken);
    let text = client.ok("diagnostics", json!({"file_path": "main.py"})).await;
    assert!(text.contains(name), "{program}: {text}");
    assert!(!finds_types || (text.contains(": error: ") && text.contains("int")), "{program}: {text}");
    bench.write("main.py", before);
    let text = client.ok("diagnostics", json!({"file_path": "main.py"})).await;
    assert!(!finds_types || text.starts_with("no problems in "), "{program}: {text}");
    // What keeps the name is told, whatever a server thinks that an override leads to.
    let kinds = "class Base:\r\n    def run(self) -> int:\r\n        return 1\r\n\r\n\r\nclass Child(Base):\r\n    def run(self) -> int:\r\n        return 2\r\n";
    bench.write("kinds.py", kinds);
    let rename = json!({"file_path": "kinds.py", "symbol": "Base.run", "new_name": "go", "apply": true});
    let text = client.ok("rename_symbol", rename).await;
    assert!(text.starts_with("Rename → \"go\" changed 1 place(s) in 1 file(s):"), "{program}: {text}");
    assert!(
        text.contains("\n1 place(s) keep the name, ") && text.ends_with(": kinds.py:7:9"),
        "{program}: {text}"
    );
    let now = fs::read_to_string(bench.root().join("kinds.py")).unwrap();
    assert_eq!(now, kinds.replacen("run", "go", 1), "{program}");
    // What is passed on under its own name is the same thing behind that.
    bench.write("motor.py", "class Motor:\n    pass\n");
    bench.write("api.py", "from motor import Motor as Motor\n");
    bench.write("car.py", "from api import Motor\n\nwheel = Motor()\n");
    let rename = json!({"file_path": "motor.py", "symbol": "Motor", "new_name": "Drive", "apply": true});
    let text = client.ok("rename_symbol", rename).await;
    for file in ["api.py", "car.py"] {
        let now = fs::read_to_string(bench.root().join(file)).unwrap();
        assert!(!now.contains("Motor"), "{program}: {file}: {now}\n{text}");
    }
    lists_stay_true(&bench, &client, program).await;
}

/// A name that `__all__` lists must be one that the module has.
async fn lists_stay_true(bench: &Bench, client: &Client, program: &str) {
    let core = "__all__ = [\"Item\", \"make\"]\n__all__ += ['Item']\n\n\nclass Item:\n    Item = \"Item\"\n\n\ndef make() -> Item:\n    return Item()\n";
    let api = "from core import Item\n\n__all__ = (\"Item\",)\n";
    let user = "def f() -> None:\n    from core import Item\n\n    Item()\n\n\n__all__ = [\"f\", \"Item\"]\n";
    for (file, text) in [("core.py", core), ("passed.py", api), ("user.py", user)] {
        bench.write(file, text);
    }
    let rename =
        json!({"file_path": "core.py", "line": 5, "symbol": "Item", "new_name": "Thing", "apply": true});
    let said = client.ok("rename_symbol", rename).await;
    let renamed = |text: &str| text.replace("Item", "Thing");
    let core = renamed(core).replace("    Thing = \"Thing\"", "    Item = \"Item\"");
    let user = renamed(user).replace("\"Thing\"", "\"Item\"");
    for (file, expected) in [("core.py", core), ("passed.py", renamed(api)), ("user.py", user)] {
        let now = fs::read_to_string(bench.root().join(file)).unwrap();
        assert_eq!(now, expected, "{program}: {file}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn python_has_other_servers_too() {
    tokio::join!(
        python_by("basedpyright-langserver", "basedpyright", true),
        python_by("ty", "ty", true),
        // Its linters are plug-ins, which are not there.
        python_by("pylsp", "pylsp", false),
    );
}

/// A package that is installed in the workspace is none of its sources. ty would rename its uses alone; pylsp does not
/// find it.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_installed_keeps_its_name() {
    let text = "from tool import Tool, plus\nfrom tool import plus as one_more\n\nprint(one_more(1), plus(2), Tool.size)\n";
    for program in ["ty", "pylsp"] {
        let bench = with_program("installed", program, |real, here| {
            std::os::unix::fs::symlink(real, here).unwrap();
        });
        bench.write(".gitignore", ".venv/\n");
        bench.write(".venv/pyvenv.cfg", "home = /usr/bin\nversion = 3.11.0\n");
        let tool = "def plus(a: int) -> int:\n    return a + 1\n\n\nclass Tool:\n    size = 1\n";
        bench.write(".venv/lib/python3.11/site-packages/tool.py", tool);
        bench.write("uses.py", text);
        fs::create_dir_all(bench.root().join(".venv/bin")).unwrap();
        std::os::unix::fs::symlink("/usr/bin/python3", bench.root().join(".venv/bin/python")).unwrap();
        let client = bench.client();
        let rename = |line: u32, name: &str| json!({"file_path": "uses.py", "line": line, "symbol": name, "new_name": "other"});
        for (line, name) in [(4, "plus"), (4, "size"), (1, "Tool")] {
            if program == "ty" {
                let said = client.err("rename_symbol", rename(line, name)).await;
                let refused = format!(
                    "rename_symbol: {name} is defined in .venv/lib/python3.11/site-packages/tool.py:"
                );
                assert!(said.starts_with(&refused), "{said}");
            } else {
                let said = client.ok("rename_symbol", rename(line, name)).await;
                assert!(said.contains("pylsp does not know where it is defined"), "{said}");
            }
        }
        // A name of its own for what is imported is its own.
        let said = client.ok("rename_symbol", rename(4, "one_more")).await;
        assert!(
            said.contains("+from tool import plus as other") && said.contains("+print(other(1)"),
            "{program}: {said}"
        );
        let said = client
            .ok("rename_symbol", json!({"file_path": "calc.py", "symbol": "add", "new_name": "sum_up"}))
            .await;
        assert!(
            said.starts_with("Rename → \"sum_up\" would touch 2 file(s)") && !said.contains("does not know"),
            "{said}"
        );
    }
}

/// Before a question for a new name reaches the server, it changes a file that the answer will be about, once or again
/// and again.
const MEDDLE: &str = r#"if b'"textDocument/rename"' in body and os.path.exists("meddle.txt"):
        if open("meddle.txt").read() == "once":
            os.remove("meddle.txt")
        text = open("calc.py").read()
        open("calc.py", "w").write('# meddled\n' + text)"#;

/// Without isolation nothing keeps a server from running code of the project that changes it.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_only_reads_shares_a_server_but_starts_none_unfenced() {
    let bench = equipped("python/pytest");
    let (writer, reader) = (bench.client(), bench.client_with(tools::Access::ReadOnly));
    let file = json!({"file_path": "calc/__init__.py"});
    let refused = reader.err("document_symbols", file.clone()).await;
    assert!(refused.contains("no language server for a read-only session here"), "{refused}");
    let symbols = writer.ok("document_symbols", file.clone()).await;
    assert_eq!(reader.ok("document_symbols", file).await, symbols);
    assert_eq!(bench.host.language_servers().len(), 1);
}

/// What a server answers about files as they were is not written into them as they are.
#[tokio::test(flavor = "multi_thread")]
async fn a_rename_is_about_the_files_as_they_are() {
    let bench = with_program("meddled", "basedpyright-langserver", |real, here| {
        between(real, here, MEDDLE, "pass");
    });
    let client = bench.client();
    let read = |file: &str| fs::read_to_string(bench.root().join(file)).unwrap();
    let (main, calc) = (read("main.py"), read("calc.py"));
    let rename =
        |apply: bool| json!({"file_path": "main.py", "symbol": "add", "new_name": "plus", "apply": apply});
    // What is asked in the wrong way is told apart.
    bench.write("blob.py", b"x = 1\n\0\0\n");
    bench.write("empty.py", "");
    for (args, why) in [
        (json!({"file_path": "main.py", "line": 99, "col": 1}), "no line 99: main.py has lines 1 to "),
        (
            json!({"file_path": "main.py", "line": 1, "col": 99}),
            "no col 99: line 1 of main.py has cols 1 to 21: from ",
        ),
        (json!({"file_path": "main.py", "symbol": " "}), "`symbol` holds no name; pass one like `Foo`"),
        (json!({"symbol": ""}), "`symbol` holds no name"),
        (json!({"file_path": "."}), ". is a folder; pass a file"),
        (json!({"file_path": "blob.py", "symbol": "x"}), "blob.py is a binary file"),
        (json!({"file_path": "empty.py", "symbol": "x"}), "no x in empty.py; it has no symbols"),
    ] {
        let text = client.err("hover", args).await;
        assert!(text.starts_with(&format!("hover: {why}")), "{text}");
    }
    let same = json!({"file_path": "main.py", "symbol": "add", "new_name": "add", "apply": true});
    let text = client.err("rename_symbol", same).await;
    assert_eq!(text, "rename_symbol: it is called \"add\" already; nothing to change");
    bench.write("meddle.txt", "always");
    for apply in [false, true] {
        let text = client.err("rename_symbol", rename(apply)).await;
        assert_eq!(
            text,
            "rename_symbol: files it would change keep changing meanwhile; nothing was written, call again"
        );
    }
    let meddled = read("calc.py");
    assert!(meddled.ends_with(&calc) && meddled.starts_with("# meddled\n# meddled\n"), "{meddled}");
    assert_eq!(read("main.py"), main);
    // Asked anew, it is right.
    bench.write("calc.py", &calc);
    bench.write("meddle.txt", "once");
    let text = client.ok("rename_symbol", rename(true)).await;
    assert!(text.contains("\nM calc.py") && text.contains("\nM main.py"), "{text}");
    assert_eq!(read("calc.py"), format!("# meddled\n{}", calc.replace("def add(", "def plus(")));
    assert_eq!(read("main.py"), main.replace("add", "plus"));
}

/// Holds back what asks for mistakes while a file is there.
const HELD: &str = r#"if b'"textDocument/diagnostic"' in body and os.path.exists("hold.txt"):
        open("asked.txt", "w").close()
        while os.path.exists("hold.txt"):
            pass"#;

/// Feedback shows a server files as they were. Whatever becomes of the edit, nobody is answered about those.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_answered_about_files_as_they_were() {
    let bench =
        with_program("held", "basedpyright-langserver", |real, here| between(real, here, HELD, "pass"));
    let client = bench.client();
    let ask = json!({"file_path": "main.py", "symbol": "add"});
    client.ok("find_definition", ask.clone()).await;
    let (hold, asked) = (bench.root().join("hold.txt"), bench.root().join("asked.txt"));
    for cancelled in [true, false] {
        client.ok("Read", json!({"file_path": "calc.py"})).await;
        bench.write("hold.txt", "");
        let edit = json!({
            "file_path": "calc.py", "old_string": "def add(", "new_string": "# one\n# two\ndef add(",
        });
        let edit = client.spawn("Edit", edit);
        until(async || asked.exists().then_some(())).await;
        let other = bench.client();
        let question = other.spawn("find_definition", ask.clone());
        // A question that is sent now is about the file as it was.
        tokio::time::sleep(Duration::from_millis(500)).await;
        if cancelled {
            edit.cancel.cancel();
            edit.task.await.unwrap();
            fs::remove_file(&hold).unwrap();
        } else {
            fs::remove_file(&hold).unwrap();
            edit.task.await.unwrap();
        }
        let (line, col) = place(&bench, "calc.py", "add(");
        let expected = format!("1. calc.py:{line}:{col}  def add(");
        let text = question.task.await.unwrap().all_text();
        assert!(text.contains(&expected), "cancelled: {cancelled}: {text}");
        let text = client.ok("find_definition", ask.clone()).await;
        assert!(text.contains(&expected), "cancelled: {cancelled}: {text}");
        fs::remove_file(&asked).unwrap();
    }
    let before = fs::read_to_string(bench.root().join("calc.py")).unwrap();
    let rename = json!({"file_path": "main.py", "symbol": "add", "new_name": "plus", "apply": true});
    client.ok("rename_symbol", rename).await;
    assert_eq!(
        fs::read_to_string(bench.root().join("calc.py")).unwrap(),
        before.replace("def add(", "def plus(")
    );
}
