//! The history that undo goes back in: a step for every call that changed something.
//!
//! What a call changed is what differs on disk between its beginning and its end. Before a call that may change
//! anything begins, everything as it is then is in the store; a call that changes one file it knows leaves the
//! file's old content in a log instead and becomes a step later, so that it never waits for the store.

use super::{
    SnapshotError, Snapshots, State,
    advance::Trust,
    look::{self, Look, Looks},
    object::{Commit, Entry, Kind, Level, Mode, Oid, decode_tree},
    pack::PackWriter,
    pending::{After, Caller, Edit},
    process::Process,
    restore::Intent,
    step::{By, Note, Step},
    store::{Draft, Fresh, Store, Wait},
    sweep::Found,
    tree::{Differences, Folder, Known, Stamp},
    undo::above,
};
use crate::{ContainedPath, Workspace, beneath::as_path, walk};
use rustix::io::Errno;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    io,
    os::unix::ffi::OsStrExt as _,
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Larger files are not in automatic snapshots: nobody asked for the time they take.
pub(super) const AUTOMATIC_LIMIT: u64 = 64 << 20;

/// What changed within this after the last sign of a process that is gone is taken for its doing.
const SIGN: Duration = Duration::from_secs(3);

/// A call that runs. [`Snapshots::finish`] makes what it did a step.
#[derive(Debug)]
pub struct Recording {
    call: String,
    over: Arc<OnceLock<SystemTime>>,
    told: Arc<Told>,
}

/// What a call says itself that it changed and that nothing is kept of.
pub(super) type Told = Mutex<BTreeSet<Vec<u8>>>;

impl Recording {
    /// Nothing of the call runs any more: what changes from now on is not its doing, however late [`Snapshots::finish`]
    /// comes.
    pub fn over(&self) {
        let _ = self.over.set(SystemTime::now());
    }

    /// The call changed a file that belongs to no snapshot: taking the call back does not bring it back.
    pub fn left_out(&self, path: &ContainedPath) {
        let path = path.relative().as_os_str().as_bytes().to_vec();
        self.told.lock().unwrap_or_else(PoisonError::into_inner).insert(path);
    }
}

/// A file that a call is about to change by itself.
#[derive(Debug)]
pub struct Noted {
    call: String,
}

/// A call that runs, as the history sees it.
pub(super) struct Open {
    pub(super) call: String,
    pub(super) caller: Caller,
    /// Somebody waits for it; else it runs on in the background.
    pub(super) foreground: bool,
    /// Since when nothing of it runs any more.
    pub(super) over: Arc<OnceLock<SystemTime>>,
    pub(super) told: Arc<Told>,
}

type Paths = BTreeSet<Vec<u8>>;

/// Steps in the making, written all at once.
pub(super) struct Batch {
    pub(super) writer: PackWriter,
    pub(super) steps: Vec<Step>,
    /// Files of the store that are to appear together with them.
    pub(super) drafts: Vec<Draft>,
    /// Whether a file belongs to no snapshot, for those that were asked about: finding out reads all rules.
    left_out: HashMap<Vec<u8>, bool>,
}

impl Batch {
    pub(super) fn new(store: &Store) -> Self {
        Self { writer: store.writer(), steps: Vec::new(), drafts: Vec::new(), left_out: HashMap::new() }
    }

    /// Has a commit here or in the store; its id.
    pub(super) fn commit(&mut self, store: &Store, commit: &Commit) -> io::Result<Oid> {
        let content = commit.encode();
        let id = Kind::Commit.id(&content);
        if !store.contains(&id) {
            self.writer.put(Kind::Commit, id, &content)?;
        }
        Ok(id)
    }

    /// A tree that is here or in the store.
    pub(super) fn tree(&self, store: &Store, id: &Oid) -> io::Result<Level> {
        self.writer.tree(id).and_then(decode_tree).map_or_else(|| store.tree(id), Ok)
    }
}

impl Snapshots {
    /// A call begins that may change anything: everything as it is now is in the store when this returns.
    ///
    /// # Errors
    /// The store cannot be written; then the call cannot be undone.
    pub fn begin(&self, caller: &Caller) -> Result<Recording, SnapshotError> {
        let mut state = self.lock();
        let over = over(&state);
        self.advance(&mut state, Trust::Events, None)?;
        state.open.retain(|open| !over.contains(&open.call));
        self.enter(&mut state, caller)
    }

    /// [`Snapshots::begin`] where that takes no time: nobody else is at work here, and nothing changed since the last
    /// look. `None` says nothing.
    #[must_use]
    pub fn begin_at_once(&self, caller: &Caller) -> Option<Recording> {
        let mut state = self.at_once(Workspace::quiet_since)?;
        self.enter(&mut state, caller).ok()
    }

