//! Reading unified diffs, as git writes them and as people and models do.

use std::ffi::OsString;
use std::iter::Peekable;
use std::path::PathBuf;

use super::PatchError;
use crate::path::unquote;

/// A patch: what to do with which files, in order.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PatchPlan {
    pub(crate) files: Vec<FilePatch>,
}

impl PatchPlan {
    /// The files it names, as it names them.
    pub fn paths(&self) -> impl Iterator<Item = &std::path::Path> {
        self.files.iter().flat_map(|file| [file.old.as_deref(), file.new.as_deref()]).flatten()
    }

    /// What it adds to files that there are, as it names them.
    pub fn additions(&self) -> impl Iterator<Item = (&std::path::Path, String)> {
        self.files.iter().filter_map(|file| {
            let lines = file.hunks.iter().flat_map(|hunk| &hunk.lines);
            let added: Vec<&str> = lines.filter_map(Line::added).collect();
            Some((file.old.as_deref()?, added.join("\n")))
        })
    }
}

/// What a patch does with one file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct FilePatch {
    /// The file before; `None` when it is created.
    pub(crate) old: Option<PathBuf>,
    /// The file after; `None` when it is deleted.
    pub(crate) new: Option<PathBuf>,
    /// The old file stays (`copy from`).
    pub(crate) copy: bool,
    /// Whether it becomes executable, when the patch says so.
    pub(crate) executable: Option<bool>,
    pub(crate) hunks: Vec<Hunk>,
}

/// One place that changes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Hunk {
    /// The header as written, to name the hunk.
    pub(crate) header: String,
    /// The first old line, from 1; `None` when the header does not say.
    pub(crate) old_start: Option<usize>,
    pub(crate) lines: Vec<Line>,
    /// The last new line has no line end.
    pub(crate) open_end: bool,
}

/// A line of a hunk.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Context(String),
    Removed(String),
    Added(String),
}

impl Line {
    /// Its text if it is part of the old file.
    pub(crate) fn old(&self) -> Option<&str> {
        match self {
            Self::Context(text) | Self::Removed(text) => Some(text),
            Self::Added(_) => None,
        }
    }

    /// Its text if the patch adds it.
    fn added(&self) -> Option<&str> {
        match self {
            Self::Added(text) => Some(text),
            Self::Context(_) | Self::Removed(_) => None,
        }
    }
}

/// Reads a unified diff of one or more files.
pub fn parse(patch: &str) -> Result<PatchPlan, PatchError> {
    let patch = patch.strip_suffix('\n').unwrap_or(patch);
    let mut lines = patch.split('\n').enumerate().peekable();
    let mut plan = PatchPlan::default();
    // where each file's header stands, and whether it is one that hunks must follow
    let mut headers: Vec<(usize, bool)> = Vec::new();
    // a git header opens a file; a `---` line that follows belongs to it
    let mut open = false;
    // a line of a hunk that stands behind its end would be lost without a word
    let mut after_hunk = false;
    while let Some((at, raw)) = lines.next() {
        let line = raw.strip_suffix('\r').unwrap_or(raw);
        let fail = |why: String| Err(PatchError::Parse { line: at + 1, why });
        if line.starts_with("*** ") && plan.files.is_empty() {
            return fail(
                "this is not a unified diff; start each file with `--- a/path` and `+++ b/path`".into(),
            );
        }
        if after_hunk && is_stray(line) && !is_header(line, lines.peek().map(|(_, next)| *next)) {
            return fail(format!(
                "{} stands behind the end of its hunk: begin every line of a hunk with a space, `+` or `-`, an empty \
                 one too, and count it in the hunk's header",
                clipped(line)
            ));
        }
        after_hunk &= !line.starts_with("diff ") && !line.starts_with("From ");
        if let Some(names) = line.strip_prefix("diff --git ") {
            let (old, new) = git_names(names);
            plan.files.push(FilePatch { old, new, ..FilePatch::default() });
            headers.push((at + 1, false));
            open = true;
        } else if is_header(line, lines.peek().map(|(_, next)| *next)) {
            after_hunk = false;
            let next = lines.next().map_or("", |(_, next)| next);
            let (old, new) = header_names(&line[4..], next[4..].trim_end_matches('\r'));
            if old.is_none() && new.is_none() {
                return fail("both sides are /dev/null".into());
            }
            if !open {
                plan.files.push(FilePatch::default());
                headers.push((at + 1, true));
            }
            headers.last_mut().into_iter().for_each(|(_, changes)| *changes = true);
            open = false;
            if let Some(file) = plan.files.last_mut() {
                (file.old, file.new) = (old, new);
            }
        } else if line.starts_with("@@") {
            open = false;
            let Some(file) = plan.files.last_mut() else {
                return fail("a hunk without a file; put `--- a/path` and `+++ b/path` before it".into());
            };
            file.hunks.push(hunk(at, line, &mut lines)?);
            after_hunk = true;
        } else if open {
            extended(line, plan.files.last_mut()).map_err(|why| PatchError::Parse { line: at + 1, why })?;
        } else if line.starts_with("GIT binary patch") || line.starts_with("Binary files ") {
            return fail("binary patches are not supported; write the file another way".into());
        }
    }
    if plan.files.is_empty() {
        return Err(PatchError::Parse {
            line: 1,
            why: "no file header found; start each file with `--- a/path` and `+++ b/path`".into(),
        });
    }
    for (file, (line, changes)) in plan.files.iter().zip(headers) {
        if file.hunks.is_empty() && (changes || file.old == file.new && file.executable.is_none()) {
            let why =
                "no hunk follows this header; start each change with `@@ -line,count +line,count @@`".into();
            return Err(PatchError::Parse { line, why });
        }
    }
    match plan.files.iter().find(|file| file.old.is_none() && file.new.is_none()) {
        Some(_) => Err(PatchError::Parse { line: 1, why: "a file header without a file name".into() }),
        None => Ok(plan),
    }
}

