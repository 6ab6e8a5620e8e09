//! Bringing the history up to what is on disk: the look, what is made of it, and the way into the store.

use super::{
    SnapshotError, Snapshots, State,
    history::{AUTOMATIC_LIMIT, Batch, now},
    look::{self, Looks},
    pack::PackWriter,
    restore::Intent,
    step::{By, Step},
    store::{Exclusive, Staged, Wait},
    sweep::{Found, Sweep},
    tree::Folder,
};
use crate::beneath::as_path;
use std::{collections::BTreeSet, io, path::PathBuf};

/// How sure a look at the disk has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trust {
    /// The journal is believed.
    Events,
    /// Every stamp is compared.
    Stamps,
}

/// Steps that are written aside.
pub(super) struct Prepared<'s> {
    staged: Staged<'s>,
    /// The history with them, when there are any.
    steps: Option<Vec<Step>>,
}

/// What the journal said.
pub(super) struct News {
    cursor: u64,
    /// `None`: only stamps can tell.
    paths: Option<Vec<PathBuf>>,
}

impl Snapshots {
    /// Brings the history up to what is on disk. Changes that no note explains are those of `ending`, or else of
    /// the call that began last and still runs.
    pub(super) fn advance(
        &self,
        state: &mut State,
        trust: Trust,
        ending: Option<&str>,
    ) -> Result<(), SnapshotError> {
        let news = self.news(state, trust);
        let quiet = news.paths.as_ref().is_some_and(Vec::is_empty);
        if quiet && !state.is_told(ending) && state.recheck.is_empty() && self.pending.waiting() == 0 {
            return Ok(());
        }
        let _alone = self.store.exclusive()?;
        self.take_in(state, news, ending, Wait::Whole, |_, _| ())
    }

    /// The same for one who has the store for itself and adds `more` to what is written: no crash takes it back.
    pub(super) fn advance_with<T>(
        &self,
        state: &mut State,
        trust: Trust,
        _: &Exclusive<'_>,
        more: impl FnOnce(&mut State, &mut Batch) -> T,
    ) -> Result<T, SnapshotError> {
        if self.store.is_cluttered() {
            self.store.tidy()?;
        }
        let news = self.news(state, trust);
        self.take_in(state, news, None, Wait::Lasting, more)
    }

    pub(super) fn news(&self, state: &State, trust: Trust) -> News {
        // Whoever looks at every stamp need not know what the journal says, only from where on to believe it.
        if trust == Trust::Stamps {
            return News { cursor: self.workspace.events_cursor().unwrap_or(0), paths: None };
        }
        match self.workspace.events_since(state.cursor) {
            Some(changes) => News { cursor: changes.cursor, paths: changes.paths.filter(|_| state.known) },
            None => News { cursor: 0, paths: None },
        }
    }

    pub(super) fn take_in<T>(
        &self,
        state: &mut State,
        news: News,
        ending: Option<&str>,
        wait: Wait,
        more: impl FnOnce(&mut State, &mut Batch) -> T,
    ) -> Result<T, SnapshotError> {
        // The first look reads everything, as the index does, and somebody waits for it.
        let _hurry = if state.known { None } else { self.workspace.hurry() };
        self.reload(state)?;
        let mut batch = Batch::new(&self.store);
        state.beside = self.pending.of_others().unwrap_or_default();
        let found = self.find_out(state, &mut batch, news.paths)?;
        // Only now: an edit that was finished while we looked is its own call's doing.
        let (taken, in_flight) = self.pending.take();
        let mut edits = std::mem::take(&mut state.left.edits);
        edits.extend(taken);
        let made = self.make_steps(state, &mut batch, found, &edits, &in_flight, ending);
        let done = made.and_then(|()| self.look_again(state, &mut batch, ending)).and_then(|()| {
            let added = more(state, &mut batch);
            let prepared = self.prepare(state, batch)?;
            self.conclude(state, prepared, wait)?;
            Ok(added)
        });
        match done {
            Ok(added) => {
                state.known = true;
                state.cursor = news.cursor;
                self.pending.recorded(&edits)?;
                Ok(added)
            }
            Err(error) => {
                // What is known no longer fits what is stored: look at everything the next time.
                self.pending.put_back(edits);
                state.forget();
                Err(error)
            }
        }
    }

    /// What is different on disk; contents that are new go into the batch.
    fn find_out(
        &self,
        state: &mut State,
        batch: &mut Batch,
        named: Option<Vec<PathBuf>>,
    ) -> io::Result<Found> {
        let kind = |path: &[u8]| self.workspace.lstat(as_path(path)).ok().map(|stat| look::mode(&stat));
        state.closed.retain(|path| kind(path).is_some());
        // That a folder can be read again the one above it tells.
        let closed = state.closed.iter().filter(|path| kind(path).flatten().is_some());
        let extra = state.recheck.iter().chain(state.large.keys()).chain(closed);
        let extra = extra.map(|path| as_path(path).to_owned()).collect();
        let State { seen, around, known, .. } = state;
        let sweep = self.sweep(seen, &mut batch.writer, extra);
        match named {
            _ if !*known => sweep.all(around),
            Some(paths) => sweep.paths(paths, around),
            None => sweep.stamps(around),
        }
    }

