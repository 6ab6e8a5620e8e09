//! The index of a workspace's symbols: built in the background from the first question on, shared by all sessions, and
//! made true before every answer with what the journal says.

use crate::call::Pace;
use ::code::{Facts, Filter, Hit, Index, Language, Reader};
use std::{
    collections::{BTreeSet, HashMap, HashSet},
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use workspace::{ContainedPath, Workspace, quoted};

/// How long a question waits for an index that is being built before it is answered from what is there.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long the builder waits for the live workspace to stand before it goes on without a journal.
const LIVE: Duration = Duration::from_secs(30);
/// Larger files hold tables.
const LARGEST: u64 = 1 << 20;
/// Files left out that are named.
const NAMED: usize = 3;
/// Changed files that are worth a thread each.
const MANY: usize = 64;
/// Stands for the stamp of a file that is no longer part of the workspace.
const GONE: u64 = u64::MAX;
/// Threads that build at most.
const THREADS: usize = 4;

/// The indexes of a host, by workspace.
#[derive(Default)]
pub(crate) struct Indexes(Mutex<HashMap<String, Arc<Symbols>>>);

impl Indexes {
    /// That of one workspace; it begins to be built when it is asked for the first time.
    pub(crate) fn of(&self, workspace: &Arc<Workspace>) -> Arc<Symbols> {
        let mut all = lock(&self.0);
        if let Some(known) = all.get(workspace.name()) {
            return Arc::clone(known);
        }
        let symbols = Arc::new(Symbols::new(Arc::clone(workspace)));
        all.insert(workspace.name().to_owned(), Arc::clone(&symbols));
        let builder = Arc::downgrade(&symbols);
        let build = move || {
            if let Some(symbols) = builder.upgrade() {
                symbols.build();
            }
        };
        // without the thread the question itself builds
        if std::thread::Builder::new().name("symbols".to_owned()).spawn(build).is_err() {
            symbols.build();
        }
        symbols
    }
}

/// The index of one workspace.
pub(crate) struct Symbols {
    workspace: Arc<Workspace>,
    state: Mutex<State>,
    ready: Condvar,
    done: AtomicUsize,
    patience: Duration,
    /// How long questions take.
    pub(crate) pace: Arc<Pace>,
}

#[derive(Default)]
struct State {
    index: Index,
    /// Up to where the journal has been followed; `None`: there is none, look at everything.
    cursor: Option<u64>,
    /// Files to index, once they are counted.
    all: Option<usize>,
    built: bool,
    /// Files that changed while the index was being built: what the builder read of them may be old.
    late: HashSet<PathBuf>,
    /// Files that are too large, or could not be parsed in time.
    left_out: BTreeSet<Arc<Path>>,
}

impl State {
    fn put(&mut self, path: Arc<Path>, stamp: u64, facts: &Facts) {
        if facts.complete() {
            self.left_out.remove(&path);
        } else {
            self.left_out.insert(Arc::clone(&path));
        }
        self.index.put(path, stamp, facts);
    }

    fn remove(&mut self, path: &Path) {
        self.left_out.remove(path);
        self.index.remove(path);
    }
}

/// How much of the workspace an answer rests on.
pub(crate) struct Standing {
    pub(crate) done: usize,
    pub(crate) all: usize,
    built: bool,
    left_out: usize,
    /// The first of those.
    named: Vec<Arc<Path>>,
}

impl Standing {
    /// What the reader must know about the answer.
    pub(crate) fn note(&self) -> Option<String> {
        let share = (self.done * 100).checked_div(self.all).unwrap_or_default();
        (!self.built).then(|| {
            format!("index {share} % built ({} of {} files); ask again for the rest", self.done, self.all)
        })
    }

    /// What the answer leaves out.
    pub(crate) fn omission(&self) -> Option<String> {
        let names: Vec<_> = self.named.iter().map(|path| quoted(path)).collect();
        let more = if self.left_out > names.len() { ", …" } else { "" };
        (self.left_out > 0).then(|| {
            let (count, names) = (self.left_out, names.join(", "));
            format!("{count} file(s) left out, larger than 1 MiB or not parsed in time: {names}{more}")
        })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(THREADS)
}

fn known(path: &Path) -> bool {
    Language::of_path(path).is_some()
}

/// Takes a file apart; one that a mistake of ours makes impossible is left out, and not the whole index with it.
fn guarded(reader: &mut Reader, path: &ContainedPath, take: impl FnOnce(&mut Reader) -> Facts) -> Facts {
    catch_unwind(AssertUnwindSafe(|| take(reader))).unwrap_or_else(|_| {
        tracing::error!(path = %path, "a file could not be taken apart for search_code");
        // nobody knows what it was left with
        *reader = Reader::default();
        Facts::left_out()
    })
}

impl Symbols {
    fn new(workspace: Arc<Workspace>) -> Self {
        let (state, ready, done) = (Mutex::default(), Condvar::new(), AtomicUsize::new(0));
        Self { workspace, state, ready, done, patience: PATIENCE, pace: Arc::default() }
    }

    /// Reads everything, with several threads.
    fn build(&self) {
        // trees of syntax come and go in every thread
        sandbox::keep_less_memory();
        let files = self.begin();
        self.index(&files);
        drop(files);
        self.finish();
    }

    /// Finds what there is to read.
    fn begin(&self) -> Vec<(Arc<Path>, u64)> {
        let end = Instant::now() + LIVE;
        // what changes after this moment is in the journal
        let mut cursor = self.workspace.changes_since(0);
        while cursor.is_none() && self.workspace.is_going_live() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
            cursor = self.workspace.changes_since(0);
        }
        // made before anything is parsed: scattered among trees of syntax they would hold pages that these leave
        let files: Vec<(Arc<Path>, u64)> =
            self.workspace.files(&known).into_iter().map(|(path, stamp)| (path.into(), stamp)).collect();
        let mut state = lock(&self.state);
        state.cursor = cursor.map(|changes| changes.cursor);
        state.all = Some(files.len());
        files
    }

    fn index(&self, files: &[(Arc<Path>, u64)]) {
        self.read(files, |state, path, stamp, facts| {
            if !state.late.contains(&**path) {
                state.put(Arc::clone(path), stamp, facts);
            }
        });
    }

    fn finish(&self) {
        lock(&self.state).index.shrink();
        // trees of syntax took many times what the index takes
        sandbox::release_memory();
        let mut state = lock(&self.state);
        state.late = HashSet::new();
        state.built = true;
        drop(state);
        self.ready.notify_all();
    }

    /// Takes files apart and hands what is in them to `keep`.
    fn read(&self, files: &[(Arc<Path>, u64)], keep: impl Fn(&mut State, &Arc<Path>, u64, &Facts) + Sync) {
        let next = AtomicUsize::new(0);
        let work = || {
            let mut reader = Reader::default();
            while let Some((path, stamp)) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                if let Some(facts) = self.facts(&mut reader, path) {
                    keep(&mut lock(&self.state), path, *stamp, &facts);
                }
                self.done.fetch_add(1, Ordering::Relaxed);
            }
        };
        let threads = threads();
        std::thread::scope(|scope| {
            for _ in 1..threads {
                scope.spawn(work);
            }
            work();
        });
    }

    /// What is in a file; `None` when it is not there or no file.
    fn facts(&self, reader: &mut Reader, path: &Path) -> Option<Facts> {
        let language = Language::of_path(path)?;
        let path = self.workspace.resolve_entry(path).ok()?;
        match self.workspace.read_bytes(&path, LARGEST) {
            Ok(bytes) => Some(guarded(reader, &path, |reader| Facts::of(reader, language, &bytes))),
            Err(_) => (self.workspace.size(&path)? > LARGEST).then(Facts::left_out),
        }
    }

    /// The best symbols for a query, how many there are, and what the answer rests on.
    pub(crate) fn search(
        &self,
        query: &str,
        filter: &Filter<'_>,
        limit: usize,
    ) -> (Vec<Hit>, usize, Standing) {
        let mut state = self.wait();
        self.refresh(&mut state);
        let (hits, total) = state.index.search(query, filter, limit);
        let done = self.done.load(Ordering::Relaxed);
        let (done, all) = match state.built {
            true => {
                let read = state.index.files().len() - state.left_out.len();
                (read, read)
            }
            false => (done, state.all.unwrap_or_default()),
        };
        let named = state.left_out.iter().take(NAMED).cloned().collect();
        let standing = Standing { done, all, built: state.built, left_out: state.left_out.len(), named };
        (hits, total, standing)
    }

    /// The state, as soon as it is complete or patience is at its end.
    fn wait(&self) -> MutexGuard<'_, State> {
        let state = lock(&self.state);
        let waited = self.ready.wait_timeout_while(state, self.patience, |state| !state.built);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Makes the index true for everything that was done before this call.
    fn refresh(&self, state: &mut State) {
        let changes = state.cursor.and_then(|cursor| self.workspace.changes_since(cursor));
        let changed = match changes {
            // everything may have changed, and everything is being read: look when that is done
            Some(changes) if changes.paths.is_none() && !state.built => return,
            Some(changes) => {
                state.cursor = Some(changes.cursor);
                changes.paths
            }
            // nothing follows the changes: every question looks
            None if state.built => None,
            None => return,
        };
        let rules = |path: &PathBuf| {
            path.file_name().is_some_and(|name| name == ".gitignore" || name == ".ignore" || name == ".git")
        };
        let changed = match changed {
            // what belongs to the workspace may be something else now
            Some(paths) if !state.built || !paths.iter().any(rules) => {
                let paths = paths.into_iter().filter(|path| known(path));
                // rules of the repository's own and above the root change without a word in the journal
                paths
                    .map(|path| if self.workspace.leaves_out(&path) { (path, GONE) } else { (path, 0) })
                    .collect()
            }
            _ => self.differing(state),
        };
        if !state.built {
            state.late.extend(changed.iter().map(|(path, _)| path.clone()));
        }
        self.take_in(state, &changed);
    }

    /// Files whose stamp is not what it was, with the new one, and those that have gone.
    fn differing(&self, state: &State) -> Vec<(PathBuf, u64)> {
        let now: HashMap<PathBuf, u64> = self.workspace.files(&known).into_iter().collect();
        let was: HashMap<&Path, u64> = state.index.files().map(|(path, stamp)| (&**path, stamp)).collect();
        let gone = was.keys().filter(|path| !now.contains_key(**path)).map(|path| (path.to_path_buf(), GONE));
        // a stamp of 0 says that it may have changed without showing it
        let other =
            now.iter().filter(|(path, stamp)| **stamp == 0 || was.get(path.as_path()) != Some(*stamp));
        gone.chain(other.map(|(path, stamp)| (path.clone(), *stamp))).collect()
    }

    fn take_in(&self, state: &mut State, changed: &[(PathBuf, u64)]) {
        let mut put = |(path, stamp): &(PathBuf, u64), facts: Option<Facts>| match facts {
            Some(facts) => state.put(path.as_path().into(), *stamp, &facts),
            None => state.remove(path),
        };
        let take = |changed: &[(PathBuf, u64)]| -> Vec<Option<Facts>> {
            let mut reader = Reader::default();
            let mut facts =
                |(path, stamp): &(PathBuf, u64)| (*stamp != GONE).then(|| self.facts(&mut reader, path));
            changed.iter().map(|one| facts(one).flatten()).collect()
        };
        if changed.len() < MANY {
            changed.iter().zip(take(changed)).for_each(|(one, facts)| put(one, facts));
            return;
        }
        let threads = threads();
        for block in changed.chunks(MANY * threads) {
            let parts: Vec<Vec<Option<Facts>>> = std::thread::scope(|scope| {
                let parts = block.chunks(block.len().div_ceil(threads));
                let running: Vec<_> = parts.map(|part| scope.spawn(move || take(part))).collect();
                running.into_iter().map(|thread| thread.join().unwrap_or_default()).collect()
            });
            block.iter().zip(parts.into_iter().flatten()).for_each(|(one, facts)| put(one, facts));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use workspace::LiveOptions;

    #[test]
    fn a_file_that_cannot_be_taken_apart_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open("w", dir.path()).unwrap();
        let (path, mut reader) = (workspace.resolve("a.go").unwrap(), Reader::default());
        let facts = guarded(&mut reader, &path, |_| panic!("a probe that panics"));
        assert!(!facts.complete());
        let facts = guarded(&mut reader, &path, |it| Facts::of(it, Language::Go, b"package p\n"));
        assert!(facts.complete());
    }

    /// Rules that are no part of the workspace say what is: the journal tells of the files, not of the rules.
    #[test]
    fn what_is_excluded_later_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join(".git/info")).unwrap();
        fs::write(dir.path().join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
        fs::create_dir(dir.path().join("out")).unwrap();
        fs::write(dir.path().join("out/a.go"), "package p\n\nfunc OpenVault() {}\n").unwrap();
        let workspace = Arc::new(Workspace::open("w", dir.path()).unwrap());
        workspace.go_live_now(LiveOptions::default());
        let symbols = Symbols::new(workspace);
        symbols.build();
        let count = || symbols.search("vault", &Filter::default(), 10).1;
        assert_eq!(count(), 1);
        let exclude = dir.path().join(".git/info/exclude");
        fs::write(&exclude, "/out\n").unwrap();
        assert_eq!(count(), 0);
        fs::write(dir.path().join("out/a.go"), "package p\n\nfunc CloseVault() {}\n").unwrap();
        assert_eq!(count(), 0);
        fs::remove_file(&exclude).unwrap();
        assert_eq!(count(), 1);
    }

    #[test]
    fn an_answer_from_half_an_index_says_so() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a.go"), "package p\n\nfunc OpenVault() {}\n").unwrap();
        fs::write(dir.path().join("b.go"), "package p\n\nfunc CloseVault() {}\n").unwrap();
        let workspace = Arc::new(Workspace::open("w", dir.path()).unwrap());
        workspace.go_live_now(LiveOptions::default());
        let mut symbols = Symbols::new(workspace);
        symbols.patience = Duration::ZERO;
        let ask = |symbols: &Symbols, query: &str| {
            let (hits, total, standing) = symbols.search(query, &Filter::default(), 10);
            assert_eq!(hits.len(), total);
            let mut files: Vec<_> = hits.iter().map(|hit| hit.path.display().to_string()).collect();
            files.sort();
            (files.join(" "), standing.note())
        };
        let note = |text: &str| Some(text.to_owned());
        // nobody has begun
        let expected = note("index 0 % built (0 of 0 files); ask again for the rest");
        assert_eq!(ask(&symbols, "vault"), (String::new(), expected));
        // one of two files is read
        let mut files = symbols.begin();
        files.sort();
        symbols.index(&files[..1]);
        let expected = note("index 50 % built (1 of 2 files); ask again for the rest");
        assert_eq!(ask(&symbols, "vault"), ("a.go".to_owned(), expected.clone()));
        // what changes meanwhile is seen, and the builder does not put the old back
        fs::write(dir.path().join("b.go"), "package p\n\nfunc GuardVault() {}\n").unwrap();
        assert_eq!(ask(&symbols, "guard"), ("b.go".to_owned(), expected));
        symbols.index(&files[1..]);
        symbols.finish();
        assert_eq!(ask(&symbols, "vault"), ("a.go b.go".to_owned(), None));
        assert_eq!(ask(&symbols, "guard"), ("b.go".to_owned(), None));
    }
}
