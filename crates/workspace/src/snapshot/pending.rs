//! What calls are about to do, written down before they do it.
//!
//! A call that changes one known file leaves the file's old content here, without waiting for the disk, and is
//! made a step of the history later. When the process is killed in between, the next one finds the log and
//! makes up for it. A log belongs to one process, which holds a lock on it as long as it lives.

use super::{object::Mode, process::Process};
use rustix::fs::FlockOperation;
use std::{
    collections::{BTreeSet, VecDeque},
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::SystemTime,
};

const PREFIX: &str = "calls-";
/// Past this a log is begun anew even while calls run.
const LONG: u64 = 1 << 20;
/// Past this it is begun anew as soon as nothing in it is needed. Sooner costs a call more than it saves.
const SHORT: u64 = 4 << 10;

/// Who made a change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Caller {
    /// The session, by a name that outlives the process.
    pub session: String,
    /// The tool.
    pub tool: String,
    /// What it was asked to do, in a line.
    pub summary: String,
}

/// A file that a call changes by itself.
#[derive(Debug, Clone)]
pub(super) struct Edit {
    pub(super) call: String,
    pub(super) caller: Caller,
    pub(super) path: Vec<u8>,
    /// What was there.
    pub(super) before: Option<(Mode, Vec<u8>)>,
    /// The outermost folder that was not there, when the file is the first in it.
    pub(super) made: Option<Vec<u8>>,
    pub(super) after: After,
}

/// What a call left in a file.
#[derive(Debug, Clone)]
pub(super) enum After {
    /// It is still at work.
    InFlight,
    /// It did nothing.
    Nothing,
    Content(Arc<[u8]>),
    /// A process that is gone began it: whatever is there.
    Whatever,
}

/// What a log of a process that is gone says.
#[derive(Default)]
pub(super) struct Left {
    pub(super) edits: Vec<Edit>,
    /// Calls that may have changed anything and were not finished, in the order in which they began.
    pub(super) calls: Vec<(String, Caller)>,
    /// Those among them that were answered and run on.
    pub(super) behind: BTreeSet<String>,
    /// When the last of the logs was written to.
    pub(super) until: Option<SystemTime>,
}

/// A call of another process.
pub(super) struct Foreign {
    pub(super) call: String,
    pub(super) caller: Caller,
    pub(super) process: Process,
}

/// The log of this process, and what waits to become history.
pub(super) struct Pending {
    path: PathBuf,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    file: Option<File>,
    length: u64,
    queue: VecDeque<Edit>,
    /// Calls that were begun in the log and not ended.
    open: Vec<(String, Caller)>,
    /// Those among them that run on in the background.
    behind: BTreeSet<String>,
}

