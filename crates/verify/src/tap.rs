//! Reads the Test Anything Protocol, which runners of many languages speak.

use crate::{Failure, TestId, bound};

/// Bytes kept of what a failing point says.
const SAID: usize = 4000;

/// One result that is not fine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Point {
    /// Names of the subtests around it and its own, from the outside in.
    pub path: Vec<String>,
    /// Diagnostics that belong to it.
    pub said: Vec<String>,
    /// How many results came before it.
    before: usize,
}

/// One stream of TAP, read line by line. What is fine is only counted.
#[derive(Debug, Default)]
pub struct Tap {
    passed: usize,
    skipped: usize,
    failures: Vec<Point>,
    /// Results and the plan at each level of nesting.
    levels: Vec<Level>,
    said: usize,
    /// The latest result is a failure, and what follows is said about it; about a sum nothing is kept.
    open: bool,
    version: bool,
    bail: Option<String>,
}

#[derive(Debug, Default)]
struct Level {
    name: Option<String>,
    seen: u32,
    plan: Option<u32>,
    /// How many results there were before those of this level's subtests.
    first_child: usize,
}

/// Nesting deeper than this is taken for text.
const DEEPEST: usize = 32;

impl Tap {
    /// Takes the next line.
    pub fn line(&mut self, line: &str) {
        let text = line.trim_start_matches(' ');
        let depth = (line.len() - text.len()) / 4;
        if depth > DEEPEST {
            return self.say(line);
        }
        if let Some((ok, rest)) = result(text) {
            self.point(depth, ok, rest);
        } else if let Some(name) = text.strip_prefix("# Subtest: ") {
            let level = self.level(depth);
            level.name = Some(name.trim().to_owned());
        } else if text.starts_with("TAP version ") {
            self.version = true;
        } else if let Some(count) = plan(text) {
            self.level(depth).plan = Some(count);
        } else if let Some(reason) = text.strip_prefix("Bail out!") {
            self.bail = Some(reason.trim().to_owned());
        } else {
            self.say(line);
        }
    }

    fn level(&mut self, depth: usize) -> &mut Level {
        while self.levels.len() <= depth {
            let first_child = self.count();
            self.levels.push(Level { first_child, ..Level::default() });
        }
        &mut self.levels[depth]
    }

    fn point(&mut self, depth: usize, ok: bool, rest: &str) {
        self.said = 0;
        self.open = false;
        let (name, skipped) = describe(rest);
        let count = self.count();
        let level = self.level(depth);
        level.seen += 1;
        let number = level.seen;
        let named = || if name.is_empty() { format!("test {number}") } else { name.to_owned() };
        let first_child = self.levels.get(depth + 1).map(|level| level.first_child);
        if let Some(first) = first_child.filter(|first| *first < count) {
            // A result after an indented block sums the block up: only its leaves count.
            self.levels.truncate(depth + 1);
            let begin = self.failures.partition_point(|point| point.before < first);
            for part in self.failures[begin..].iter_mut().filter_map(|point| point.path.get_mut(depth)) {
                *part = named();
            }
            if ok || begin < self.failures.len() {
                return;
            }
        }
        if skipped {
            self.skipped += 1;
        } else if ok {
            self.passed += 1;
        } else {
            let around = self.levels[1..=depth].iter().map(|level| level.name.clone().unwrap_or_default());
            let path = around.chain([named()]).collect();
            self.failures.push(Point { path, said: Vec::new(), before: count });
            self.open = true;
        }
    }

    fn say(&mut self, line: &str) {
        let Some(point) = self.failures.last_mut().filter(|_| self.open) else { return };
        self.said += line.len();
        if self.said <= SAID {
            point.said.push(line.to_owned());
        }
    }

    /// Whether what was read so far looks like TAP at all: results, and a plan or a version line.
    #[must_use]
    pub fn recognised(&self) -> bool {
        let top = self.levels.first();
        let planned = top.is_some_and(|level| level.plan.is_some());
        planned || (self.version && self.count() > 0)
    }

    /// Results so far.
    #[must_use]
    pub fn count(&self) -> usize {
        self.passed + self.skipped + self.failures.len()
    }