/// Whether a file begins here.
fn is_header(line: &str, next: Option<&str>) -> bool {
    line.starts_with("--- ") && next.is_some_and(|next| next.starts_with("+++ "))
}

/// Whether a line outside of a hunk would be part of one. `-- ` and `---` are how mails end and begin.
fn is_stray(line: &str) -> bool {
    line.starts_with(['+', '-']) && !matches!(line.trim_end(), "--" | "---")
}

/// Whether a hunk may end with this line, though it says that more follows.
fn may_end(line: &str) -> bool {
    ["diff ", "@@", "index ", "Index: ", "From ", "```", "***"].iter().any(|start| line.starts_with(start))
}

fn clipped(line: &str) -> String {
    let short: String = line.chars().take(80).collect();
    format!("{:?}{}", short, if short.len() < line.len() { "…" } else { "" })
}

/// The lines between `diff --git` and the first hunk.
fn extended(line: &str, file: Option<&mut FilePatch>) -> Result<(), String> {
    let Some(file) = file else { return Ok(()) };
    let name = |text: &str| Some(path_of(text));
    let mode = |mode: &str| match mode.trim() {
        "100755" => Ok(Some(true)),
        "100644" => Ok(Some(false)),
        "120000" => Err("symlinks cannot be patched; make them with a command".to_owned()),
        other => Err(format!("unsupported file mode {other}")),
    };
    if let Some(rest) = line.strip_prefix("new file mode ") {
        file.old = None;
        file.executable = mode(rest)?.filter(|executable| *executable);
    } else if let Some(rest) = line.strip_prefix("deleted file mode ") {
        mode(rest)?;
        file.new = None;
    } else if let Some(rest) = line.strip_prefix("new mode ") {
        file.executable = mode(rest)?;
    } else if let Some(rest) = line.strip_prefix("rename from ") {
        file.old = name(rest);
    } else if let Some(rest) = line.strip_prefix("rename to ") {
        file.new = name(rest);
    } else if let Some(rest) = line.strip_prefix("copy from ") {
        file.old = name(rest);
        file.copy = true;
    } else if let Some(rest) = line.strip_prefix("copy to ") {
        file.new = name(rest);
    } else if line.starts_with("GIT binary patch") || line.starts_with("Binary files ") {
        return Err("binary patches are not supported; write the file another way".to_owned());
    }
    Ok(())
}

/// Both names of a `diff --git` line. It is ambiguous when names hold spaces; the lines that follow it then decide.
fn git_names(names: &str) -> (Option<PathBuf>, Option<PathBuf>) {
    let middle = names.match_indices(" b/").map(|(at, _)| at).find(|&at| {
        let (old, new) = (&names[..at], &names[at + 1..]);
        old.strip_prefix("a/") == new.strip_prefix("b/")
    });
    let at = middle.or_else(|| names.find(" b/")).or_else(|| names.find(" \"b/")).or_else(|| names.find(' '));
    match at {
        Some(at) => header_names(&names[..at], &names[at + 1..]),
        None => (None, None),
    }
}

