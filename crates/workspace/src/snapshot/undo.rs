//! Taking the last call back.

use super::{
    Planned, SnapshotError, Snapshots, State,
    advance::Trust,
    growing::{Writers, has_grown},
    history::{Batch, new_call},
    object::{Entry, Mode, Oid},
    pending::Caller,
    process::Process,
    restore::{Change, Ground, Intent, in_place},
    step::{By, Note, Step},
    store::Store,
    to_path,
    tree::{Differences, Folder, Known},
};
use crate::Workspace;
use rustix::fs::FileType;
use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    io,
    path::PathBuf,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Which call is taken back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UndoOptions {
    /// The last call of whichever session, instead of the asking one's.
    pub any_session: bool,
    /// Also when its files were changed since.
    pub force: bool,
}

/// What an undo did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undone {
    /// The call that was taken back.
    pub caller: Caller,
    /// When it changed something last.
    pub at: SystemTime,
    /// The automatic snapshot that holds everything as it was before the undo.
    pub before: String,
    /// Each file that was touched or deliberately not touched, by path.
    pub changes: Vec<(Change, PathBuf)>,
    /// What the call changed and is not put back: it is, or was, too large for automatic snapshots or out of sight.
    pub left_out: Vec<PathBuf>,
}

/// What one call changed in all its steps together.
#[derive(Default)]
struct Delta {
    files: BTreeMap<Vec<u8>, (Option<Entry>, Option<Entry>)>,
    made: BTreeSet<Vec<u8>>,
    removed: BTreeSet<Vec<u8>>,
    left_out: BTreeSet<Vec<u8>>,
    /// Files that others changed too, between two changes of the call.
    others: BTreeSet<Vec<u8>>,
    /// Files of which nobody knows whether the call changed them, or somebody else after its process was killed.
    unsure: BTreeSet<Vec<u8>>,
    /// Files that others add to: they stay as they are.
    growing: BTreeSet<Vec<u8>>,
    shared: bool,
    last: usize,
}

impl Delta {
    /// Whether a file is now what somebody else made of it.
    fn is_of_others(&self, path: &[u8], now: Option<Entry>) -> bool {
        self.files
            .get(path)
            .is_some_and(|(before, after)| (now != *after || self.others.contains(path)) && now != *before)
    }

    fn is_empty(&self) -> bool {
        self.files.is_empty() && self.made.is_empty() && self.removed.is_empty() && self.left_out.is_empty()
    }
}

impl Snapshots {
    /// Takes back the last call of `caller`'s session that changed something; called again, the one before it.
    /// Only files which that call changed are touched.
    ///
    /// # Errors
    /// There is nothing to take back, its files were changed since by somebody else, or the disk failed.
    pub fn undo(&self, caller: &Caller, options: UndoOptions) -> Result<Undone, SnapshotError> {
        let _hurry = self.workspace.hurry();
        let mut state = self.lock();
        let alone = self.store.exclusive()?;
        let Found { delta, step, planned, hidden } =
            self.advance_with(&mut state, Trust::Stamps, &alone, |state, batch| {
                self.find_undo(state, batch, caller, options)
            })??;
        let before = state.steps.last().map(Step::name).unwrap_or_default();
        let mut changes = self.put_in_place(&mut state, planned)?;
        changes.extend(delta.growing.iter().map(|path| (Change::KeptGrowing, to_path(path))));
        changes.extend(self.out_of_sight(&hidden));
        changes.sort_by(|a, b| a.1.cmp(&b.1));
        let at = UNIX_EPOCH + Duration::from_secs(u64::try_from(step.seconds).unwrap_or(0));
        let left_out = delta.left_out.iter().map(|path| to_path(path)).collect();
        Ok(Undone { caller: step.note.caller, at, before, changes, left_out })
    }

    fn find_undo(
        &self,
        state: &mut State,
        batch: &mut Batch,
        caller: &Caller,
        options: UndoOptions,
    ) -> Result<Found, SnapshotError> {
        let past = Past::new(self, state, batch)?;
        let (call, delta) = past.last_call(&caller.session, options)?;
        let step = past.steps.get(delta.last).copied().cloned();
        let step = step.ok_or(SnapshotError::NothingToUndo { others: None })?;
        if !options.force {
            past.refuse_conflicts(&step, &delta)?;
        }
        let tree = self.target(state, batch, &delta)?;
        let hidden = delta
            .files
            .iter()
            .filter(|(path, (before, _))| before.is_none() && state.seen.get(path).is_none());
        let hidden = hidden.map(|(path, _)| path.clone()).collect();
        let note = Note::new(By::Undo(call), caller);
        let planned = self.plan(state, batch, Intent { tree, whole: false }, note)?;
        Ok(Found { delta, step, planned, hidden })
    }