    /// Of them, fine.
    #[must_use]
    pub fn passed(&self) -> usize {
        self.passed
    }

    /// Of them, skipped or known failures.
    #[must_use]
    pub fn skipped(&self) -> usize {
        self.skipped
    }

    /// Of them, neither.
    #[must_use]
    pub fn failures(&self) -> &[Point] {
        &self.failures
    }

    /// Why the stream is not complete, when it is not.
    #[must_use]
    pub fn broken(&self) -> Option<String> {
        if let Some(reason) = &self.bail {
            return Some(format!("bailed out: {reason}"));
        }
        let top = self.levels.first()?;
        match top.plan {
            None => Some("ended without a plan".to_owned()),
            Some(plan) if plan != top.seen => Some(format!("planned {plan} tests, {} ran", top.seen)),
            Some(_) => None,
        }
    }
}

/// `1..N`, with or without a remark.
fn plan(text: &str) -> Option<u32> {
    let rest = text.strip_prefix("1..").or_else(|| text.strip_prefix("0.."))?;
    let (number, remark) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len()));
    (remark.is_empty() || remark.trim_start().starts_with('#')).then_some(())?;
    number.parse().ok()
}

/// `ok …` or `not ok …`.
fn result(text: &str) -> Option<(bool, &str)> {
    let (ok, rest) = match text.strip_prefix("not ok") {
        Some(rest) => (false, rest),
        None => (true, text.strip_prefix("ok")?),
    };
    (rest.is_empty() || rest.starts_with(' ')).then_some((ok, rest))
}

/// A description from `12 - name # SKIP why`, and whether it is skipped or a known failure.
fn describe(rest: &str) -> (&str, bool) {
    let rest = rest.trim_start().trim_start_matches(|c: char| c.is_ascii_digit()).trim_start();
    let rest = rest.strip_prefix("- ").or_else(|| rest.strip_prefix('-')).unwrap_or(rest);
    let (name, directive) = match rest.contains('#') {
        false => (rest, ""),
        true => match rest.rsplit_once(" # ") {
            Some(parts) => parts,
            None => rest.strip_prefix("# ").map_or((rest, ""), |directive| ("", directive)),
        },
    };
    let is = |word: &str| directive.get(..4).is_some_and(|begin| begin.eq_ignore_ascii_case(word));
    let skipped = is("skip") || is("todo");
    match skipped || is("time") || directive.is_empty() {
        true => {
            let name = name.trim();
            (name.strip_suffix(" {").unwrap_or(name), skipped)
        }
        false => (rest.trim(), false),
    }
}

impl Point {
    /// The failure it stands for, in a unit such as a file or a command.
    #[must_use]
    pub fn failure(&self, unit: &str) -> Failure {
        let id = TestId { unit: unit.to_owned(), path: self.path.clone() };
        let mut failure = Failure::new(id, self.path.join(" > "));
        let mut rest = Vec::new();
        for line in &self.said {
            let text = line.trim().trim_start_matches('#').trim();
            if !take(&mut failure, text) && !["---", "...", ""].contains(&text) {
                rest.push(text);
            }
        }
        if failure.message.is_empty() {
            failure.message = bound(&rest.join("\n"), 2000);
        } else if !rest.is_empty() {
            failure.output = Some(bound(&rest.join("\n"), 2000));
        }
        if failure.message.is_empty() {
            failure.message = "not ok".to_owned();
        }
        failure
    }
}

/// Takes the facts out of one line of diagnostics.
fn take(failure: &mut Failure, text: &str) -> bool {
    if text.starts_with("Failed test") {
        place(failure, text);
        return true;
    }
    if text.starts_with("at ") && text.contains(" line ") {
        place(failure, text);
        return true;
    }
    let Some((key, value)) = text.split_once(':') else { return false };
    let value = value.trim();
    let plain = value.trim_matches(['"', '\'']).to_owned();
    match key.trim() {
        "expected" | "wanted" | "want" if failure.expected.is_none() => {
            failure.expected = Some(value.to_owned())
        }
        "actual" | "found" | "got" if failure.actual.is_none() => failure.actual = Some(value.to_owned()),
        "message" | "error" if failure.message.is_empty() => failure.message = plain,
        "file" if failure.file.is_none() => failure.file = Some(plain),
        "line" if failure.line.is_none() => failure.line = plain.parse().ok(),
        "at" if failure.line.is_none() => {
            let inside = value.rsplit('(').next().unwrap_or(value).trim_end_matches(')');
            let mut parts = inside.rsplitn(3, ':');
            let (_, line, file) = (parts.next(), parts.next(), parts.next());
            failure.line = line.and_then(|line| line.parse().ok());
            failure.file = file.filter(|_| failure.line.is_some()).map(str::to_owned);
        }
        "severity" | "operator" | "stack" | "duration_ms" | "type" => {}
        _ => return false,
    }
    true
}

