//! Reads JUnit XML, the report format that most runners can write.

use crate::text::lossy;
use quick_xml::{
    Reader, XmlVersion,
    escape::resolve_predefined_entity,
    events::{BytesStart, Event},
};

/// How a test case ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CaseEnd {
    /// It passed.
    Passed,
    /// An assertion failed.
    Failed,
    /// Something else went wrong.
    Error,
    /// It did not run.
    Skipped,
}

/// One `<testcase>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    /// Names of the suites around it, from the outside in.
    pub suites: Vec<String>,
    /// Its `classname`.
    pub class: String,
    /// Its name.
    pub name: String,
    /// Its `file`, or that of the nearest suite that has one.
    pub file: Option<String>,
    /// Its `line`.
    pub line: Option<u32>,
    /// How it ended.
    pub end: CaseEnd,
    /// The `message` of its failure.
    pub message: String,
    /// The `type` of its failure.
    pub kind: String,
    /// The text inside its failure.
    pub text: String,
    /// What it printed to stdout.
    pub stdout: String,
    /// What it printed to stderr.
    pub stderr: String,
}

/// Every case of a report, and whether the report was complete.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// The cases, in order.
    pub cases: Vec<Case>,
    /// The report ended where it should.
    pub complete: bool,
}

/// Reads a report; one that is cut off gives what it has.
#[must_use]
pub fn read(bytes: &[u8]) -> Report {
    let mut cases = Vec::new();
    let complete = each(bytes, |case| cases.push(case.clone()));
    Report { cases, complete }
}

/// Calls `take` for every case of a report and says whether the report was complete. Most cases passed and are
/// only counted: they share one place, so that they cost next to nothing.
pub fn each(bytes: &[u8], take: impl FnMut(&Case)) -> bool {
    let text = lossy(bytes);
    let mut reader = Reader::from_str(&text);
    reader.config_mut().check_end_names = false;
    let mut state = State {
        take,
        case: Case::new(),
        inside: false,
        depth: 0,
        names: Vec::new(),
        files: Vec::new(),
        into: None,
        complete: false,
    };
    loop {
        match reader.read_event() {
            Ok(Event::Start(tag)) => state.open(&tag),
            Ok(Event::Empty(tag)) => {
                state.open(&tag);
                state.close(tag.local_name().as_ref());
            }
            Ok(Event::End(tag)) => state.close(tag.local_name().as_ref()),
            // Between the elements is nothing but space.
            Ok(Event::Text(_) | Event::CData(_) | Event::GeneralRef(_)) if !state.collects() => {}
            Ok(Event::Text(text)) => state.text(&text.xml10_content()),
            Ok(Event::CData(text)) => state.text(&text.xml10_content()),
            Ok(Event::GeneralRef(reference)) => match reference.resolve_char_ref() {
                Ok(Some(c)) => state.text(c.encode_utf8(&mut [0; 4])),
                _ => state.text(resolve_predefined_entity(&reference.xml10_content()).unwrap_or_default()),
            },
            Ok(Event::Eof) | Err(_) => return state.complete,
            Ok(_) => {}
        }
    }
}

/// Which text is being collected.
#[derive(Clone, Copy)]
enum Into {
    Failure,
    Stdout,
    Stderr,
}

struct State<F> {
    take: F,
    /// The case that is being read.
    case: Case,
    inside: bool,
    depth: usize,
    /// The names and files of the open suites.
    names: Vec<String>,
    files: Vec<Option<String>>,
    into: Option<Into>,
    complete: bool,
}

impl Case {
    fn new() -> Self {
        Self {
            suites: Vec::new(),
            class: String::new(),
            name: String::new(),
            file: None,
            line: None,
            end: CaseEnd::Passed,
            message: String::new(),
            kind: String::new(),
            text: String::new(),
            stdout: String::new(),
            stderr: String::new(),
        }
    }

    /// Begins anew inside these suites.
    fn clear(&mut self, around: &[String]) {
        let Self { suites, class, name, file, line, end, message, kind, text, stdout, stderr } = self;
        [class, name, message, kind, text, stdout, stderr].into_iter().for_each(String::clear);
        around.clone_into(suites);
        (*file, *line, *end) = (None, None, CaseEnd::Passed);
    }
}

