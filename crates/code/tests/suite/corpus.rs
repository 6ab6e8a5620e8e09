//! Properties on real sources: those of the toolchains that every machine with this project has.

use code::{Change, Depth, EditError, Kind, Language, Reader, Symbol, Target, edit, outline};
use std::{
    collections::{HashMap, HashSet},
    env, fs,
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    process::Command,
};

/// Bytes of one language that are looked at.
const SAMPLE: usize = 400 << 10;
/// Functions of one file that are edited.
const FUNCTIONS: usize = 5;

fn printed(program: &str, arguments: &[&str]) -> PathBuf {
    let done = Command::new(program).args(arguments).output();
    let done = done.unwrap_or_else(|error| panic!("{program}: {error}; `cargo xtask setup` installs it"));
    String::from_utf8(done.stdout).unwrap().trim().into()
}

/// Files of a language below a folder, spread over it, about [`SAMPLE`] bytes of them. TypeScript that is TSX as well
/// stands for the latter.
fn sample(folder: &Path, wanted: Language) -> Vec<(PathBuf, Vec<u8>)> {
    let language = if wanted == Language::Tsx { Language::TypeScript } else { wanted };
    let fits = |text: &[u8]| {
        Reader::default().parse(wanted, text).is_some_and(|parsed| parsed.problems().is_empty())
    };
    let (mut folders, mut files) = (vec![folder.to_owned()], Vec::new());
    while let Some(folder) = folders.pop()
        && files.len() < 4000
    {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            match entry.file_type().unwrap() {
                kind if kind.is_dir() => folders.push(entry.path()),
                // declarations have no bodies
                kind if kind.is_file()
                    && Language::of_path(&entry.path()) == Some(language)
                    && !entry.path().to_string_lossy().ends_with(".d.ts") =>
                {
                    files.push(entry.path())
                }
                _ => {}
            }
        }
    }
    files.sort();
    assert!(files.len() >= 10, "{} files of {} in {}", files.len(), language.name(), folder.display());
    let (mut chosen, mut bytes) = (Vec::new(), 0);
    // a stride that shares no factor with the count visits all of them in an order of its own
    let stride = (files.len() / 40).max(1) | 1;
    for turn in 0..files.len() {
        let path = &files[turn * stride % files.len()];
        let text = fs::read(path).unwrap();
        if text.len() < 16 << 10 && std::str::from_utf8(&text).is_ok() && fits(&text) {
            bytes += text.len();
            chosen.push((path.clone(), text));
        }
        if bytes > SAMPLE {
            break;
        }
    }
    chosen
}

fn corpora() -> Vec<(Language, PathBuf)> {
    let cargo = env::var_os("CARGO_HOME")
        .map_or_else(|| PathBuf::from(env::var_os("HOME").unwrap()).join(".cargo"), PathBuf::from);
    let modules = |program: &str| {
        let path = testkit::tools::path(program).canonicalize().unwrap();
        path.ancestors().find(|path| path.ends_with("node_modules")).unwrap().to_owned()
    };
    let stdlib = printed("python3", &["-c", "import sysconfig; print(sysconfig.get_paths()['stdlib'])"]);
    vec![
        (Language::Go, printed("go", &["env", "GOROOT"]).join("src")),
        (Language::Rust, cargo.join("registry/src")),
        (Language::Python, stdlib),
        (Language::TypeScript, modules("mcp-server-filesystem")),
        (Language::Tsx, modules("mcp-server-filesystem")),
        (Language::JavaScript, modules("tsc")),
    ]
}

/// A body with one more line in it, in the ways in which somebody may write that down, and how the file then looks.
struct Marked {
    forms: Vec<String>,
    expected: Vec<u8>,
}