impl Pending {
    pub(super) fn new(folder: &Path) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let name = format!("{PREFIX}{}-{}", Process::own(), NEXT.fetch_add(1, Ordering::Relaxed));
        Self { path: folder.join(name), inner: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes down what a file holds before a call changes it.
    pub(super) fn edit(&self, edit: Edit) -> io::Result<()> {
        let mut record = Record::new(b'E', &edit.call, &edit.caller);
        record.field(&edit.path);
        if let Some((mode, content)) = &edit.before {
            record.field(if *mode == Mode::Executable { b"x" } else { b"f" });
            record.field(content);
        } else if let Some(made) = &edit.made {
            record.field(made);
        }
        let mut inner = self.lock();
        inner.append(&self.path, &record.finish())?;
        inner.queue.push_back(edit);
        Ok(())
    }

    /// The call is through with its file.
    pub(super) fn edited(&self, call: &str, after: Option<Arc<[u8]>>) {
        let mut inner = self.lock();
        if let Some(edit) = inner.queue.iter_mut().rev().find(|edit| edit.call == call) {
            edit.after = after.map_or(After::Nothing, After::Content);
        }
    }

    /// Writes down that a call which may change anything begins.
    pub(super) fn begin(&self, call: &str, caller: &Caller) -> io::Result<()> {
        let mut inner = self.lock();
        inner.append(&self.path, &Record::new(b'B', call, caller).finish())?;
        inner.open.push((call.to_owned(), caller.clone()));
        Ok(())
    }

    /// It was answered and runs on: nobody can say any more that all that changes meanwhile is its doing.
    pub(super) fn go_on(&self, call: &str) -> io::Result<()> {
        let mut inner = self.lock();
        inner.behind.insert(call.to_owned());
        inner.append(&self.path, &Record::new(b'G', call, &Caller::default()).finish())
    }

    /// The logs of other processes that live, and whose they are.
    fn logs_of_others(&self) -> io::Result<Vec<(Process, File)>> {
        let mut logs = Vec::new();
        let Some(folder) = self.path.parent() else { return Ok(logs) };
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let Some(owner) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)) else { continue };
            if entry.path() == self.path {
                continue;
            }
            let Ok(file) = File::open(entry.path()) else { continue };
            // What a process that is gone left is for the next start.
            if rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared).is_err() {
                let process = owner.rsplit_once('-').map_or(owner, |(process, _)| process);
                logs.push((Process::parse(process), file));
            }
        }
        Ok(logs)
    }

    /// Other processes that live and have made history here.
    pub(super) fn others(&self) -> io::Result<Vec<Process>> {
        Ok(self.logs_of_others()?.into_iter().map(|(process, _)| process).collect())
    }

    /// Has a log that shows others that this process lives.
    pub(super) fn show(&self) -> io::Result<()> {
        self.lock().append(&self.path, &[])
    }

    /// Lets the log's time tell that this process lives now.
    pub(super) fn beat(&self) -> io::Result<()> {
        match &self.lock().file {
            Some(file) => file.set_modified(SystemTime::now()),
            None => Ok(()),
        }
    }

    /// The calls of other processes that run now, may change anything, and that somebody waits for.
    pub(super) fn of_others(&self) -> io::Result<Vec<Foreign>> {
        let mut running = Vec::new();
        for (process, mut file) in self.logs_of_others()? {
            let (mut left, mut bytes) = (Left::default(), Vec::new());
            file.read_to_end(&mut bytes)?;
            left.read(&bytes);
            let Left { calls, behind, .. } = left;
            let waited = calls.into_iter().filter(|(call, _)| !behind.contains(call));
            running.extend(waited.map(|(call, caller)| Foreign { call, caller, process }));
        }
        Ok(running)
    }

    /// What it did is history.
    pub(super) fn end(&self, call: &str) -> io::Result<()> {
        let mut inner = self.lock();
        inner.open.retain(|(open, _)| open != call);
        inner.behind.remove(call);
        if inner.shortened()? {
            return Ok(());
        }
        inner.append(&self.path, &Record::new(b'F', call, &Caller::default()).finish())
    }

    /// How many edits wait.
    pub(super) fn waiting(&self) -> usize {
        self.lock().queue.len()
    }

    /// The files of all edits that wait.
    pub(super) fn paths(&self) -> BTreeSet<Vec<u8>> {
        self.lock().queue.iter().map(|edit| edit.path.clone()).collect()
    }

    /// Edits that are through, up to the first that is not; and the paths of the others.
    pub(super) fn take(&self) -> (Vec<Edit>, Vec<Vec<u8>>) {
        let mut inner = self.lock();
        let through = inner.queue.iter().take_while(|edit| !matches!(edit.after, After::InFlight)).count();
        let taken = inner.queue.drain(..through).collect();
        (taken, inner.queue.iter().map(|edit| edit.path.clone()).collect())
    }

    /// Those could not be made history: they wait on.
    pub(super) fn put_back(&self, edits: Vec<Edit>) {
        let mut inner = self.lock();
        for edit in edits.into_iter().rev() {
            inner.queue.push_front(edit);
        }
    }

    /// These edits are history.
    pub(super) fn recorded(&self, edits: &[Edit]) -> io::Result<()> {
        if edits.is_empty() {
            return Ok(());
        }
        let mut inner = self.lock();
        if inner.shortened()? {
            return Ok(());
        }
        let ends = edits.iter().map(|edit| Record::new(b'F', &edit.call, &Caller::default()).finish());
        inner.append(&self.path, &ends.collect::<Vec<_>>().concat())
    }

    /// Takes over the logs of processes that are gone.
    pub(super) fn left_behind(folder: &Path) -> io::Result<Left> {
        let mut left = Left::default();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
                continue;
            }
            let mut file = File::open(entry.path())?;
            if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
                continue;
            }
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            left.read(&bytes);
            left.until = left.until.max(file.metadata()?.modified().ok());
            fs::remove_file(entry.path())?;
        }
        Ok(left)
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let inner = self.lock();
        if inner.queue.is_empty() && inner.open.is_empty() && inner.file.is_some() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Inner {
    /// Adds records.
    fn append(&mut self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(new_log(path)?),
        };
        if let Err(error) = file.write_all(bytes) {
            // On a full disk half a record may stand there, and nobody would understand what follows it.
            let _ = file.set_len(self.length);
            return Err(error);
        }
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Leaves only what is needed in a log that has grown, if no edit waits; whether it did.
    fn shortened(&mut self) -> io::Result<bool> {
        let most = if self.open.is_empty() { SHORT } else { LONG };
        if self.length <= most || !self.queue.is_empty() {
            return Ok(false);
        }
        let Some(file) = &mut self.file else { return Ok(false) };
        file.set_len(0)?;
        self.length = 0;
        for (call, caller) in &self.open {
            let mut bytes = Record::new(b'B', call, caller).finish();
            if self.behind.contains(call) {
                bytes.extend(Record::new(b'G', call, &Caller::default()).finish());
            }
            file.write_all(&bytes)?;
            self.length += bytes.len() as u64;
        }
        Ok(true)
    }
}

