//! Language servers through the product beside the same servers bare, and feedback after an edit.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::client::{Client, piped};
use crate::probe::{Times, resident, resident_own, resident_tree};
use crate::report::{Report, ms, times, verdict};
use crate::serena::{self, Serena, Subject};
use crate::subjects::{Subjects, cache};

/// How often each server is started, and how often one that is up at once: a machine's moods weigh more there.
const STARTS: usize = 5;
const QUICK_STARTS: usize = 21;
const QUICK: Duration = Duration::from_secs(1);
/// Warm questions of each kind.
const ROUNDS: usize = 40;
/// Questions of each kind before those: the servers in JavaScript take three times as long until their engine has
/// compiled what is asked often, and how far it has got would be what is compared.
const WARMING: usize = 80;
/// Edits of each language.
const EDITS: usize = 9;
/// What our own processes may take while all four servers are up.
const OWN: f64 = 60.0;

/// One language: its server, and a use of a function in the fixture.
struct Language {
    name: &'static str,
    home: &'static str,
    server: &'static [&'static str],
    user: &'static str,
    module: &'static str,
    /// The call, and the name's place in it.
    call: &'static str,
    /// An edit to the module, and what makes it wrong.
    edit: (&'static str, &'static str),
    /// What feedback may take.
    asked: Duration,
}

const LANGUAGES: &[Language] = &[
    Language {
        name: "Go",
        home: "go",
        server: &["gopls"],
        user: "main.go",
        module: "calc/calc.go",
        call: "Add(1",
        edit: ("return a + b", "return a + \"b\""),
        asked: Duration::from_millis(100),
    },
    Language {
        name: "Rust",
        home: "rust",
        server: &["rust-analyzer"],
        user: "src/main.rs",
        module: "src/calc.rs",
        call: "add(1",
        edit: ("a + b\n", "\"b\"\n"),
        asked: Duration::from_millis(150),
    },
    Language {
        name: "TypeScript",
        home: "web",
        server: &["typescript-language-server", "--stdio"],
        user: "src/main.ts",
        module: "src/calc.ts",
        call: "add(1",
        edit: ("return a + b;", "return a + \"b\";"),
        asked: Duration::from_millis(250),
    },
    Language {
        name: "Python",
        home: "python",
        server: &["pyright-langserver", "--stdio"],
        user: "main.py",
        module: "calc.py",
        call: "add(1",
        edit: ("return a + b", "return a + \"b\""),
        asked: Duration::from_millis(100),
    },
];

pub(crate) fn lsp(subjects: &Subjects, report: &mut Report) -> Result<()> {
    report.section(
        "Language servers",
        &[
            "",
            "first answer, bare",
            "ours",
            "beside bare",
            "asked",
            "",
            "warm definition, bare",
            "ours",
            "warm references, bare",
            "ours",
            "asked",
            "",
        ],
    );
    let peer = Serena::installed();
    let (mut feedback, mut beside) = (Vec::new(), Vec::new());
    for language in LANGUAGES {
        let folder = subjects.folder()?;
        copy(&fixture().join(language.home), folder.path())?;
        let one = one(subjects, language, folder.path())
            .with_context(|| format!("{} ({})", language.name, language.server[0]))?;
        report.row(&one.cells);
        feedback.push((language, one.edits));
        beside.push(row_beside(language, folder.path(), &peer, one.first, one.references));
    }
    report.section("Feedback after an edit, a server up", &["", "median", "asked", ""]);
    for (language, mut edits) in feedback {
        let median = edits.median();
        let asked = format!("< {}", ms(language.asked));
        report.row(&[language.name.to_owned(), ms(median), asked, verdict(median < language.asked)]);
    }
    report.section(
        serena::NAME,
        &["", "first answer, ours", "its", "warm references, ours", "its", "its own process, servers apart"],
    );
    beside.iter().for_each(|row| report.row(row));
    idle(subjects, report)
}

/// The peer's figures beside ours, or why there are none.
fn row_beside(
    language: &Language,
    root: &Path,
    peer: &Result<Serena>,
    first: Duration,
    references: Duration,
) -> Vec<String> {
    let taken = peer.as_ref().map_err(|error| format!("{error:#}")).and_then(|peer| {
        let subject = Subject {
            language: if language.home == "web" { "typescript" } else { language.home },
            root,
            module: language.module,
            user: language.user,
            name: language.call.trim_end_matches("(1"),
            path: search_path().map_err(|error| error.to_string())?,
        };
        peer.measure(&subject).map_err(|error| format!("{error:#}"))
    });
    let name = language.name.to_owned();
    match taken {
        Ok(taken) => vec![
            name,
            ms(first),
            match taken.wrong {
                0 => format!("{} ({})", ms(taken.first), times(taken.first, first)),
                wrong => {
                    let (took, beside) = (ms(taken.first), times(taken.first, first));
                    format!("{took} ({beside}), after {wrong} wrong answer(s)")
                }
            },
            ms(references),
            format!("{} ({})", ms(taken.references), times(taken.references, references)),
            format!("{:.0} MB", taken.memory as f64 / 1e6),
        ],
        Err(why) => {
            let why: String = why.replace(['\n', '|'], " ").chars().take(200).collect();
            vec![name, ms(first), format!("could not be measured: {why}"), ms(references), String::new()]
        }
    }
}