/// Puts a comment on a line of its own behind the opening of a body, or before its end.
fn marked(language: Language, source: &[u8], body: Range<usize>, at_end: bool) -> Option<Marked> {
    let text = std::str::from_utf8(&source[body.clone()]).unwrap();
    let python = language == Language::Python;
    let mut lines: Vec<&str> = text.split('\n').collect();
    let beside = python && !matches!(source[..body.start].last(), Some(b'\n'));
    let braced = lines[0].trim() == "{" && lines.last()?.trim() == "}" && lines.len() > 2;
    if lines.len() < 2 || beside || !(python || braced) || text.contains('\r') {
        return None;
    }
    let inside = if python { 0..lines.len() } else { 1..lines.len() - 1 };
    let code = |line: &&&str| !line.trim().is_empty() && (!python || !line.trim().starts_with('#'));
    let first = lines[inside.clone()].iter().find(code)?;
    let indent = &first[..first.len() - first.trim_start().len()];
    let mark = format!("{indent}{} a mark", if python { "#" } else { "//" });
    lines.insert(if at_end { inside.end } else { inside.start }, &mark);
    let whole = lines.join("\n");
    let expected = [&source[..body.start], whole.as_bytes(), &source[body.end..]].concat();
    let within = &lines[inside.start..=inside.end];
    let bare = within.join("\n");
    let mut forms = vec![whole];
    let wide = |line: &str| line.trim_end() != line;
    if within[0].trim().is_empty() || wide(within[within.len() - 1]) {
        // blank lines around it are not part of what is given
        return Some(Marked { forms, expected });
    }
    forms.push(bare.clone());
    // without the indentation of its first line, and without the indentation that all of it has; where white space
    // is content nobody can take it away
    let plain = !["`", "\"\"\"", "'''", "\\\n", "r#\"", "/*"].iter().any(|long| bare.contains(long));
    let own = |line: &&str| line.trim().is_empty() && line.is_empty() || line.starts_with(indent);
    let closed = |line: &&str| line.matches('"').count().is_multiple_of(2);
    if plain && within.iter().all(own) && within.iter().all(closed) {
        forms.push(bare.trim_start().to_owned());
        let less = |line: &&str| line.strip_prefix(indent).unwrap_or(line).to_owned();
        forms.push(within.iter().map(less).collect::<Vec<_>>().join("\n"));
    }
    Some(Marked { forms, expected })
}

/// What became of the functions of one language.
#[derive(Debug, Default)]
struct Counts {
    same: usize,
    refused: usize,
    marked: usize,
    /// In which way they were marked.
    forms: [usize; 4],
}

fn try_function(language: Language, source: &[u8], name: &str, body: Range<usize>, counts: &mut Counts) {
    let text = std::str::from_utf8(&source[body.clone()]).unwrap();
    let target = Target { name, modules: &[] };
    let change = |source: &[u8], text: &str| edit(language, source, &target, &Change::Body(text));
    match change(source, text) {
        Err(EditError::Same) => counts.same += 1,
        // names that no path can say: computed, quoted, twice on a line
        Err(EditError::NotFound { .. } | EditError::Ambiguous { .. }) => return,
        other => panic!("itself: {other:?}"),
    }
    match change(source, "ok(\n]]) {{ ]") {
        Err(EditError::DoesNotParse { reason }) if reason.contains("line ") => counts.refused += 1,
        other => panic!("garbage: {other:?}"),
    }
    let Some(marked) = marked(language, source, body, counts.same.is_multiple_of(2)) else { return };
    counts.marked += 1;
    // each function in one of the ways: a parser without optimizations takes its time
    for form in marked.forms.iter().cycle().skip(counts.marked).take(1) {
        counts.forms[counts.marked % marked.forms.len()] += 1;
        let done = change(source, form).unwrap_or_else(|error| panic!("{error} in\n{form}"));
        same_lines(&done.bytes, &marked.expected, form);
    }
    // and back; a blank line at the beginning stays only where there was one
    if text.split('\n').next().is_some_and(|line| line.trim().is_empty()) && language == Language::Python {
        return;
    }
    let done = change(&marked.expected, text).unwrap_or_else(|error| panic!("back: {error}"));
    same_lines(&done.bytes, source, "back");
}

fn same_lines(got: &[u8], expected: &[u8], from: &str) {
    let lines = got.split(|byte| *byte == b'\n').zip(expected.split(|byte| *byte == b'\n'));
    for (at, (got, expected)) in lines.enumerate() {
        let (got, expected) = (String::from_utf8_lossy(got), String::from_utf8_lossy(expected));
        assert_eq!(got, expected, "line {} from\n{from}", at + 1);
    }
    assert_eq!(got.len(), expected.len(), "{from}");
}

