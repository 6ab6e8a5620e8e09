//! Making sense of what runners print for people: where an error stands, and what it says.

use crate::text::bound;
use regex::Regex;
use std::{borrow::Cow, sync::LazyLock};

/// Turns the paths runners tell into paths of the project.
#[derive(Debug, Clone, Default)]
pub(crate) struct Paths {
    roots: Vec<String>,
}

/// Folders in a project whose files are not its own.
const FOREIGN: &[&str] =
    &["node_modules", "site-packages", "dist-packages", ".venv", "venv", ".tox", ".nox", ".yarn", ".pnp.cjs"];

impl Paths {
    /// Paths below this folder are the project's.
    pub(crate) fn new(root: &str) -> Self {
        let mut paths = Self::default();
        paths.add(root);
        paths
    }

    /// The project is also known under this name (behind symbolic links).
    pub(crate) fn add(&mut self, root: &str) {
        let root = root.trim_end_matches('/');
        if !root.is_empty() && !self.roots.iter().any(|known| known == root) {
            self.roots.push(root.to_owned());
        }
    }

    /// The path relative to the project; unchanged when it is outside.
    pub(crate) fn relative(&self, path: &str) -> String {
        self.inside(path).unwrap_or_else(|| path.to_owned())
    }

    /// The path relative to the project, if it lies there.
    pub(crate) fn inside(&self, path: &str) -> Option<String> {
        let path = path.strip_prefix("file://").unwrap_or(path);
        if !path.starts_with('/') {
            let path = path.trim_start_matches("./");
            return (!path.is_empty() && !path.starts_with("../")).then(|| path.to_owned());
        }
        self.roots
            .iter()
            .find_map(|root| path.strip_prefix(root.as_str())?.strip_prefix('/'))
            .filter(|rest| !rest.is_empty())
            .map(str::to_owned)
    }

    /// A place in the project that a line names by its full path, which may have spaces in it.
    fn in_line<'a>(&self, line: &'a str) -> Option<(&'a str, u32, u32)> {
        let start = self.roots.iter().find_map(|root| line.find(root.as_str()))?;
        let whole = &line[start..];
        let found = matched(&NUMBERS, whole)?;
        Some((&whole[..found.get(0)?.start()], number(&found, 1), number(&found, 2)))
    }

    /// The first place that is in the project's own code.
    pub(crate) fn first_own<'a>(
        &self,
        places: impl IntoIterator<Item = (&'a str, u32, u32)>,
    ) -> Option<(String, u32, u32)> {
        places.into_iter().find_map(|(path, line, col)| {
            let inside = self.inside(path)?;
            let own = !inside.split('/').any(|part| FOREIGN.contains(&part)) && !inside.starts_with('<');
            own.then_some((inside, line, col))
        })
    }
}

/// What an error text says, and where it points.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Located {
    /// The error in its own words, without the stack.
    pub message: String,
    /// Workspace file, line and column (0 when unknown).
    pub place: Option<(String, u32, u32)>,
}

static PYTHON_FRAME: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"^\s*(?:E\s+)?File "([^"]+)", line (\d+)"#).ok());
static PLACE: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"((?:file://)?[^\s()'\x22:]+\.[A-Za-z]+):(\d+)(?::(\d+))?").ok());
static NUMBERS: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r":(\d+)(?::(\d+))?").ok());
static BABEL: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(/[^:\n]+): ([^\n]*) \((\d+):(\d+)\)").ok());
static ERROR: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"^(?:E\s+)?(?:Uncaught )?((?:[A-Za-z_][\w.]*)?(?:Error|Exception|Exit|Interrupt)\b.*)$").ok()
});

/// Reads an error that was printed for people: a V8 stack, a Python traceback, a compiler's complaint.
pub(crate) fn locate(text: &str, paths: &Paths) -> Located {
    // Jest explains at length before it comes to the point.
    let text = text.rsplit_once("Details:\n\n").map_or(text, |(_, details)| details);
    let decoded = decoded(text);
    let text = decoded.as_ref();
    let python = text.contains("File \"") && text.lines().any(|line| matched(&PYTHON_FRAME, line).is_some());
    let mut places: Vec<(&str, u32, u32)> = Vec::new();
    if numbered(text, b'(')
        && let Some(found) = matched(&BABEL, text)
    {
        places.push((group(&found, 1), number(&found, 3), number(&found, 4)));
    }
    for line in text.lines().take(400) {
        if python {
            let found = matched(&PYTHON_FRAME, line);
            places.extend(found.map(|found| (group(&found, 1), number(&found, 2), 0)));
        } else if !numbered(line, b':') {
            // Expressions cost more than a look at the bytes that they cannot do without.
        } else if let Some(found) = paths.in_line(line) {
            places.push(found);
        } else if let Some(found) = matched(&PLACE, line) {
            places.push((group(&found, 1), number(&found, 2), number(&found, 3)));
        }
    }
    // Python tells the innermost frame last, V8 first.
    if python {
        places.reverse();
    }
    Located { message: words(text, python), place: paths.first_own(places) }
}