    /// Which of these files that the call made are there all the same, and why nothing of them is part of the workspace
    /// any more.
    fn out_of_sight(&self, made: &[Vec<u8>]) -> Vec<(Change, PathBuf)> {
        let mut ground = Ground::new(&self.workspace);
        let there = made.iter().filter_map(|path| {
            let path = to_path(path);
            let stat = self.workspace.lstat(&path).ok()?;
            // A folder in the place of a file is not the call's.
            let is_file = !FileType::from_raw_mode(stat.st_mode).is_dir();
            let why = || {
                ground.refuses_file(&path).unwrap_or_else(|| in_place(&self.workspace, &path, &stat, true))
            };
            is_file.then(why).map(|why| (why, path))
        });
        there.collect()
    }

    /// The tree of everything as it is, but for what is taken back.
    fn target(&self, state: &State, batch: &mut Batch, delta: &Delta) -> Result<Oid, SnapshotError> {
        let mut target = state.seen.clone();
        for (path, (before, _)) in &delta.files {
            match before {
                Some(entry) => target.set(path, Known { entry: *entry, stamp: None }),
                // Of a file that has become a folder since, nothing is left to be taken back.
                None if target.get(path).is_none() => {}
                None => target.remove(path),
            }
        }
        for folder in &delta.removed {
            let taken = |path: &[u8]| target.get(path).is_some();
            if !taken(folder) && !above(folder).any(taken) {
                target.set_folder(folder);
            }
        }
        for folder in delta.made.iter().rev() {
            if target.folder(folder).is_some_and(|folder| folder.everything().is_empty()) {
                target.remove(folder);
            }
        }
        Ok(target.write(&self.store, &mut batch.writer)?)
    }

    /// A call of its own, for what a restore does.
    pub(super) fn own_call() -> By {
        By::Call(new_call())
    }
}

/// What is to be taken back, and how.
struct Found {
    delta: Delta,
    step: Step,
    planned: Planned,
    /// Files that the call made and that are not seen any more.
    hidden: Vec<Vec<u8>>,
}

/// The history and what is about to become part of it.
struct Past<'a> {
    store: &'a Store,
    workspace: &'a Workspace,
    state: &'a State,
    batch: &'a Batch,
    steps: Vec<&'a Step>,
    /// Other processes that live.
    others: Vec<Process>,
}

impl<'a> Past<'a> {
    fn new(snapshots: &'a Snapshots, state: &'a State, batch: &'a Batch) -> io::Result<Self> {
        let Snapshots { store, workspace, pending, .. } = snapshots;
        let steps = state.steps.iter().chain(&batch.steps).collect();
        Ok(Self { store, workspace, state, batch, steps, others: pending.others()? })
    }

    fn between(&self, before: &Step, after: &Step) -> io::Result<Differences> {
        Differences::between(&|id| self.batch.tree(self.store, id), before.tree, after.tree)
    }

    /// The call to take back and what it changed.
    fn last_call(&self, session: &str, options: UndoOptions) -> Result<(String, Delta), SnapshotError> {
        let mut others = None;
        // What is still running may change something after it was taken back: only what came before that is done with.
        let mut undone = HashSet::new();
        let mut passed = HashSet::new();
        let mut writers = Writers::default();
        // The oldest step has nothing before it to go back to.
        for step in self.steps.iter().skip(1).rev() {
            let call = match &step.note.by {
                By::Call(call) => call,
                By::Undo(call) => {
                    undone.insert(call.as_str());
                    continue;
                }
                By::Base | By::Outside => continue,
            };
            if undone.contains(call.as_str()) || !passed.insert(call.as_str()) {
                continue;
            }
            if !options.any_session && !step.note.is_of(session, &self.others) {
                others = others.or_else(|| Some(step.note.words()));
                continue;
            }
            let mut delta = self.delta(call)?;
            if !options.force && self.set_growing_aside(&mut delta, &mut writers)? {
                continue;
            }
            if !delta.is_empty() || !delta.growing.is_empty() {
                return Ok((call.clone(), delta));
            }
        }
        Err(SnapshotError::NothingToUndo { others })
    }