#[test]
fn a_body_replaced_by_itself_changes_nothing_and_by_garbage_neither() {
    let run = |(language, folder): (Language, PathBuf)| {
        let mut counts = Counts::default();
        let mut wrong = Vec::new();
        for (path, source) in sample(&folder, language) {
            let symbols = outline(language, &source, Depth::Everything);
            let functions: Vec<_> =
                symbols.iter().filter(|it| it.kind.is_callable() && it.body.is_some()).collect();
            let step = (functions.len() / FUNCTIONS).max(1);
            for function in functions.iter().step_by(step).take(FUNCTIONS) {
                let name = format!("{}:{}", function.path(), function.line);
                let body = function.body.clone().unwrap();
                let tried = catch_unwind(AssertUnwindSafe(|| {
                    try_function(language, &source, &name, body, &mut counts);
                }));
                if tried.is_err() {
                    wrong.push(format!("{} {name}", path.display()));
                }
            }
        }
        assert!(wrong.is_empty(), "{} of {counts:?}:\n{}", wrong.len(), wrong.join("\n"));
        assert_eq!(counts.refused, counts.same, "{}", language.name());
        assert!(
            counts.marked > 20 && counts.forms.iter().all(|count| *count > 1),
            "{} {counts:?}",
            language.name()
        );
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = corpora().into_iter().map(|corpus| scope.spawn(|| run(corpus))).collect();
        for thread in running {
            thread.join().unwrap();
        }
    });
}

/// What is found without parsing bodies is what is found with them, as far as an index asks.
fn same_items(path: &Path, all: &[Symbol], skimmed: &[Symbol]) {
    let key = |symbol: &Symbol| {
        let body = symbol.body.as_ref().map(|body| body.start);
        let places = (symbol.full.start, symbol.name_at.clone(), symbol.signature.clone(), body, symbol.line);
        (symbol.kind, symbol.path(), symbol.container, symbol.shared, places)
    };
    let (all, skimmed): (Vec<_>, Vec<_>) = (all.iter().map(key).collect(), skimmed.iter().map(key).collect());
    assert_eq!(all, skimmed, "{}", path.display());
}

#[test]
fn outlines_of_real_files_are_in_order_and_nested() {
    for (language, folder) in corpora() {
        for (path, source) in sample(&folder, language) {
            let symbols = outline(language, &source, Depth::Everything);
            for (at, symbol) in symbols.iter().enumerate() {
                let place = format!("{} {}", path.display(), symbol.path());
                assert!(symbol.full.start <= symbol.signature.start, "{place}");
                assert!(
                    symbol.signature.end <= symbol.full.end && symbol.full.end <= source.len(),
                    "{place}"
                );
                if let Some(body) = &symbol.body {
                    assert!(symbol.signature.start <= body.start && body.end <= symbol.full.end, "{place}");
                }
                if let Some(container) = symbol.container {
                    let around = &symbols[container].full;
                    assert!(container < at && around.start <= symbol.full.start, "{place}");
                    assert!(symbol.full.end <= around.end, "{place}");
                }
            }
            let items = outline(language, &source, Depth::Items);
            assert!(items.len() <= symbols.len(), "{}", path.display());
            same_items(&path, &items, &Reader::default().items(language, &source).unwrap());
        }
    }
}

/// Symbols of one file that are moved about.
const SYMBOLS: usize = 3;

/// What became of the symbols of one language.
#[derive(Debug, Default)]
struct Moved {
    replaced: usize,
    renamed: usize,
    /// By kind.
    deleted: HashMap<&'static str, usize>,
    inserted: HashMap<&'static str, usize>,
}

/// The file without what it has at `at`, blank lines and line ends aside: they may go along.
fn without(source: &str, at: Range<usize>) -> String {
    let left = format!("{}{}", &source[..at.start], &source[at.end..]);
    left.chars().filter(|c| !c.is_whitespace()).collect()
}