/// Calls `each` with every attribute of these names and its value.
fn attributes(tag: &BytesStart<'_>, names: &[&str], mut each: impl FnMut(&str, &str)) {
    for one in tag.attributes().with_checks(false).flatten() {
        let key = one.key.as_ref();
        if !names.contains(&key) {
            continue;
        }
        match one.normalized_value(XmlVersion::default()) {
            Ok(value) => each(key, &value),
            Err(_) => each(key, &one.value),
        }
    }
}

impl<F: FnMut(&Case)> State<F> {
    fn collects(&self) -> bool {
        self.inside && self.into.is_some()
    }

    fn open(&mut self, tag: &BytesStart<'_>) {
        self.depth += 1;
        let case = &mut self.case;
        match tag.local_name().as_ref() {
            "testsuite" => {
                let (mut name, mut file) = (String::new(), None);
                attributes(tag, &["name", "file"], |key, value| match key {
                    "name" => value.clone_into(&mut name),
                    "file" if !value.is_empty() => file = Some(value.to_owned()),
                    _ => {}
                });
                self.names.push(name);
                self.files.push(file);
            }
            "testcase" => {
                self.inside = true;
                case.clear(&self.names);
                attributes(tag, &["name", "classname", "file", "line"], |key, value| match key {
                    "classname" => value.clone_into(&mut case.class),
                    "name" => value.clone_into(&mut case.name),
                    "file" if !value.is_empty() => case.file = Some(value.to_owned()),
                    "line" => case.line = value.parse().ok(),
                    _ => {}
                });
                if case.file.is_none() {
                    case.file = self.files.iter().rev().find_map(Clone::clone);
                }
            }
            tag_name @ ("failure" | "error" | "skipped") => {
                if !self.inside {
                    return;
                }
                case.end = match tag_name {
                    "failure" => CaseEnd::Failed,
                    "error" => CaseEnd::Error,
                    _ => CaseEnd::Skipped,
                };
                case.message.clear();
                case.kind.clear();
                attributes(tag, &["message", "type"], |key, value| match key {
                    "message" => value.clone_into(&mut case.message),
                    "type" => value.clone_into(&mut case.kind),
                    _ => {}
                });
                self.into = Some(Into::Failure);
            }
            "system-out" => self.into = Some(Into::Stdout),
            "system-err" => self.into = Some(Into::Stderr),
            _ => {}
        }
    }

    fn close(&mut self, tag: &str) {
        self.depth = self.depth.saturating_sub(1);
        match tag {
            "testsuite" => {
                self.names.pop();
                self.files.pop();
            }
            "testcase" if std::mem::take(&mut self.inside) => (self.take)(&self.case),
            _ => {}
        }
        self.into = None;
        // Only the root element closes at depth zero.
        self.complete |= self.depth == 0 && (tag == "testsuites" || tag == "testsuite");
    }

    fn text(&mut self, text: &str) {
        let case = &mut self.case;
        match self.into {
            Some(Into::Failure) => case.text.push_str(text),
            Some(Into::Stdout) => case.stdout.push_str(text),
            Some(Into::Stderr) => case.stderr.push_str(text),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_come_with_everything_they_say() {
        let xml = br#"<?xml version="1.0"?><testsuites><testsuite name="outer" file="a.js"><testsuite name="in &amp; out">
            <testcase name="passes" classname="c"/>
            <testcase name="a &lt;b&gt; &quot;c&quot;&#10;d" line="7"><failure message="m &amp; n" type="T">x &lt; y<![CDATA[ & z]]></failure><system-out>out</system-out></testcase>
            <testcase name="later"><skipped/></testcase></testsuite></testsuite></testsuites>"#;
        let report = read(xml);
        assert!(report.complete);
        assert_eq!(report.cases.len(), 3);
        let case = &report.cases[1];
        assert_eq!(case.suites, ["outer", "in & out"]);
        assert_eq!(case.name, "a <b> \"c\"\nd");
        assert_eq!((case.file.as_deref(), case.line), (Some("a.js"), Some(7)));
        assert_eq!((case.message.as_str(), case.kind.as_str()), ("m & n", "T"));
        assert_eq!((case.text.as_str(), case.stdout.as_str()), ("x < y & z", "out"));
        assert_eq!(report.cases[2].end, CaseEnd::Skipped);
        for cut in 0..xml.len() - 1 {
            assert!(!read(&xml[..cut]).complete, "cut at {cut}");
        }
    }
}
