//! Reads JUnit XML, the report format that most runners can write.

use crate::text::lossy;
use quick_xml::{Reader, XmlVersion, escape::resolve_predefined_entity, events::Event};

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
    let text = lossy(bytes);
    let mut reader = Reader::from_str(&text);
    reader.config_mut().check_end_names = false;
    let mut state = State::default();
    loop {
        match reader.read_event() {
            Ok(Event::Start(tag)) => state.open(&tag),
            Ok(Event::Empty(tag)) => {
                state.open(&tag);
                state.close(tag.local_name().as_ref());
            }
            Ok(Event::End(tag)) => state.close(tag.local_name().as_ref()),
            Ok(Event::Text(text)) => state.text(&text.xml10_content()),
            Ok(Event::CData(text)) => state.text(&text.xml10_content()),
            Ok(Event::GeneralRef(reference)) => match reference.resolve_char_ref() {
                Ok(Some(c)) => state.text(c.encode_utf8(&mut [0; 4])),
                _ => state.text(resolve_predefined_entity(&reference.xml10_content()).unwrap_or_default()),
            },
            Ok(Event::Eof) | Err(_) => return state.report,
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

#[derive(Default)]
struct State {
    report: Report,
    depth: usize,
    suites: Vec<(String, Option<String>)>,
    case: Option<Case>,
    into: Option<Into>,
}

impl State {
    fn open(&mut self, tag: &quick_xml::events::BytesStart<'_>) {
        let attribute = |name: &str| {
            let found = tag.attributes().with_checks(false).flatten().find(|a| a.key.as_ref() == name)?;
            Some(match found.normalized_value(XmlVersion::default()) {
                Ok(value) => value.into_owned(),
                Err(_) => found.value.clone().into_owned(),
            })
        };
        self.depth += 1;
        match tag.local_name().as_ref() {
            "testsuite" => {
                let name = attribute("name").unwrap_or_default();
                self.suites.push((name, attribute("file").filter(|file| !file.is_empty())));
            }
            "testcase" => {
                let outer = self.suites.iter().rev().find_map(|(_, file)| file.clone());
                self.case = Some(Case {
                    suites: self.suites.iter().map(|(name, _)| name.clone()).collect(),
                    class: attribute("classname").unwrap_or_default(),
                    name: attribute("name").unwrap_or_default(),
                    file: attribute("file").filter(|file| !file.is_empty()).or(outer),
                    line: attribute("line").and_then(|line| line.parse().ok()),
                    end: CaseEnd::Passed,
                    message: String::new(),
                    kind: String::new(),
                    text: String::new(),
                    stdout: String::new(),
                    stderr: String::new(),
                });
            }
            tag @ ("failure" | "error" | "skipped") => {
                let Some(case) = &mut self.case else { return };
                case.end = match tag {
                    "failure" => CaseEnd::Failed,
                    "error" => CaseEnd::Error,
                    _ => CaseEnd::Skipped,
                };
                case.message = attribute("message").unwrap_or_default();
                case.kind = attribute("type").unwrap_or_default();
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
                self.suites.pop();
            }
            "testcase" => self.report.cases.extend(self.case.take()),
            _ => {}
        }
        self.into = None;
        // Only the root element closes at depth zero.
        self.report.complete |= self.depth == 0 && (tag == "testsuites" || tag == "testsuite");
    }

    fn text(&mut self, text: &str) {
        let (Some(into), Some(case)) = (self.into, &mut self.case) else { return };
        match into {
            Into::Failure => case.text.push_str(text),
            Into::Stdout => case.stdout.push_str(text),
            Into::Stderr => case.stderr.push_str(text),
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