/// Whether a number follows that byte somewhere.
fn numbered(text: &str, before: u8) -> bool {
    let bytes = text.as_bytes();
    memchr::memchr_iter(before, bytes).any(|at| bytes.get(at + 1).is_some_and(u8::is_ascii_digit))
}

/// The text with the escapes of file URLs taken back.
fn decoded(text: &str) -> Cow<'_, str> {
    if !text.contains("file://") || !text.contains('%') {
        return Cow::Borrowed(text);
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = after
            .get(..2)
            .and_then(|hex| std::str::from_utf8(hex).ok())
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match (first, code) {
            (b'%', Some(code)) => {
                bytes.push(code);
                rest = &after[2..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
}

fn matched<'t>(pattern: &LazyLock<Option<Regex>>, text: &'t str) -> Option<regex::Captures<'t>> {
    pattern.as_ref()?.captures(text)
}

fn group<'t>(found: &regex::Captures<'t>, at: usize) -> &'t str {
    found.get(at).map_or("", |one| one.as_str())
}

fn number(found: &regex::Captures<'_>, at: usize) -> u32 {
    group(found, at).parse().unwrap_or(0)
}

/// The line that names the error, or the last that says anything.
fn words(text: &str, python: bool) -> String {
    let mut errors = text
        .lines()
        .filter(|line| memchr::memchr2(b'E', b'I', line.as_bytes()).is_some())
        .filter_map(|line| matched(&ERROR, line.trim()).map(|found| group(&found, 1).to_owned()));
    let named = if python { errors.next_back() } else { errors.next() };
    let message =
        named.or_else(|| text.lines().rev().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned));
    bound(&message.unwrap_or_default(), 600)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_projects_own_code_is_a_place() {
        let paths = Paths::new("/p");
        let places = [("/usr/lib/x.js", 1, 1), ("/p/node_modules/a/i.js", 2, 1), ("/p/src/a.js", 3, 4)];
        assert_eq!(paths.first_own(places), Some(("src/a.js".to_owned(), 3, 4)));
        assert_eq!(paths.inside("/pother/a.js"), None);
        assert_eq!(paths.inside("file:///p/a.js"), Some("a.js".to_owned()));
    }

    #[test]
    fn errors_are_found_in_what_people_read() {
        let paths = Paths::new("/p");
        let v8 = "\nfile:///p/test/b.js:2\nnope();\n^\n\nReferenceError: nope is not defined\n    at file:///p/test/b.js:2:24\n    at node:internal/x:1:1\n";
        assert_eq!(
            locate(v8, &paths),
            Located {
                message: "ReferenceError: nope is not defined".to_owned(),
                place: Some(("test/b.js".to_owned(), 2, 0))
            }
        );
        let python = "Traceback (most recent call last):\n  File \"/usr/lib/python3/unittest/main.py\", line 3, in x\n  File \"/p/pkg/a.py\", line 7, in <module>\n    import nope\nModuleNotFoundError: No module named 'nope'\n";
        assert_eq!(
            locate(python, &paths),
            Located {
                message: "ModuleNotFoundError: No module named 'nope'".to_owned(),
                place: Some(("pkg/a.py".to_owned(), 7, 0))
            }
        );
        let spaced = Paths::new("/a folder/p");
        let line = "Error: no\n    at x (/a folder/p/test/b.js:2:24)\n";
        assert_eq!(locate(line, &spaced).place, Some(("test/b.js".to_owned(), 2, 24)));
        let babel = "Jest encountered an unexpected token\n\nDetails:\n\nSyntaxError: /p/test/s.js: Unexpected token (1:28)\n\n> 1 | x\n";
        let found = locate(babel, &paths);
        assert_eq!(found.place, Some(("test/s.js".to_owned(), 1, 28)));
        assert!(found.message.starts_with("SyntaxError"), "{}", found.message);
    }
}