    /// [`Snapshots::finish`] where that takes no time. `false`: it is still to be done.
    #[must_use]
    pub fn finish_at_once(&self, recording: &Recording) -> bool {
        // Rules of other places that changed meanwhile are for the next call to find before it begins.
        let Some(mut state) = self.at_once(Workspace::silent_since) else { return false };
        if state.is_told(Some(&recording.call)) {
            return false;
        }
        state.open.retain(|open| open.call != recording.call);
        self.pending.end(&recording.call).is_ok()
    }

    /// The state, when it is free and up to date.
    fn at_once(&self, quiet: impl Fn(&Workspace, u64) -> bool) -> Option<MutexGuard<'_, State>> {
        let mut state = self.state.try_lock().ok()?;
        let over = over(&state);
        let idle =
            state.known && !state.is_told(None) && state.recheck.is_empty() && self.pending.waiting() == 0;
        (idle && quiet(&self.workspace, state.cursor)).then(|| {
            state.open.retain(|open| !over.contains(&open.call));
            state
        })
    }

    fn enter(&self, state: &mut State, caller: &Caller) -> Result<Recording, SnapshotError> {
        let call = new_call();
        self.pending.begin(&call, caller)?;
        let (over, told) = (Arc::default(), Arc::default());
        let open = Open {
            call: call.clone(),
            caller: caller.clone(),
            foreground: true,
            over: Arc::clone(&over),
            told: Arc::clone(&told),
        };
        state.open.push(open);
        Ok(Recording { call, over, told })
    }

    /// The call was answered, though what it started runs on.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn go_on(&self, recording: &Recording) -> Result<(), SnapshotError> {
        let mut state = self.lock();
        // First: what a call that began meanwhile has done since is not this one's doing.
        for open in state.open.iter_mut().filter(|open| open.call == recording.call) {
            open.foreground = false;
        }
        let done = self.advance(&mut state, Trust::Events, Some(&recording.call));
        self.pending.go_on(&recording.call)?;
        done
    }

    /// The call is over: what it changed becomes a step.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn finish(&self, recording: &Recording) -> Result<(), SnapshotError> {
        let mut state = self.lock();
        let done = self.advance(&mut state, Trust::Events, Some(&recording.call));
        state.open.retain(|open| open.call != recording.call);
        done?;
        self.pending.end(&recording.call)?;
        self.tidy()
    }

    /// Somebody still waits for a call. Should this process be killed now, what changed until now is the call's doing:
    /// to be said at least every other second, as long as one runs.
    ///
    /// # Errors
    /// The log cannot be written.
    pub fn beat(&self) -> Result<(), SnapshotError> {
        Ok(self.pending.beat()?)
    }

    /// A call is about to change one file that holds `before`. Does not wait for the disk: what is written here
    /// survives this process, and becomes history with the next [`Snapshots::flush`].
    ///
    /// # Errors
    /// The log cannot be written.
    pub fn note(
        &self,
        caller: &Caller,
        path: &ContainedPath,
        before: Option<&[u8]>,
    ) -> Result<Noted, SnapshotError> {
        // Content of ignored files is kept nowhere; that a call changed one is.
        let relative = path.relative();
        let kept = self.workspace.live_knows(relative) || !walk::leaves_out_file(&self.workspace, relative);
        let mode = self.workspace.lstat(relative).ok().and_then(|stat| look::mode(&stat));
        let call = new_call();
        self.pending.edit(Edit {
            call: call.clone(),
            caller: caller.clone(),
            path: relative.as_os_str().as_bytes().to_vec(),
            before: before.filter(|_| kept).map(|before| (mode.unwrap_or(Mode::File), before.to_vec())),
            made: if before.is_none() { self.missing_above(relative) } else { None },
            after: After::InFlight,
        })?;
        Ok(Noted { call })
    }

    /// The outermost folder above a file that is not there yet.
    fn missing_above(&self, path: &Path) -> Option<Vec<u8>> {
        let missing = |folder: &&Path| matches!(self.workspace.lstat(folder), Err(Errno::NOENT));
        let above = path.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty());
        above.take_while(missing).last().map(|folder| folder.as_os_str().as_bytes().to_vec())
    }

    /// The file was changed to `after`, or was not changed at all.
    pub fn noted(&self, noted: &Noted, after: Option<Arc<[u8]>>) {
        self.pending.edited(&noted.call, after);
    }

    /// Makes history of what was noted.
    ///
    /// # Errors
    /// The store cannot be written; what was noted waits on.
    pub fn flush(&self) -> Result<(), SnapshotError> {
        if self.pending.waiting() == 0 {
            return Ok(());
        }
        let mut state = self.lock();
        self.advance(&mut state, Trust::Events, None)?;
        self.tidy()
    }

    pub(super) fn make_steps(
        &self,
        state: &mut State,
        batch: &mut Batch,
        found: Found,
        edits: &[Edit],
        in_flight: &[Vec<u8>],
        ending: Option<&str>,
    ) -> Result<(), SnapshotError> {
        let (found, late) = self.part_late(found, state.over(ending));
        let mut paths: BTreeSet<Vec<u8>> = edits.iter().map(|edit| edit.path.clone()).collect();
        // Another process may have made history meanwhile.
        let in_line = state.known && state.steps.last().map(|step| step.tree) == state.seen.id();
        if in_line {
            for edit in edits {
                self.make_edit(state, batch, edit, None, ending)?;
            }
            paths.extend(in_flight.iter().cloned());
            state.absorb(found, &paths);
        } else {
            // Only what is there now is known: go back to before the edits, then forward again.
            state.absorb(found, &in_flight.iter().cloned().collect());
            let now: BTreeMap<&Vec<u8>, Option<Known>> =
                paths.iter().map(|path| (path, state.seen.get(path).copied())).collect();
            let mut first = BTreeSet::new();
            for edit in edits.iter().filter(|edit| first.insert(&edit.path)) {
                let before = self.entry_of(batch, edit)?;
                state.put(&edit.path, before.map(|entry| Known { entry, stamp: None }));
            }
            let made = without_made(state, edits);
            let note = match state.interrupted() {
                Some((note, behind)) => {
                    let (late, rest) = self.changed_late(state, batch)?;
                    match behind && rest.is_empty() {
                        // Nothing says that it did anything, and it would bar the way to what calls did before.
                        true => Note::new(By::Outside, &Caller::default()),
                        false => Note { unsure: late, ..note },
                    }
                }
                None => state.owner(ending),
            };
            self.make_step(state, batch, note)?;
            for edit in edits {
                let disk = now.get(&edit.path).copied().flatten().map(|known| known.entry);
                self.make_edit(state, batch, edit, Some(disk), ending)?;
            }
            for (path, known) in now {
                state.put(path, known);
            }
            // What no edit that is kept came into is there all the same.
            made.iter().for_each(|folder| state.seen.set_folder(folder));
        }
        state.heed_told(ending);
        let note = state.owner(ending);
        self.make_step(state, batch, note)?;
        if late.is_empty() {
            return Ok(());
        }
        for (path, known) in late {
            match paths.contains(&path) {
                true => drop(state.recheck.insert(path)),
                false => state.put(&path, Some(known)),
            }
        }
        self.make_step(state, batch, Note::new(By::Outside, &Caller::default()))
    }

    /// Parts what was found from files that were changed after a call was over, before anybody looked. The file system's
    /// clock may be behind by a tick: what changes within it is counted for the call.
    fn part_late(&self, mut found: Found, over: Option<SystemTime>) -> (Found, Vec<(Vec<u8>, Known)>) {
        let Some(over) = over.and_then(|over| over.duration_since(UNIX_EPOCH).ok()) else {
            return (found, Vec::new());
        };
        let last = |path: &[u8], known: &Known| {
            let stamp =
                known.stamp.or_else(|| self.workspace.lstat(as_path(path)).ok().map(|it| look::stamp(&it)));
            stamp.map(changed).unwrap_or_default()
        };
        let late;
        (late, found.files) = found.files.into_iter().partition(|(path, known)| last(path, known) > over);
        (found, late)
    }

    /// What is other than in the last step: what was changed long after the last sign of a process that is gone, and
    /// the rest.
    fn changed_late(&self, state: &mut State, batch: &mut Batch) -> io::Result<(Paths, Paths)> {
        let now = state.seen.write(&self.store, &mut batch.writer)?;
        let Some(last) = batch.steps.last().or(state.steps.last()) else { return Ok(Default::default()) };
        let found = Differences::between(&|id| batch.tree(&self.store, id), last.tree, now)?;
        Ok(found.files.into_iter().map(|file| file.path).partition(|path| self.is_late(state, path)))
    }

    fn is_late(&self, state: &State, path: &[u8]) -> bool {
        let until = state.left.until.and_then(|until| (until + SIGN).duration_since(UNIX_EPOCH).ok());
        let stat = self.workspace.lstat(as_path(path)).ok();
        until.zip(stat).is_some_and(|(until, stat)| changed(look::stamp(&stat)) > until)
    }

    fn entry_of(&self, batch: &mut Batch, edit: &Edit) -> io::Result<Option<Entry>> {
        let Some((mode, content)) = &edit.before else { return Ok(None) };
        Ok(Some(Entry { mode: *mode, id: look::keep(&self.store, &mut batch.writer, content)? }))
    }

    /// One edit as a step of its own. `disk` is what is there now, for an edit whose process is gone.
    fn make_edit(
        &self,
        state: &mut State,
        batch: &mut Batch,
        edit: &Edit,
        disk: Option<Option<Entry>>,
        ending: Option<&str>,
    ) -> Result<(), SnapshotError> {
        let content = match &edit.after {
            After::Content(content) => Some(content),
            After::Whatever => None,
            After::Nothing | After::InFlight => return Ok(()),
        };
        let large = content.is_some_and(|content| content.len() as u64 > AUTOMATIC_LIMIT);
        let left_out = batch.left_out.entry(edit.path.clone());
        if large || *left_out.or_insert_with(|| walk::leaves_out_file(&self.workspace, as_path(&edit.path))) {
            // Nothing of it is kept but that it was changed: an earlier call must not be taken for the last one.
            if content.is_some() {
                state.left_out.insert(edit.path.clone());
                return self.make_step(state, batch, Note::new(By::Call(edit.call.clone()), &edit.caller));
            }
            return Ok(());
        }
        let before = self.entry_of(batch, edit)?;
        if state.seen.get(&edit.path).map(|known| known.entry) != before {
            let note = state.owner(ending);
            state.put(&edit.path, before.map(|entry| Known { entry, stamp: None }));
            self.make_step(state, batch, note)?;
        }
        let after = match content {
            None => disk.flatten(),
            Some(content) => {
                let mode = before.map_or(Mode::File, |before| before.mode);
                Some(Entry { mode, id: look::keep(&self.store, &mut batch.writer, content)? })
            }
        };
        self.presume_narrow(&edit.path, before.into_iter().chain(after));
        state.put(&edit.path, after.map(|entry| Known { entry, stamp: None }));
        let mut note = Note::new(By::Call(edit.call.clone()), &edit.caller);
        if matches!(edit.after, After::Whatever) {
            note.process = Process::GONE;
            note.unsure.extend(self.is_late(state, &edit.path).then(|| edit.path.clone()));
        }
        self.make_step(state, batch, note)
    }

    /// What edits left in a file that was changed again before anybody looked stood there with its permissions.
    fn presume_narrow(&self, path: &[u8], entries: impl Iterator<Item = Entry>) {
        let path = as_path(path);
        let Ok(stat) = self.workspace.lstat(path) else { return };
        if look::mode(&stat).is_some_and(|mode| mode != Mode::Symlink) {
            let mut narrow = self.store.narrow();
            entries.for_each(|entry| narrow.presume(path, entry.id, &stat));
        }
    }

    /// A step, when the state differs from the one before.
    pub(super) fn make_step(
        &self,
        state: &mut State,
        batch: &mut Batch,
        note: Note,
    ) -> Result<(), SnapshotError> {
        self.make_step_at(state, batch, note, now())
    }

    fn make_step_at(
        &self,
        state: &mut State,
        batch: &mut Batch,
        note: Note,
        seconds: i64,
    ) -> Result<(), SnapshotError> {
        let tree = state.seen.write(&self.store, &mut batch.writer)?;
        let last = batch.steps.last().or(state.steps.last());
        let left_out = std::mem::take(&mut state.left_out);
        // Taking a call back is a step even when nothing was left to do, or it would be taken back for ever.
        // What nobody can take back anyway, or was told by this call before, is no reason for one: what goes on for
        // long would push out all others.
        let told = match &note.by {
            By::Undo(_) => true,
            By::Base | By::Outside => false,
            By::Call(_) => {
                let said = last.filter(|last| last.note.by == note.by).map(|last| &last.note.left_out);
                !said.map_or(left_out.is_empty(), |said| left_out.is_subset(said))
            }
        };
        if last.is_some_and(|last| last.tree == tree) && !told {
            return Ok(());
        }
        let note = Note { left_out, ..note };
        let note = if last.is_none() { Note::new(By::Base, &Caller::default()) } else { note };
        self.push_step(state, batch, tree, None, note, seconds)
    }

    fn push_step(
        &self,
        state: &State,
        batch: &mut Batch,
        tree: Oid,
        whole: Option<Oid>,
        note: Note,
        seconds: i64,
    ) -> Result<(), SnapshotError> {
        let number = batch.steps.last().or(state.steps.last()).map_or(1, |last| last.number + 1);
        let commit = Commit { tree, parent: whole, seconds, message: note.message() };
        let commit = batch.commit(&self.store, &commit)?;
        batch.steps.push(Step { number, commit, tree, whole, seconds, note });
        Ok(())
    }

    /// A step that also leads to files which are too large for automatic snapshots, all in `whole`.
    pub(super) fn keep_whole(
        &self,
        state: &mut State,
        batch: &mut Batch,
        whole: Oid,
    ) -> Result<(), SnapshotError> {
        let (seconds, message) = (now(), "with large files".to_owned());
        let whole = Commit { tree: whole, parent: None, seconds, message };
        let whole = batch.commit(&self.store, &whole)?;
        let tree = state.seen.write(&self.store, &mut batch.writer)?;
        let note = Note::new(By::Outside, &Caller::default());
        self.push_step(state, batch, tree, Some(whole), note, seconds)
    }

    /// Records that a tree was put in place by a call or by an undo. Nobody waits until what was written for it is on
    /// disk: a crash before that brings the intent back.
    pub(super) fn put_step(
        &self,
        state: &mut State,
        note: Note,
        seconds: i64,
        fresh: Fresh,
    ) -> Result<(), SnapshotError> {
        self.store.settle_with(fresh)?;
        let mut batch = Batch::new(&self.store);
        let made = self.make_step_at(state, &mut batch, note, seconds);
        let prepared = made.and_then(|()| Ok(self.prepare(state, batch)?));
        let done = prepared.and_then(|prepared| Ok(self.conclude(state, prepared, Wait::Covered)?));
        if done.is_err() {
            state.forget();
        }
        // Everything is in its place all the same: no later start has anything to finish.
        Intent::remove(&self.folder)?;
        done
    }

    /// The tree of everything, also of what is too large for automatic snapshots.
    pub(super) fn whole_tree(&self, state: &mut State, batch: &mut Batch) -> Result<Oid, SnapshotError> {
        let writer = &mut batch.writer;
        if state.large.is_empty() {
            return Ok(state.seen.write(&self.store, writer)?);
        }
        let paths: Vec<Box<Path>> = state.large.keys().map(|path| as_path(path).into()).collect();
        let known = |path: &Path| {
            let known = state.large.get(path.as_os_str().as_bytes())?.known.as_ref();
            // With the snapshot that held it the content may be gone.
            known.filter(|known| self.store.contains(&known.entry.id))
        };
        let mut looks =
            Looks { workspace: &self.workspace, store: &self.store, writer: &mut *writer, limit: u64::MAX };
        let seen = looks.at(&paths, &known)?;
        for (path, look) in paths.iter().zip(seen) {
            let path = path.as_os_str().as_bytes();
            match look {
                Look::New(known) => state.large.entry(path.to_vec()).or_default().known = Some(known),
                Look::Gone | Look::Closed => drop(state.large.remove(path)),
                Look::Same | Look::Large(_) => {}
            }
        }
        let mut whole = state.seen.clone();
        for (path, large) in &state.large {
            if let Some(known) = &large.known {
                whole.set(path, *known);
            }
        }
        Ok(whole.write(&self.store, writer)?)
    }
}