/// A log that nobody else takes for one of a process that is gone.
fn new_log(path: &Path) -> io::Result<File> {
    loop {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        // Others only have a quick look, but may have taken it away after that.
        rustix::fs::flock(&file, FlockOperation::LockExclusive)?;
        if file.metadata()?.nlink() > 0 {
            return Ok(file);
        }
    }
}

/// One entry of a log: its length, a letter, fields with their lengths.
struct Record(Vec<u8>);

impl Record {
    fn new(kind: u8, call: &str, caller: &Caller) -> Self {
        let mut record = Self(vec![0, 0, 0, 0, 0, 0, 0, 0, kind]);
        for text in [call, &caller.session, &caller.tool, &caller.summary] {
            record.field(text.as_bytes());
        }
        record
    }

    fn field(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        self.0.extend_from_slice(bytes);
    }

    fn finish(mut self) -> Vec<u8> {
        let length = (self.0.len() - 8) as u64;
        self.0[..8].copy_from_slice(&length.to_le_bytes());
        self.0
    }
}

/// The first eight bytes as a length, that many bytes, and the rest.
pub(super) fn cut(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_at_checked(8)?;
    let length = usize::try_from(u64::from_le_bytes(length.try_into().ok()?)).ok()?;
    rest.split_at_checked(length)
}

impl Left {
    pub(super) fn is_empty(&self) -> bool {
        self.edits.is_empty() && self.calls.is_empty()
    }

    /// Takes in one log; what a crash cut off at its end is left out.
    fn read(&mut self, mut bytes: &[u8]) {
        while let Some((record, rest)) = cut(bytes) {
            bytes = rest;
            if self.record(record).is_none() {
                return;
            }
        }
    }

    fn record(&mut self, record: &[u8]) -> Option<()> {
        let (kind, mut rest) = record.split_first()?;
        let mut fields = Vec::new();
        while let Some((field, more)) = cut(rest) {
            fields.push(field);
            rest = more;
        }
        let text = |at: usize| Some(String::from_utf8_lossy(fields.get(at)?).into_owned());
        let call = text(0)?;
        let caller = Caller { session: text(1)?, tool: text(2)?, summary: text(3)? };
        match kind {
            b'B' => self.calls.push((call, caller)),
            b'G' => {
                self.behind.insert(call);
            }
            b'F' => {
                self.calls.retain(|(open, _)| *open != call);
                self.edits.retain(|edit| edit.call != call);
            }
            b'E' => {
                let path = fields.get(4)?.to_vec();
                let mode = |mode: &[u8]| if mode == b"x" { Mode::Executable } else { Mode::File };
                let (before, made) = match fields.get(5..).unwrap_or_default() {
                    [bits, content, ..] => (Some((mode(bits), content.to_vec())), None),
                    [made] => (None, Some(made.to_vec())),
                    [] => (None, None),
                };
                // What the one before left is what this one found.
                if let Some(last) = self.edits.iter_mut().rev().find(|edit| edit.path == path) {
                    last.after = match &before {
                        Some((_, content)) => After::Content(content.as_slice().into()),
                        None => After::Nothing,
                    };
                }
                self.edits.push(Edit { call, caller, path, before, made, after: After::Whatever });
            }
            _ => return None,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_was_left_says_what_was_not_finished() {
        let folder = tempfile::tempdir().unwrap();
        let caller = |tool: &str| Caller { session: "s".into(), tool: tool.into(), summary: "a\nb".into() };
        let edit = |call: &str, before: Option<&str>| Edit {
            call: call.into(),
            caller: caller("Edit"),
            path: b"f".to_vec(),
            before: before.map(|text| (Mode::File, text.as_bytes().to_vec())),
            made: Some(b"folder".to_vec()).filter(|_| before.is_none()),
            after: After::InFlight,
        };
        let pending = Pending::new(folder.path());
        pending.begin("c1", &caller("Bash")).unwrap();
        pending.edit(edit("c2", None)).unwrap();
        pending.edited("c2", Some(b"one"[..].into()));
        pending.edit(edit("c3", Some("one"))).unwrap();
        pending.begin("c4", &caller("Bash")).unwrap();
        pending.end("c4").unwrap();
        assert_eq!(pending.take().0.len(), 1);
        assert!(Pending::left_behind(folder.path()).unwrap().calls.is_empty(), "its owner lives");

        let bytes = fs::read(&pending.path).unwrap();
        let mut left = Left::default();
        left.read(&bytes);
        assert_eq!(left.calls, [("c1".to_owned(), caller("Bash"))]);
        assert_eq!(left.edits.len(), 2);
        assert!(matches!(&left.edits[0].after, After::Content(content) if &content[..] == b"one"));
        assert!(matches!(left.edits[1].after, After::Whatever));
        assert_eq!((&left.edits[0].before, left.edits[0].made.as_deref()), (&None, Some(&b"folder"[..])));
        assert_eq!(
            (&left.edits[1].before, &left.edits[1].made),
            (&Some((Mode::File, b"one".to_vec())), &None)
        );
        for end in 0..bytes.len() {
            Left::default().read(&bytes[..end]);
        }
    }
}