/// `at t/x.t line 5.`, as Perl says it.
fn place(failure: &mut Failure, text: &str) {
    let Some((head, line)) = text.rsplit_once(" line ") else { return };
    failure.line = line.trim_end_matches('.').parse().ok();
    let file = head.rsplit("at ").next().map(str::trim).filter(|file| !file.is_empty());
    failure.file = file.map(str::to_owned);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Tap {
        let mut tap = Tap::default();
        text.lines().for_each(|line| tap.line(line));
        tap
    }

    fn names(tap: &Tap) -> Vec<String> {
        tap.failures().iter().map(|point| point.path.join("/")).collect()
    }

    #[test]
    fn results_plans_and_directives() {
        let tap = read(
            "TAP version 13\n1..5\nok 1 - a\nnot ok 2 - b # TODO later\nok 3 # SKIP no net\nnot ok 4 - c # d\nok\n",
        );
        assert!(tap.recognised());
        assert_eq!(tap.broken(), None);
        assert_eq!((tap.count(), tap.passed(), tap.skipped()), (5, 2, 2));
        assert_eq!(names(&tap), ["c # d"]);
        let described =
            ["1 - a", " 2 - b # TODO later", " 3 # Skip", "4 - c # d", "", "-x {", "6 y # time=3ms"]
                .map(describe);
        let want = [
            ("a", false),
            ("b", true),
            ("", true),
            ("c # d", false),
            ("", false),
            ("x", false),
            ("y", false),
        ];
        assert_eq!(described, want);
    }

    #[test]
    fn only_the_leaves_of_subtests_count() {
        let tap = read(
            "# Subtest: outer\n    # Subtest: inner\n        ok 1 - x\n        not ok 2 - y\n        1..2\n    not ok 1 - inner\n    1..1\nnot ok 1 - outer\nok 2 - last\n1..2\n",
        );
        assert_eq!((tap.count(), tap.passed()), (3, 2));
        assert_eq!(names(&tap), ["outer/inner/y"]);
        assert_eq!(tap.broken(), None);
    }

    #[test]
    fn diagnostics_become_facts() {
        let tap = read(
            "1..2\nnot ok 1 - sum\n  ---\n  message: \"wrong\"\n  expected: 3\n  actual: 2\n  at: Test.fn (/w/a.js:7:3)\n  ...\nnot ok 2 - perl\n#   Failed test 'perl'\n#   at t/x.t line 5.\n#          got: '1'\n#     expected: '2'\n",
        );
        let one = tap.failures()[0].failure("x");
        assert_eq!(
            (one.message.as_str(), one.expected.as_deref(), one.actual.as_deref()),
            ("wrong", Some("3"), Some("2"))
        );
        assert_eq!((one.file.as_deref(), one.line), (Some("/w/a.js"), Some(7)));
        let two = tap.failures()[1].failure("x");
        assert_eq!(
            (two.file.as_deref(), two.line, two.actual.as_deref()),
            (Some("t/x.t"), Some(5), Some("'1'"))
        );
    }

    #[test]
    fn what_is_missing_is_told() {
        assert_eq!(read("1..3\nok 1\n").broken().as_deref(), Some("planned 3 tests, 1 ran"));
        assert_eq!(read("1..3\nok 1\nBail out! no disk\n").broken().as_deref(), Some("bailed out: no disk"));
        assert_eq!(read("ok 1\n").broken().as_deref(), Some("ended without a plan"));
        assert!(!read("ok, that went well\nok then\n").recognised());
    }
}