    /// Looks once more at files that calls changed by themselves: what was found there may have been what they made of
    /// them, or what somebody else did since.
    fn look_again(
        &self,
        state: &mut State,
        batch: &mut Batch,
        ending: Option<&str>,
    ) -> Result<(), SnapshotError> {
        // What a call is at work on, or was since, is its own step's.
        let busy = self.pending.paths();
        let (wait, again): (BTreeSet<Vec<u8>>, BTreeSet<Vec<u8>>) =
            std::mem::take(&mut state.recheck).into_iter().partition(|path| busy.contains(path));
        if !again.is_empty() {
            let again = again.iter().map(|path| as_path(path).to_owned()).collect();
            let State { seen, around, .. } = state;
            let found = self.sweep(seen, &mut batch.writer, Vec::new()).paths(again, around)?;
            state.absorb(found, &busy);
            let note = state.owner(ending);
            self.make_step(state, batch, note)?;
        }
        state.recheck.extend(wait);
        Ok(())
    }

    fn sweep<'a>(&'a self, seen: &'a Folder, writer: &'a mut PackWriter, extra: Vec<PathBuf>) -> Sweep<'a> {
        let (workspace, store) = (&*self.workspace, &*self.store);
        let looks = Looks { workspace, store, writer, limit: AUTOMATIC_LIMIT };
        Sweep { workspace, seen, looks, extra }
    }

    /// Writes steps aside, and forgets those past their number or age.
    pub(super) fn prepare(&self, state: &State, batch: Batch) -> io::Result<Prepared<'_>> {
        let Batch { writer, steps: new, mut drafts, .. } = batch;
        let steps = (!new.is_empty()).then(|| {
            let mut steps = state.steps.clone();
            steps.extend(new);
            let oldest = now() - i64::try_from(self.retention.age.as_secs()).unwrap_or(i64::MAX);
            // One more than the number: the difference to it is the oldest step's own. Taking calls back, and what others
            // do, takes nobody's place, within bounds.
            let count = self.retention.count.max(1);
            let mut calls = 0;
            let recent = steps.iter().rev().take_while(|step| {
                calls += usize::from(matches!(step.note.by, By::Call(_)));
                calls <= count
            });
            let excess = steps.len().saturating_sub(recent.count().min(count * 3) + 1);
            // A state lasted until the next step: what was there before a call goes with the call, however long ago it came.
            let aged = steps.windows(2).take_while(|pair| pair[1].seconds < oldest).count();
            steps.drain(..excess.max(aged));
            steps
        });
        let naming = |steps: &Vec<Step>| {
            self.store.naming_automatic(steps.iter().map(|step| (step.number, step.commit)))
        };
        // What refers to a step comes after it.
        drafts.splice(0..0, steps.as_ref().map(naming));
        Ok(Prepared { staged: self.store.stage(writer, drafts)?, steps })
    }

    /// Makes prepared steps history.
    pub(super) fn conclude(&self, state: &mut State, prepared: Prepared<'_>, wait: Wait) -> io::Result<()> {
        let Prepared { staged, steps } = prepared;
        staged.publish(wait)?;
        if let Some(steps) = steps {
            state.steps = steps;
            state.steps_stamp = self.store.automatic_stamp();
        }
        Ok(())
    }

    /// Merges what many calls left in the store, once there is much of it. For when nobody waits.
    pub(super) fn tidy(&self) -> Result<(), SnapshotError> {
        if !self.store.is_untidy() {
            return Ok(());
        }
        let _alone = self.store.exclusive()?;
        // What an unfinished restore needs may be nobody else's.
        if Intent::load(&self.folder)?.is_none() {
            self.store.tidy()?;
        }
        Ok(())
    }

    /// Learns what other processes did.
    pub(super) fn reload(&self, state: &mut State) -> Result<(), SnapshotError> {
        let stamp = self.store.automatic_stamp();
        if stamp == state.steps_stamp {
            return Ok(());
        }
        let mut steps = Vec::new();
        for (number, commit) in self.store.automatic()? {
            let known = state.steps.iter().find(|step| step.number == number && step.commit == commit);
            match known.cloned().map_or_else(|| Step::load(&self.store, number, commit), Ok) {
                Ok(step) => steps.push(step),
                // Nobody gets back behind one that is damaged.
                Err(_) => steps.clear(),
            }
        }
        let ours = state.seen.id();
        if state.known && !steps.iter().any(|step| Some(step.tree) == ours) {
            // What we hold to be stored may be gone with its step.
            state.forget();
        }
        (state.steps, state.steps_stamp) = (steps, stamp);
        Ok(())
    }
}
