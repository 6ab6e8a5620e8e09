//! Properties on real sources: those of the toolchains that every machine with this project has.

use code::{Change, Depth, EditError, Language, Reader, Target, edit, outline};
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Bytes of one language that are looked at.
const SAMPLE: usize = 90 << 10;
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
        let parses =
            || Reader::default().parse(wanted, text).is_some_and(|parsed| parsed.problems().is_empty());
        wanted == language || parses()
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
        if text.len() < 24 << 10 && std::str::from_utf8(&text).is_ok() && fits(&text) {
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

#[test]
fn a_body_replaced_by_itself_changes_nothing_and_by_garbage_neither() {
    for (language, folder) in corpora() {
        let (mut same, mut refused) = (0, 0);
        for (path, source) in sample(&folder, language) {
            let symbols = outline(language, &source, Depth::Everything);
            let functions: Vec<_> =
                symbols.iter().filter(|it| it.kind.is_callable() && it.body.is_some()).collect();
            let step = (functions.len() / FUNCTIONS).max(1);
            for function in functions.iter().step_by(step).take(FUNCTIONS) {
                let body = function.body.clone().unwrap();
                let text = std::str::from_utf8(&source[body.clone()]).unwrap();
                let name = format!("{}:{}", function.path(), function.line);
                let target = Target { name: &name, modules: &[] };
                let place = || format!("{} {name}", path.display());
                match edit(language, &source, &target, &Change::Body(text)) {
                    Err(EditError::Same) => same += 1,
                    // names that no path can say: computed, quoted, twice on a line
                    Err(EditError::NotFound { .. } | EditError::Ambiguous { .. }) => continue,
                    Err(error) => panic!("{}: {error}", place()),
                    Ok(done) => panic!("{}: {}", place(), String::from_utf8_lossy(&done.bytes)),
                }
                // the same words in another order of lines: everything outside of the body must stay
                let marked = format!("{text}\n");
                if let Ok(done) = edit(language, &source, &target, &Change::Body(&marked)) {
                    assert!(done.bytes.starts_with(&source[..body.start]), "{}", place());
                    assert!(done.bytes.ends_with(&source[body.end..]), "{}", place());
                }
                match edit(language, &source, &target, &Change::Body("ok(\n]]) {{ ]")) {
                    Err(EditError::DoesNotParse { reason }) => {
                        assert!(reason.contains("line "), "{}: {reason}", place());
                        refused += 1;
                    }
                    other => panic!("{}: {other:?}", place()),
                }
            }
        }
        assert!(same > 20 && refused == same, "{}: {same}, {refused}", language.name());
    }
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
        }
    }
}