/// Takes folders away that files of edits were the first in, as far as nothing else is in them; which.
fn without_made(state: &mut State, edits: &[Edit]) -> Vec<Vec<u8>> {
    let made = edits.iter().filter_map(|edit| Some((edit.made.as_ref()?, &edit.path)));
    let made: BTreeSet<&[u8]> =
        made.flat_map(|(made, path)| above(path).filter(|folder| folder.len() >= made.len())).collect();
    let mut gone = Vec::new();
    // A folder comes before what is in it.
    for folder in made.into_iter().rev() {
        if state.seen.folder(folder).map(Folder::everything).is_some_and(|inside| inside.is_empty()) {
            state.seen.remove(folder);
            gone.push(folder.to_vec());
        }
    }
    gone
}

/// When a file was changed last, since the epoch.
fn changed(stamp: Stamp) -> Duration {
    let (seconds, nanos) = stamp.ctime;
    Duration::new(seconds.try_into().unwrap_or(0), nanos.try_into().unwrap_or(0))
}

/// Calls of which nothing runs any more: a look that begins now finds all that they did.
fn over(state: &State) -> Vec<String> {
    let over = state.open.iter().filter(|open| open.over.get().is_some());
    over.map(|open| open.call.clone()).collect()
}

pub(super) fn now() -> i64 {
    UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs().cast_signed())
}

/// A name for a call that no other call ever had.
pub(super) fn new_call() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let now = UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos());
    format!("{now:x}-{:x}-{:x}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}
