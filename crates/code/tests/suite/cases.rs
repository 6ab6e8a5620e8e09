//! Files of cases: `=== title`, `language change name`, then sections `--- source`, `--- new`, `--- expect`. An expected
//! text that begins with `! ` is what the refusal says.

use code::{Change, EditError, Language, Target, edit};
use std::{fs, path::Path};

pub(crate) struct Case {
    title: String,
    pub(crate) head: String,
    pub(crate) source: String,
    new: String,
    expect: String,
}

/// All cases.
pub(crate) fn all() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    fs::read_dir(folder).unwrap().flat_map(|entry| read(&entry.unwrap().path())).collect()
}

fn read(path: &Path) -> Vec<Case> {
    let text = fs::read_to_string(path).unwrap();
    let case = |part: &str| {
        let section = |name: &str| {
            let (_, rest) = part.split_once(&format!("--- {name}\n")).unwrap_or_default();
            let end = rest.find("\n--- ").map_or(rest.len(), |at| at + 1);
            rest[..end].to_owned()
        };
        let mut lines = part.lines();
        let (title, head) = (lines.next().unwrap(), lines.next().unwrap());
        Case {
            title: title.trim().to_owned(),
            head: head.to_owned(),
            source: section("source"),
            new: section("new"),
            expect: section("expect"),
        }
    };
    text.split("=== ").skip(1).map(case).collect()
}

fn run(case: &Case, source: &str) -> Result<String, EditError> {
    let mut words = case.head.splitn(3, ' ');
    let mut word = || words.next().unwrap_or_default();
    let (language, change, name) = (word(), word(), word());
    let language = *Language::ALL.iter().find(|it| it.name() == language).unwrap();
    let new = case.new.as_str();
    let change = match change {
        "body" => Change::Body(new),
        "signature" => Change::Signature(new),
        "replace" => Change::Replace(new),
        "before" => Change::Before(new),
        "after" => Change::After(new),
        "method" => Change::MethodAfter(new),
        "delete" => Change::Delete,
        other => panic!("{other}"),
    };
    let target = Target { name, modules: &["mod", "pkg"] };
    edit(language, source.as_bytes(), &target, &change).map(|done| String::from_utf8(done.bytes).unwrap())
}

fn said(error: &EditError) -> String {
    let list = |all: &[code::Listed]| all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    match error {
        EditError::NotFound { near, total, .. } => format!("{error}; {total}: {}", list(near)),
        EditError::Ambiguous { candidates, .. } => format!("{error}: {}", list(candidates)),
        other => other.to_string(),
    }
}

#[test]
fn every_case_comes_out_as_written() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let (mut count, mut wrong) = (0, Vec::new());
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        for case in read(&path) {
            count += 1;
            let name = format!("{} / {}", path.file_stem().unwrap().to_string_lossy(), case.title);
            match (run(&case, &case.source), case.expect.strip_prefix("! ")) {
                (Ok(got), None) if got == case.expect => {}
                (Err(error), Some(why)) if said(&error).contains(why.trim_end()) => {}
                (Ok(got), _) => wrong.push(format!("{name}: got\n{got}---\nand not\n{}", case.expect)),
                (Err(error), _) => wrong.push(format!("{name}: {}", said(&error))),
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {count}:\n\n{}", wrong.len(), wrong.join("\n\n"));
    assert!(count >= 80, "{count} cases");
}

/// The same cases in files with Windows line ends and a byte-order mark.
#[test]
fn line_ends_and_mark_stay() {
    let dressed = |text: &str| format!("\u{FEFF}{}", text.replace('\n', "\r\n"));
    for case in all().iter().filter(|case| !case.expect.starts_with("! ")) {
        let got = run(case, &dressed(&case.source)).unwrap_or_else(|error| panic!("{}: {error}", case.title));
        assert_eq!(got, dressed(&case.expect), "{}", case.title);
    }
}
