//! Comparing what is known with the file system, for changes that sent no event.

use std::collections::BTreeSet;

use super::Mode;
use super::rel::{Rel, within};
use super::stamp::{Seen, differing};
use super::state::State;
use crate::root::Workspace;

/// Entries that a sweep looks at before others get a turn.
const PART: usize = 1024;

/// Where a sweep stands: behind which folder, or which file.
pub(super) enum Sweep {
    Folders(Option<Rel>),
    Files(Option<Rel>),
}

impl State {
    /// Compares everything with the file system: names by their folders' stamps, contents by the files'.
    pub(super) fn revalidate(&mut self, workspace: &Workspace) {
        let again = self.changed_probes(workspace, true);
        self.rescan(workspace, again);
        let folders: Vec<(Rel, Seen)> =
            self.folders.iter().map(|(path, place)| (path.clone(), place.seen)).collect();
        for folder in differing(workspace, &folders) {
            self.relist(workspace, &folder);
        }
        let files: Vec<(Rel, Seen)> =
            self.files.within(&Rel::root(), None).map(|(path, entry)| (path.clone(), entry.seen())).collect();
        self.dirty.extend(differing(workspace, &files));
    }

    /// Looks at the names in one folder again, and through folders that are new in it; says whether there was news.
    fn relist(&mut self, workspace: &Workspace, folder: &Rel) -> bool {
        if !self.folders.contains_key(folder) {
            return false;
        }
        let (mut found, below) = self.list(workspace, folder);
        let Some((_, place)) = found.folders.pop() else {
            self.forget(folder);
            return true;
        };
        if self.folders.get(folder).is_none_or(|known| known.present != place.present) {
            self.scan(workspace, folder, None);
            return true;
        }
        self.place(workspace, folder.clone(), place);
        let links: BTreeSet<Rel> = found.links.into_iter().collect();
        let old: Vec<Rel> = within(&self.links, folder, None)
            .filter(|(path, ())| path.is_child_of(folder))
            .map(|(path, ())| path.clone())
            .collect();
        // a symlink that was replaced by another looks the same here
        for path in old.iter().chain(&links) {
            self.log.tell(path.clone());
        }
        for path in &old {
            self.links.remove(path);
        }
        self.links.extend(links.into_iter().map(|path| (path, ())));

        let now: BTreeSet<Rel> = found.files.into_iter().collect();
        let gone: Vec<Rel> = self
            .files
            .within(folder, None)
            .map(|(path, _)| path.clone())
            .filter(|path| path.is_child_of(folder) && !now.contains(path))
            .collect();
        gone.iter().for_each(|path| self.drop_file(path));
        let closed: Vec<Rel> = within(&self.folders, folder, None)
            .map(|(path, _)| path.clone())
            .filter(|path| path.is_child_of(folder) && !below.contains(path))
            .collect();
        closed.iter().for_each(|path| self.forget(path));
        let before = self.dirty.len();
        self.dirty.extend(now.into_iter().filter(|path| !self.files.contains(path)));
        let mut news = !gone.is_empty() || !closed.is_empty() || self.dirty.len() > before;
        for child in below {
            if !self.folders.contains_key(&child) {
                self.scan(workspace, &child, None);
                news = true;
            }
        }
        news
    }

    /// Looks for changes that sent no event, from where the last part ended; says where this one did.
    pub(super) fn sweep(&mut self, workspace: &Workspace, from: Sweep) -> Option<Sweep> {
        self.refresh(workspace, false);
        if self.mode != Mode::Events {
            return None;
        }
        match from {
            Sweep::Folders(after) => Some(self.sweep_folders(workspace, after.as_ref())),
            Sweep::Files(after) => {
                self.sweep_files(workspace, after.as_ref()).map(|last| Sweep::Files(Some(last)))
            }
        }
    }

    fn sweep_folders(&mut self, workspace: &Workspace, after: Option<&Rel>) -> Sweep {
        if after.is_none() {
            let again = self.changed_probes(workspace, true);
            self.rescan(workspace, again);
        }
        let part: Vec<(Rel, Seen)> = within(&self.folders, &Rel::root(), after)
            .take(PART)
            .map(|(path, place)| (path.clone(), place.seen))
            .collect();
        let moved = differing(workspace, &part);
        if !moved.is_empty() {
            // what an event told in the meantime is no news
            self.drain(workspace);
            self.index_dirty(workspace);
            for folder in moved {
                if self.relist(workspace, &folder) {
                    self.counters.swept_changes += 1;
                }
            }
            self.index_dirty(workspace);
        }
        part.last().map_or(Sweep::Files(None), |(last, _)| Sweep::Folders(Some(last.clone())))
    }

    fn sweep_files(&mut self, workspace: &Workspace, after: Option<&Rel>) -> Option<Rel> {
        // two writes in one tick send two events
        let settled = |seen: Seen| Seen { young: false, ..seen };
        let part: Vec<(Rel, Seen)> = self
            .files
            .within(&Rel::root(), after)
            .take(PART)
            .map(|(path, entry)| (path.clone(), settled(entry.seen())))
            .collect();
        let last = part.last().map(|(path, _)| path.clone());
        let moved = differing(workspace, &part);
        if moved.is_empty() {
            return last;
        }
        // an event that came in the meantime explains it
        self.drain(workspace);
        for path in moved {
            if !self.dirty.contains(&path) && self.files.heat(&path) {
                self.counters.swept_changes += 1;
                self.dirty.insert(path);
            }
        }
        self.index_dirty(workspace);
        last
    }
}