/// What our own processes take while the servers of all four languages are up and nobody asks.
fn idle(subjects: &Subjects, report: &mut Report) -> Result<()> {
    let folder = subjects.folder()?;
    copy(&fixture(), folder.path())?;
    let mut client = product(subjects, folder.path())?;
    for language in LANGUAGES {
        let module = format!("{}/{}", language.home, language.module);
        let name = language.call.trim_end_matches("(1");
        let answer = client.text("find_references", &json!({ "file_path": module, "symbol": name }))?;
        ensure!(answer.starts_with("Found "), "{answer}");
    }
    std::thread::sleep(Duration::from_secs(2));
    let own = resident_own(client.pid())? as f64 / 1e6;
    let all = resident_tree(client.pid())? as f64 / 1e6;
    report.section("Idle with the servers of all four languages up", &["", "memory", "asked", ""]);
    report.row(&[
        "our own processes".to_owned(),
        format!("{own:.1} MB"),
        format!("< {OWN} MB"),
        verdict(own < OWN),
    ]);
    let main = resident(client.pid())? as f64 / 1e6;
    report.row(&["of these the main one".to_owned(), format!("{main:.1} MB"), String::new(), String::new()]);
    let servers = format!("{:.0} MB", all - own);
    report.row(&["the servers themselves".to_owned(), servers, String::new(), String::new()]);
    Ok(())
}

/// What one language showed.
struct One {
    cells: Vec<String>,
    edits: Times,
    first: Duration,
    references: Duration,
}

fn one(subjects: &Subjects, language: &Language, root: &Path) -> Result<One> {
    let text = fs::read_to_string(root.join(language.user))?;
    let (line, row) = text
        .lines()
        .enumerate()
        .find(|(_, row)| row.contains(language.call))
        .context("no call in the fixture")?;
    let byte = row.find(language.call).unwrap_or_default();
    let col = row[..byte].chars().count() + 1;
    let place = json!({ "file_path": language.user, "line": line + 1, "col": col });
    let position = |encoding: &str| {
        let units = if encoding == "utf-8" { byte } else { row[..byte].encode_utf16().count() };
        json!({ "line": line, "character": units })
    };
    let (mut first_bare, mut first_ours) = (Times::new(), Times::new());
    let mut starts = STARTS;
    let mut done = 0;
    while done < starts {
        let began = Instant::now();
        drop(first_bare.time(|| Bare::start(language, root, &position))?);
        if began.elapsed() < QUICK {
            starts = QUICK_STARTS;
        }
        done += 1;
        quiet();
        let ours = first_ours.time(|| {
            let mut client = product(subjects, root)?;
            let answer = client.text("find_definition", &place)?;
            ensure!(answer.contains(language.module), "{answer}");
            Ok(client)
        })?;
        ours.leave()?;
        quiet();
    }
    let (mut bare, at) = Bare::start(language, root, &position)?;
    let mut client = product(subjects, root)?;
    let answer = client.text("find_references", &place)?;
    ensure!(answer.starts_with("Found "), "{answer}");
    let [mut def_bare, mut def_ours, mut ref_bare, mut ref_ours] = [const { Times::new() }; 4];
    for round in 0..WARMING + ROUNDS {
        if round == WARMING {
            [def_bare, def_ours, ref_bare, ref_ours] = [const { Times::new() }; 4];
        }
        def_bare.time(|| bare.ask("textDocument/definition", &at))?;
        def_ours.time(|| client.text("find_definition", &place))?;
        let mut all = at.clone();
        all["context"] = json!({ "includeDeclaration": true });
        ref_bare.time(|| bare.ask("textDocument/references", &all))?;
        ref_ours.time(|| client.text("find_references", &place))?;
    }
    drop(bare);
    let edits = edits(language, &mut client)?;
    let (first, ours) = (first_bare.median(), first_ours.median());
    let near = |ours: Duration, bare: Duration| ours <= bare + Duration::from_millis(1);
    let warm = [def_bare.median(), def_ours.median(), ref_bare.median(), ref_ours.median()];
    let mut cells = vec![
        format!("{} ({})", language.name, language.server[0]),
        ms(first),
        ms(ours),
        times(ours, first),
        "≤ 1.10 ×".to_owned(),
        verdict(ours.as_secs_f64() <= first.as_secs_f64() * 1.1),
    ];
    cells.extend(warm.iter().map(|time| ms(*time)));
    cells.push("≤ bare + 1 ms".to_owned());
    cells.push(verdict(near(warm[1], warm[0]) && near(warm[3], warm[2])));
    Ok(One { cells, edits, first: ours, references: warm[3] })
}

/// Lets what was just ended go away.
fn quiet() {
    std::thread::sleep(Duration::from_millis(300));
}

