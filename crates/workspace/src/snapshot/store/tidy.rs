//! Keeping the store small: packs are merged, and what no ref leads to any more goes.

use super::super::{
    object::{Kind, Mode, Oid},
    pack::Object,
    packed::Pack,
};
use super::{Store, Wait, found};
use std::{collections::HashSet, fs, io, sync::Arc};

/// Past this many packs they are merged into one when there is time for it.
const MANY_PACKS: usize = 50;
/// Past this many somebody has to wait for that.
const TOO_MANY_PACKS: usize = 200;
/// Larger packs are never copied, only removed when little in them is needed.
const BULKY: u64 = 64 << 20;
/// Smaller packs are not worth the trouble of making them smaller.
const SMALL: u64 = 1 << 20;

/// What some ref leads to.
#[derive(Default)]
struct Reachable {
    ids: HashSet<Oid>,
    /// The names of folders.
    folders: HashSet<Vec<u8>>,
}

impl Store {
    /// Whether there are so many packs that merging them is worth the time.
    pub(crate) fn is_untidy(&self) -> bool {
        self.lock().all.len() > MANY_PACKS
    }

    /// Whether there are so many that it cannot wait.
    pub(crate) fn is_cluttered(&self) -> bool {
        self.lock().all.len() > TOO_MANY_PACKS
    }

    /// Merges small packs when there are many, keeping only what a ref still reaches.
    pub(crate) fn tidy(&self) -> io::Result<()> {
        let mut old: Vec<_> = self.lock().all.iter().filter(|pack| pack.size() <= BULKY).cloned().collect();
        if old.len() <= MANY_PACKS {
            return Ok(());
        }
        // The largest holds the bulk of the workspace and changes little: copying it again gains nothing.
        old.sort_by_key(|pack| pack.objects().len());
        old.pop();
        let Reachable { ids: reachable, folders } = self.reachable()?;
        self.narrow().retain(&self.root, &reachable, &folders)?;
        old.extend(self.wasteful(&reachable));
        self.merge(old, &reachable)
    }

    /// Gives back the room of what no ref reaches any more, where it is much.
    pub(crate) fn reclaim(&self) -> io::Result<()> {
        let reachable = self.reachable()?.ids;
        self.merge(self.wasteful(&reachable), &reachable)
    }

    /// Packs of which little is still needed.
    fn wasteful(&self, reachable: &HashSet<Oid>) -> Vec<Arc<Pack>> {
        let wasteful = |pack: &&Arc<Pack>| {
            let needed = pack.size_of(|id| reachable.contains(id));
            pack.size() > SMALL && needed < pack.size() / 2 && needed <= BULKY
        };
        self.lock().all.iter().filter(wasteful).cloned().collect()
    }

    /// Puts one pack with what is reachable in the place of these.
    pub(super) fn merge(&self, mut old: Vec<Arc<Pack>>, reachable: &HashSet<Oid>) -> io::Result<()> {
        old.sort_by(|a, b| a.path.cmp(&b.path));
        old.dedup_by(|a, b| a.path == b.path);
        if old.is_empty() {
            return Ok(());
        }
        let mut writer = self.writer();
        for pack in &old {
            for (at, (id, offset)) in pack.objects().iter().enumerate() {
                if reachable.contains(id) {
                    let object = Object::new(pack.raw(*offset)?);
                    // With a new checksum nobody would know any more that it is damaged, nor write it anew.
                    if pack.has_sum(at, object.crc) {
                        writer.put_object(*id, &object)?;
                    }
                }
            }
        }
        let merged =
            if writer.is_empty() { None } else { Some(self.stage(writer, Vec::new())?.name(Wait::Whole)?) };
        let merged = merged.flatten().map(Arc::new);
        // What takes the place of the others must not vanish in a crash that they do not survive.
        self.settle()?;
        let mut packs = self.lock();
        packs.all.retain(|pack| !old.iter().any(|gone| gone.path == pack.path));
        let kept = merged.as_ref().map(|pack| pack.path.clone());
        packs.all.extend(merged);
        for gone in old.iter().filter(|gone| Some(&gone.path) != kept.as_ref()) {
            // The index first: a pack without one is invisible, an index without its pack is damage.
            fs::remove_file(gone.path.with_extension("idx"))?;
            fs::remove_file(&gone.path)?;
        }
        self.noted(&mut packs);
        Ok(())
    }

    /// Everything that some ref leads to. Where the way ends in something damaged, nobody gets further by this either:
    /// no reason never to tidy up again.
    fn reachable(&self) -> io::Result<Reachable> {
        let mut todo: Vec<(Kind, Oid)> = self.refs()?.into_iter().map(|(_, id)| (Kind::Commit, id)).collect();
        todo.extend(self.automatic()?.into_iter().map(|(_, id)| (Kind::Commit, id)));
        let mut seen = Reachable::default();
        while let Some((kind, id)) = todo.pop() {
            if !seen.ids.insert(id) {
                continue;
            }
            match kind {
                Kind::Commit => {
                    let Some(commit) = sound(self.commit(&id))? else { continue };
                    todo.push((Kind::Tree, commit.tree));
                    todo.extend(commit.parent.map(|parent| (Kind::Commit, parent)));
                }
                Kind::Tree => {
                    let Some(tree) = sound(self.tree(&id))? else { continue };
                    for (name, entry) in tree {
                        let kind = if entry.mode == Mode::Tree { Kind::Tree } else { Kind::Blob };
                        todo.push((kind, entry.id));
                        if kind == Kind::Tree && !seen.folders.contains(&name) {
                            seen.folders.insert(name);
                        }
                    }
                }
                Kind::Blob => {}
            }
        }
        Ok(seen)
    }
}

/// What is neither damaged nor gone with something that was.
fn sound<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(None),
        other => found(other),
    }
}