/// The names of a `---` and a `+++` line, without git's `a/` and `b/`.
fn header_names(old: &str, new: &str) -> (Option<PathBuf>, Option<PathBuf>) {
    let (old, new) = (bare_name(old), bare_name(new));
    let prefixed =
        |name: &Option<String>, prefix: &str| name.as_ref().is_none_or(|name| name.starts_with(prefix));
    let git = prefixed(&old, "a/") && prefixed(&new, "b/");
    let strip = |name: Option<String>| {
        name.map(|name| path_of(if git { name.get(2..).unwrap_or_default() } else { name.as_str() }))
    };
    // quoted names carry the prefix inside the quotes
    let strip_quoted = |name: Option<String>, prefix: &str| match name {
        Some(name) if name.starts_with(&format!("\"{prefix}")) => Some(path_of(&format!("\"{}", &name[3..]))),
        name => strip(name),
    };
    (strip_quoted(old, "a/"), strip_quoted(new, "b/"))
}

/// A name without the time stamp behind a tab; `None` for /dev/null.
fn bare_name(text: &str) -> Option<String> {
    let name = text.split('\t').next().unwrap_or(text).trim_end();
    (name != "/dev/null").then(|| name.to_owned())
}

fn path_of(text: &str) -> PathBuf {
    PathBuf::from(unquote(text).unwrap_or_else(|| OsString::from(text)))
}

/// `@@ -12,3 +12,4 @@`: where the old lines start, and how many there are on either side.
fn ranges(header: &str) -> Option<(usize, usize, usize)> {
    let mut words = header.trim_start_matches('@').split_whitespace();
    let range = |word: &str, sign: char| {
        let mut numbers = word.strip_prefix(sign)?.split(',');
        let start: usize = numbers.next()?.parse().ok()?;
        let count: usize = numbers.next().map_or(Some(1), |count| count.parse().ok())?;
        Some((start, count))
    };
    let (old_start, old_count) = range(words.next()?, '-')?;
    let (_, new_count) = range(words.next()?, '+')?;
    Some((old_start, old_count, new_count))
}