    fn delta(&self, call: &str) -> io::Result<Delta> {
        let mut delta = Delta::default();
        let (this, undone) = (By::Call(call.to_owned()), By::Undo(call.to_owned()));
        let from = self.steps.iter().rposition(|step| step.note.by == undone).unwrap_or(0);
        for (at, pair) in self.steps.windows(2).enumerate().skip(from) {
            let [before, after] = pair else { continue };
            if after.note.by != this {
                continue;
            }
            let Differences { files, gone, come } = self.between(before, after)?;
            for file in files {
                if delta.files.get(&file.path).is_some_and(|(_, left)| *left != file.before) {
                    delta.others.insert(file.path.clone());
                }
                delta.files.entry(file.path).or_insert((file.before, None)).1 = file.after;
            }
            for folder in come {
                if !delta.removed.remove(&folder) {
                    delta.made.insert(folder);
                }
            }
            for folder in gone {
                if !delta.made.remove(&folder) {
                    delta.removed.insert(folder);
                }
            }
            delta.left_out.extend(after.note.left_out.iter().cloned());
            delta.unsure.extend(after.note.unsure.iter().cloned());
            delta.shared |= after.note.shared;
            delta.last = at + 1;
        }
        // Of a file that was too large on one side, or was out of sight, only the other side is known: no reason to
        // delete it.
        let Delta { files, made, left_out, .. } = &mut delta;
        let known =
            |path: &[u8]| !left_out.contains(path) && !above(path).any(|above| left_out.contains(above));
        files.retain(|path, (before, after)| before != after && known(path));
        made.retain(|path| known(path));
        Ok(delta)
    }

    /// Sets files aside that only grew in the call, as logs do, and that somebody adds to: they have grown since, or are
    /// open for writing. Whose lines are whose nobody can tell, so none of them goes.
    ///
    /// Whether nothing else is left, and all of them are open: that is a program at work, and no call to take back. It
    /// would bar the way to those before it for as long as it runs.
    fn set_growing_aside(&self, delta: &mut Delta, writers: &mut Writers) -> io::Result<bool> {
        let mut open = true;
        for (path, (before, after)) in &delta.files {
            let (Some(after), Some(now)) = (after, self.state.seen.get(path)) else { continue };
            let (now, on_disk) = (now.entry, to_path(path));
            let modes = [before.unwrap_or(now).mode, after.mode, now.mode];
            if modes != [Mode::File; 3] {
                continue;
            }
            let held = writers.hold(self.workspace, &on_disk);
            let grown = before.is_some() && delta.is_of_others(path, Some(now));
            let last = Some(after.id).filter(|_| now != *after);
            let stages: Vec<Oid> = before.map(|before| before.id).into_iter().chain(last).collect();
            if (held || grown) && has_grown(self.store, self.workspace, &on_disk, &stages)? {
                delta.growing.insert(path.clone());
                open &= held;
            }
        }
        let Delta { files, growing, .. } = delta;
        files.retain(|path, _| !growing.contains(path));
        Ok(open && !delta.growing.is_empty() && delta.is_empty())
    }

    /// Nobody else's work is lost without a word.
    fn refuse_conflicts(&self, step: &Step, delta: &Delta) -> Result<(), SnapshotError> {
        let mut files = Vec::new();
        for (path, (before, _)) in &delta.files {
            let now = self.state.seen.get(path).map(|known| known.entry);
            if delta.is_of_others(path, now) {
                files.push((to_path(path), self.blame(&step.note.by, path)?));
            } else if delta.unsure.contains(path) && now != *before {
                let why = "changed by the call before its server was killed, or by somebody else after that";
                files.push((to_path(path), why.to_owned()));
            }
            if before.is_some() {
                for other in in_the_way(self.state, path, delta) {
                    files.push((to_path(&other), self.blame(&step.note.by, &other)?));
                }
            }
        }
        files.sort();
        files.dedup();
        if files.is_empty() && !delta.shared {
            return Ok(());
        }
        Err(SnapshotError::Conflict { tool: step.note.caller.tool.clone(), files, shared: delta.shared })
    }

    /// Who changed a file last, but for one call.
    fn blame(&self, call: &By, path: &[u8]) -> io::Result<String> {
        for pair in self.steps.windows(2).rev() {
            let [before, step] = pair else { continue };
            if step.note.by == *call {
                continue;
            }
            let differences = self.between(before, step)?;
            if differences.files.iter().any(|file| file.path == path) {
                return Ok(step.note.words());
            }
        }
        Ok("changed since".to_owned())
    }
}

/// Files that would go so that one can come to `path`, and that are not as the call left them.
fn in_the_way(state: &State, path: &[u8], delta: &Delta) -> Vec<Vec<u8>> {
    let inside = state.seen.folder(path).map(Folder::everything).unwrap_or_default();
    let inside = inside.iter().map(|name| [path, b"/", name].concat());
    let others = above(path).map(<[u8]>::to_vec).chain(inside);
    others
        .filter(|other| {
            let now = state.seen.get(other).map(|known| known.entry);
            now.is_some() && delta.files.get(other).is_none_or(|(_, after)| now != *after)
        })
        .collect()
}

/// The folders in which a path lies, but for the root.
pub(super) fn above(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| &path[..at])
}