fn try_symbol(language: Language, source: &str, symbol: &Symbol, moved: &mut Moved) {
    let name = match (&symbol.of_trait, symbol.kind) {
        (Some(of), Kind::Impl) => format!("impl {of} for {}:{}", symbol.path(), symbol.line),
        (None, Kind::Impl) => format!("impl {}:{}", symbol.path(), symbol.line),
        _ => format!("{}:{}", symbol.path(), symbol.line),
    };
    let target = Target { name: &name, modules: &[] };
    let change = |change: &Change<'_>| edit(language, source.as_bytes(), &target, change);
    let bare = |bytes: &[u8]| String::from_utf8_lossy(bytes).split_whitespace().collect::<String>();
    match change(&Change::Replace(&source[symbol.full.clone()])) {
        Err(EditError::Same) => moved.replaced += 1,
        Err(EditError::NotFound { .. } | EditError::Ambiguous { .. } | EditError::Together { .. }) => return,
        Ok(done) => {
            let now = String::from_utf8_lossy(&done.bytes);
            panic!("itself: {:?} became\n{now}", &source[symbol.full.clone()])
        }
        Err(error) => panic!("itself: {error}"),
    }
    // another name, and nothing else
    let (at, head) = (&symbol.name_at, &symbol.signature);
    let said = head.start <= at.start && !at.is_empty() && at.end <= head.end;
    if symbol.kind.is_callable() && said {
        let signature = format!("{}zqx{}", &source[head.start..at.start], &source[at.end..head.end]);
        let done = change(&Change::Signature(&signature)).unwrap_or_else(|error| panic!("renamed: {error}"));
        let expected = [&source[..at.start], "zqx", &source[at.end..]].concat();
        same_lines(&done.bytes, expected.as_bytes(), &signature);
        moved.renamed += 1;
    }
    // it goes with what closes it and the comment behind it, and nothing else does
    match change(&Change::Delete) {
        Ok(done) => {
            let line = source[symbol.full.end..].find('\n').map_or(source.len(), |end| symbol.full.end + end);
            let fits = [symbol.full.end, line].iter().any(|end| {
                let expected = without(source, symbol.full.start..*end);
                let got = bare(&done.bytes);
                got == expected || got.len() < expected.len() && expected.len() - got.len() == 1
            });
            assert!(fits, "deleted: {}", String::from_utf8_lossy(&done.bytes));
            *moved.deleted.entry(symbol.kind.name()).or_default() += 1;
        }
        // the only thing in a block, which must not be empty
        Err(EditError::DoesNotParse { reason }) if reason.contains("nothing in a block") => {}
        // the expression that other constants repeat
        Err(EditError::DoesNotParse { reason }) if reason.contains("it repeats the expression") => {}
        other => panic!("deleted: {other:?}"),
    }
    // another like it comes before it and after it, and all that was there stays
    if symbol.shared || symbol.overload || !said || symbol.kind == Kind::Impl {
        return;
    }
    let like = format!("{}zqx{}", &source[symbol.full.start..at.start], &source[at.end..symbol.full.end]);
    for new in [Change::Before(&like), Change::After(&like)] {
        let done = change(&new).unwrap_or_else(|error| panic!("{new:?}: {error}"));
        let (got, old, new) = (bare(&done.bytes).len(), bare(source.as_bytes()).len(), bare(like.as_bytes()));
        // a comma may be needed between the two
        assert!((got - old - new.len()) < 2, "{like}");
        assert!(String::from_utf8_lossy(&done.bytes).matches("zqx").count() > 0, "{like}");
        *moved.inserted.entry(symbol.kind.name()).or_default() += 1;
    }
}

#[test]
fn symbols_are_replaced_renamed_deleted_and_joined_by_others() {
    let run = |(language, folder): (Language, PathBuf)| {
        let (mut moved, mut wrong) = (Moved::default(), Vec::new());
        for (path, source) in sample(&folder, language).into_iter().step_by(6) {
            let source = String::from_utf8(source).unwrap();
            let symbols = outline(language, source.as_bytes(), Depth::Everything);
            // by turns the first of the file's kinds, then others
            let mut seen = HashSet::new();
            let (mut chosen, rest): (Vec<_>, Vec<_>) = symbols.iter().partition(|it| seen.insert(it.kind));
            chosen.extend(rest.into_iter().rev());
            for symbol in chosen.into_iter().take(SYMBOLS) {
                let tried = catch_unwind(AssertUnwindSafe(|| {
                    try_symbol(language, &source, symbol, &mut moved);
                }));
                if tried.is_err() {
                    wrong.push(format!("{} {}:{}", path.display(), symbol.path(), symbol.line));
                }
            }
        }
        let name = language.name();
        assert!(wrong.is_empty(), "{name}: {} of {moved:?}:\n{}", wrong.len(), wrong.join("\n"));
        assert!(moved.replaced > 30 && moved.renamed > 10, "{name} {moved:?}");
        assert!(moved.deleted.len() > 2 && moved.inserted.len() > 2, "{name} {moved:?}");
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = corpora().into_iter().map(|corpus| scope.spawn(|| run(corpus))).collect();
        for thread in running {
            thread.join().unwrap();
        }
    });
}
