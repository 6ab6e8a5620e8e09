//! One state of the workspace in the order in which they came about.
//!
//! A step's tree is the workspace after something happened; what happened is the difference to the step before.

use super::{
    object::{Commit, Oid},
    pending::Caller,
    process::Process,
    store::Store,
};
use std::{collections::BTreeSet, fmt::Write as _, io};

/// How a state came about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum By {
    /// It is the first that is known.
    Base,
    /// By nobody who called: an editor, another program.
    Outside,
    /// By this call.
    Call(String),
    /// By taking this call back.
    Undo(String),
}

/// A state and how it came about.
#[derive(Debug, Clone)]
pub(super) struct Step {
    pub(super) number: u64,
    pub(super) commit: Oid,
    pub(super) tree: Oid,
    /// The commit of the same state with files that are too large for automatic snapshots, where one was made.
    pub(super) whole: Option<Oid>,
    pub(super) seconds: i64,
    pub(super) note: Note,
}

/// What is remembered about a step besides its tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Note {
    pub(super) by: By,
    pub(super) caller: Caller,
    pub(super) process: Process,
    /// Another session's call ran at the same time: which of the two did it, nobody can tell.
    pub(super) shared: bool,
    /// What changed too but is too large to be kept, or was out of sight before.
    pub(super) left_out: BTreeSet<Vec<u8>>,
    /// What changed long after the last sign of the process that was killed meanwhile: perhaps it was somebody else.
    pub(super) unsure: BTreeSet<Vec<u8>>,
}

impl Note {
    pub(super) fn new(by: By, caller: &Caller) -> Self {
        Self {
            by,
            caller: caller.clone(),
            process: Process::own(),
            shared: false,
            left_out: BTreeSet::new(),
            unsure: BTreeSet::new(),
        }
    }

    /// As it stands in a commit.
    pub(super) fn message(&self) -> String {
        let line = |text: &str| text.replace(['\n', '\r'], " ");
        let Caller { session, tool, summary } = &self.caller;
        let (kind, call) = match &self.by {
            By::Base => ("base", ""),
            By::Outside => ("outside", ""),
            By::Call(call) => ("call", call.as_str()),
            By::Undo(call) => ("undo", call.as_str()),
        };
        let mut out = match &self.by {
            By::Base => "the first state".to_owned(),
            By::Outside => "changes outside of calls".to_owned(),
            _ => format!("{}: {}", line(tool), line(summary)),
        };
        let _ = write!(out, "\n\nby: {kind}\ncall: {call}\nsession: {}\ntool: {}", line(session), line(tool));
        let _ = write!(out, "\nsummary: {}\nprocess: {}", line(summary), self.process);
        if self.shared {
            out.push_str("\nshared: yes");
        }
        for (what, paths) in [("left out", &self.left_out), ("unsure", &self.unsure)] {
            for path in paths {
                let _ = write!(out, "\n{what}: {}", escaped(path));
            }
        }
        out
    }

    fn read(message: &str) -> Self {
        let (_, fields) = message.split_once("\n\n").unwrap_or(("", message));
        let field = |name: &str| {
            let found = fields.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            found.unwrap_or_default().trim().to_owned()
        };
        let by = match field("by").as_str() {
            "base" => By::Base,
            "call" => By::Call(field("call")),
            "undo" => By::Undo(field("call")),
            _ => By::Outside,
        };
        let caller = Caller { session: field("session"), tool: field("tool"), summary: field("summary") };
        let paths = |what: &str| {
            let named = fields.lines().filter_map(|line| line.strip_prefix(what)?.strip_prefix(": "));
            named.map(unescaped).collect()
        };
        Self {
            by,
            caller,
            process: Process::parse(&field("process")),
            shared: field("shared") == "yes",
            left_out: paths("left out"),
            unsure: paths("unsure"),
        }
    }

    /// In a few words, for a person.
    pub(super) fn words(&self) -> String {
        let Caller { session, tool, .. } = &self.caller;
        match self.by {
            By::Base | By::Outside => "changed outside of any call".to_owned(),
            By::Call(_) => format!("changed by {tool} of session {session}"),
            By::Undo(_) => format!("changed by undo of session {session}"),
        }
    }

    /// Whether it was this session, in this process or in one that is gone, given the others that live.
    pub(super) fn is_of(&self, session: &str, others: &[Process]) -> bool {
        self.caller.session == session
            && (self.process == Process::own() || !others.iter().any(|other| other.may_be(self.process)))
    }
}

impl Step {
    pub(super) fn load(store: &Store, number: u64, commit: Oid) -> io::Result<Self> {
        let Commit { tree, parent: whole, seconds, message } = store.commit(&commit)?;
        Ok(Self { number, commit, tree, whole, seconds, note: Note::read(&message) })
    }

    /// How it is called where a snapshot is asked for by name.
    pub(super) fn name(&self) -> String {
        format!("{AUTOMATIC}{}", self.number)
    }
}

/// A path on one line of text, whatever its bytes.
fn escaped(path: &[u8]) -> String {
    let byte = |byte: &u8| match byte {
        b'!'..=b'~' if *byte != b'%' => char::from(*byte).to_string(),
        other => format!("%{other:02x}"),
    };
    path.iter().map(byte).collect()
}

fn unescaped(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, more)) = rest.split_first() {
        let code = more.get(..2).and_then(|code| std::str::from_utf8(code).ok());
        let code = code.filter(|_| *first == b'%').and_then(|code| u8::from_str_radix(code, 16).ok());
        out.push(code.unwrap_or(*first));
        rest = if code.is_some() { &more[2..] } else { more };
    }
    out
}

/// Names of automatic snapshots start so.
const AUTOMATIC: &str = "auto-";

/// The number in the name of an automatic snapshot.
pub(super) fn automatic_number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(AUTOMATIC)?;
    if digits.bytes().all(|byte| byte.is_ascii_digit()) { digits.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_step_remembers_comes_back() {
        let caller = Caller { session: "stdio".into(), tool: "Bash".into(), summary: "by: hand".into() };
        for by in [By::Base, By::Outside, By::Call("c:1".into()), By::Undo("c:1".into())] {
            let left_out = [b"a b/%41\n\xff".to_vec(), b"plain".to_vec()].into();
            let unsure = [b"c: d".to_vec()].into();
            let note = Note { shared: true, left_out, unsure, ..Note::new(by, &caller) };
            assert_eq!(Note::read(&note.message()), note);
        }
        let odd = Caller { summary: "two\nby: undo\ncall: x".into(), ..caller };
        let note = Note::read(&Note::new(By::Outside, &odd).message());
        assert_eq!(note.by, By::Outside);
        assert_eq!(automatic_number("auto-12"), Some(12));
        assert_eq!(automatic_number("auto-1x"), None);
    }
}