/// Breaks and mends the module, again and again.
fn edits(language: &Language, client: &mut Client) -> Result<Times> {
    let mut taken = Times::new();
    client.text("Read", &json!({ "file_path": language.module }))?;
    let (good, bad) = language.edit;
    for round in 0..EDITS * 2 {
        let (old, new) = if round % 2 == 0 { (good, bad) } else { (bad, good) };
        let edit = json!({ "file_path": language.module, "old_string": old, "new_string": new });
        let said = taken.time(|| client.text("Edit", &edit))?;
        ensure!(round % 2 == 1 || said.contains("post-edit errors"), "no error was told: {said}");
    }
    Ok(taken)
}

fn product(subjects: &Subjects, root: &Path) -> Result<Client> {
    let mut command = Command::new(&subjects.product);
    command.arg("stdio").arg("--workspace").arg(root).env("PATH", search_path()?);
    Client::start(command.env("XDG_STATE_HOME", subjects.scratch.join("state")))
}

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/projects/polyglot")
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)?.flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// The PATH with what `cargo xtask setup` installed in front.
fn search_path() -> Result<std::ffi::OsString> {
    let tools = cache()?.join("tools");
    let mut folders: Vec<PathBuf> = fs::read_dir(&tools)
        .with_context(|| format!("{}: run `cargo xtask setup`", tools.display()))?
        .flatten()
        .map(|entry| entry.path().join("bin"))
        .filter(|folder| folder.is_dir())
        .collect();
    folders.sort();
    folders.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    Ok(std::env::join_paths(folders)?)
}

/// A server without anything between.
struct Bare {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    id: u64,
    /// rust-analyzer says when it rests.
    rests: bool,
}

impl Bare {
    /// Starts it and waits for its first right answer; also the parameters that got it.
    fn start(language: &Language, root: &Path, position: &dyn Fn(&str) -> Value) -> Result<(Self, Value)> {
        let mut command = Command::new(language.server[0]);
        command.args(&language.server[1..]).current_dir(root).env("PATH", search_path()?);
        let (child, input, output) = piped(&mut command)?;
        let mut bare = Self { child, input, output: BufReader::new(output), id: 0, rests: false };
        let uri = |path: &Path| format!("file://{}", path.display());
        let hello = json!({
            "processId": null, "rootUri": uri(root), "workspaceFolders": [{ "uri": uri(root), "name": "w" }],
            "capabilities": {
                "general": { "positionEncodings": ["utf-8", "utf-16"] },
                "window": { "workDoneProgress": true },
                "experimental": { "serverStatusNotification": true },
                "workspace": { "configuration": true, "didChangeWatchedFiles": { "dynamicRegistration": true } },
            },
        });
        let answer = bare.ask("initialize", &hello)?;
        let encoding = answer["capabilities"]["positionEncoding"].as_str().unwrap_or("utf-16").to_owned();
        bare.send(&json!({ "jsonrpc": "2.0", "method": "initialized", "params": {} }))?;
        let file = root.join(language.user);
        let id = match language.home {
            "web" => "typescript",
            other => other,
        };
        let document =
            json!({ "uri": uri(&file), "languageId": id, "version": 1, "text": fs::read_to_string(&file)? });
        bare.send(&json!({
            "jsonrpc": "2.0", "method": "textDocument/didOpen", "params": { "textDocument": document },
        }))?;
        let at = json!({ "textDocument": { "uri": uri(&file) }, "position": position(&encoding) });
        let patience = Instant::now() + Duration::from_secs(90);
        while Instant::now() < patience {
            let found = bare.ask("textDocument/definition", &at).unwrap_or_default().to_string();
            if found.contains(language.module) && (language.home != "rust" || bare.rests) {
                return Ok((bare, at));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        bail!("{} gave no right answer", language.server[0])
    }

    fn send(&mut self, message: &Value) -> Result<()> {
        let text = message.to_string();
        write!(self.input, "Content-Length: {}\r\n\r\n{text}", text.len())?;
        Ok(self.input.flush()?)
    }

    fn ask(&mut self, method: &str, params: &Value) -> Result<Value> {
        self.id += 1;
        let id = self.id;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))?;
        loop {
            let mut message = self.hear()?;
            if message.get("method").is_some() {
                if let Some(asked) = message.get("id") {
                    let items = message["params"]["items"].as_array().map_or(0, Vec::len);
                    let result = if items > 0 { json!(vec![Value::Null; items]) } else { Value::Null };
                    self.send(&json!({ "jsonrpc": "2.0", "id": asked, "result": result }))?;
                } else if message["method"] == "experimental/serverStatus" {
                    self.rests = message["params"]["quiescent"] == true;
                }
                continue;
            }
            if message["id"] == id {
                ensure!(message.get("error").is_none(), "{method}: {}", message["error"]);
                return Ok(message["result"].take());
            }
        }
    }

    fn hear(&mut self) -> Result<Value> {
        let mut length = 0;
        loop {
            let mut line = String::new();
            ensure!(self.output.read_line(&mut line)? > 0, "the server has gone");
            match line.trim().split_once(':') {
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                    length = value.trim().parse()?
                }
                _ if line.trim().is_empty() => break,
                _ => {}
            }
        }
        let mut body = vec![0; length];
        self.output.read_exact(&mut body)?;
        Ok(serde_json::from_slice(&body)?)
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