/// Reads the lines of a hunk. The counts in its header tell a removed `-- x` from the next file's header; where they
/// are wrong or missing, the lines themselves decide.
fn hunk<'p>(
    at: usize,
    header: &str,
    lines: &mut Peekable<impl Iterator<Item = (usize, &'p str)>>,
) -> Result<Hunk, PatchError> {
    let counts = ranges(header);
    let (mut old_left, mut new_left) = counts.map_or((0, 0), |(_, old, new)| (old, new));
    let mut hunk = Hunk {
        header: header.to_owned(),
        // with no old lines the number is that of the line before
        old_start: counts.map(|(start, count, _)| if count == 0 { start + 1 } else { start }),
        ..Hunk::default()
    };
    let mut last_is_new = false;
    while let Some(&(number, raw)) = lines.peek() {
        let counted = old_left > 0 || new_left > 0;
        let text = raw.strip_suffix('\r').unwrap_or(raw);
        let line = match text.as_bytes().first() {
            Some(b'\\') => {
                hunk.open_end |= last_is_new;
                lines.next();
                continue;
            }
            Some(b'-') if !counted && (text.starts_with("--- ") || text == "-- ") => break,
            Some(b'+') if !counted && text.starts_with("+++ ") => break,
            Some(b' ') => Line::Context(text[1..].to_owned()),
            Some(b'-') => Line::Removed(text[1..].to_owned()),
            Some(b'+') => Line::Added(text[1..].to_owned()),
            // editors strip the blank that marks an empty context line
            None if counted || counts.is_none() => Line::Context(String::new()),
            Some(_) if (counted || counts.is_none()) && !may_end(text) => {
                return Err(PatchError::Parse {
                    line: number + 1,
                    why: format!(
                        "{} is no line of the hunk {header:?}: begin it with a space (as it is), `-` (goes) or `+` (new)",
                        clipped(text)
                    ),
                });
            }
            _ => break,
        };
        lines.next();
        old_left = old_left.saturating_sub(usize::from(line.old().is_some()));
        new_left = new_left.saturating_sub(usize::from(!matches!(line, Line::Removed(_))));
        last_is_new = !matches!(line, Line::Removed(_));
        hunk.lines.push(line);
    }
    if counts.is_none() {
        while hunk.lines.last().is_some_and(|line| *line == Line::Context(String::new())) {
            hunk.lines.pop();
        }
    }
    if hunk.lines.is_empty() {
        return Err(PatchError::Parse { line: at + 1, why: format!("the hunk {header:?} is empty") });
    }
    Ok(hunk)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names(patch: &str) -> Vec<(Option<PathBuf>, Option<PathBuf>, usize)> {
        parse(patch).unwrap().files.into_iter().map(|file| (file.old, file.new, file.hunks.len())).collect()
    }

    fn p(name: &str) -> Option<PathBuf> {
        Some(PathBuf::from(name))
    }

    #[test]
    fn headers_of_all_kinds() {
        let git = "diff --git a/x y.txt b/x y.txt\nindex 1..2 100644\n--- a/x y.txt\n+++ b/x y.txt\n@@ -1 +1 @@\n-a\n+b\n";
        assert_eq!(names(git), [(p("x y.txt"), p("x y.txt"), 1)]);
        let plain = "--- old.c\t2020-01-01\n+++ new.c\t2020-01-01\n@@ -1 +1 @@\n-a\n+b\n";
        assert_eq!(names(plain), [(p("old.c"), p("new.c"), 1)]);
        let create = "--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+x\n";
        assert_eq!(names(create), [(None, p("n"), 1)]);
        let rename = "diff --git a/o b/n\nsimilarity index 100%\nrename from o\nrename to n\n";
        assert_eq!(names(rename), [(p("o"), p("n"), 0)]);
        let delete = "diff --git a/o b/o\ndeleted file mode 100644\nindex 1..0\n--- a/o\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n";
        assert_eq!(names(delete), [(p("o"), None, 1)]);
        let empty = "diff --git a/e b/e\nnew file mode 100755\nindex 0000000..e69de29\n";
        assert_eq!(names(empty), [(None, p("e"), 0)]);
        assert_eq!(parse(empty).unwrap().files[0].executable, Some(true));
        let odd = "--- \"a/a\\nb\"\n+++ \"b/a\\nb\"\n@@ -1 +1 @@\n-a\n+b\n";
        assert_eq!(names(odd), [(p("a\nb"), p("a\nb"), 1)]);
    }

    #[test]
    fn what_stands_around_patches_is_passed_over() {
        let mails = "From 1\nSubject: x\n\n- one\n---\n f | 2 +-\n\ndiff --git a/f b/f\nindex 1..2 100644\n--- a/f\n+++ b/f\n\
            @@ -1,2 +1,2 @@\n-a\n+b\n c\n-- \n2.43\n\nFrom 2\nSubject: y\n\n- two\n---\n f | 2 +-\n\ndiff --git a/g b/g\n\
            --- a/g\n+++ b/g\n@@ -1,2 +1,2 @@\n-a\n+b\n c\n-- \n2.43\n";
        assert_eq!(names(mails), [(p("f"), p("f"), 1), (p("g"), p("g"), 1)]);
        let fenced = "```diff\n--- a/f\n+++ b/f\n@@ -1,9 +1,9 @@\n-a\n+b\n```\nThis does it.\n";
        assert_eq!(names(fenced), [(p("f"), p("f"), 1)]);
    }

    #[test]
    fn a_removed_line_that_looks_like_a_header() {
        let patch = "--- a/q.sql\n+++ b/q.sql\n@@ -1,2 +1,1 @@\n--- comment\n+++ x\n-b\n--- a/r\n+++ b/r\n@@ -1 +1 @@\n-a\n+b\n";
        let plan = parse(patch).unwrap();
        assert_eq!(plan.files.len(), 2);
        assert_eq!(plan.files[0].hunks[0].lines[0], Line::Removed("-- comment".into()));
    }

    #[test]
    fn what_is_no_patch_is_named() {
        for (text, why) in [
            ("hello", "no file header"),
            ("@@ -1 +1 @@\n-a\n+b", "a hunk without a file"),
            ("*** Begin Patch\n", "not a unified diff"),
            ("--- a/x\n+++ b/x\n@@ -1 +1 @@\n", "is empty"),
            ("diff --git a/l b/l\nnew file mode 120000\n", "symlinks"),
            ("--- a/x\n+++ b/x\n", "line 1 of the patch: no hunk follows"),
            ("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\ndiff --git a/y b/y\n", "line 6 of the patch: no hunk"),
            (
                "--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n-a\n+b\nc\n-d\n+e\n",
                "line 6 of the patch: \"c\" is no line",
            ),
            ("--- a/x\n+++ b/x\n@@\n-a\n+b\nc\n-d\n+e\n", "line 6 of the patch: \"c\" is no line"),
            (
                "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n\n-d\n+e\n",
                "line 7 of the patch: \"-d\" stands behind",
            ),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text:?}: {error}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(lines in proptest::collection::vec("(--- |\\+\\+\\+ |@@ -1,2 \\+1 @@|@@|diff --git |rename from |\\\\|[ +-])?[ab/\"]{0,4}", 0..12)) {
            let _ = parse(&lines.join("\n"));
        }
    }
}
