//! Files that are to come, written while somebody waits for the disk: without names, so that nobody sees them and nothing
//! is left of them when they do not come.

use super::{
    object::{Mode, Oid},
    packed::Inflater,
    store::Store,
    to_path,
    tree::Difference,
};
use crate::{Workspace, temp};
use std::{
    collections::HashMap,
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
};

/// Larger files take longer than anybody waits.
const LARGE: usize = 256 << 10;

/// Files and their sizes, by path.
type Files = HashMap<PathBuf, (File, u64)>;

#[derive(Default)]
pub(super) struct Written {
    files: Mutex<Files>,
    writing: Option<JoinHandle<Files>>,
    enough: Arc<AtomicBool>,
}

impl Written {
    /// Writes files in the background. Those that cannot be written are left to who can tell why not.
    pub(super) fn begin(workspace: &Arc<Workspace>, store: &Arc<Store>, come: &[Difference]) -> Self {
        let file = |file: &Difference| {
            let entry = file.after.filter(|entry| entry.mode != Mode::Symlink)?;
            Some((to_path(&file.path), entry.id))
        };
        let come: Vec<(PathBuf, Oid)> = come.iter().filter_map(file).collect();
        let (workspace, store, enough) = (Arc::clone(workspace), Arc::clone(store), Arc::default());
        let stop = Arc::clone(&enough);
        let work = move || write(&workspace, &store, come, &stop);
        let writing = std::thread::Builder::new().name("write".to_owned()).spawn(work).ok();
        Self { files: Mutex::default(), writing, enough }
    }

    /// From now on they are written by who takes them.
    pub(super) fn enough(&mut self) {
        self.enough.store(true, Ordering::Relaxed);
        let written = self.writing.take().and_then(|writing| writing.join().ok());
        self.files = Mutex::new(written.unwrap_or_default());
    }

    pub(super) fn take(&self, path: &Path) -> Option<(File, u64)> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner).remove(path)
    }
}

fn write(workspace: &Workspace, store: &Store, come: Vec<(PathBuf, Oid)>, stop: &AtomicBool) -> Files {
    let mut files = Files::new();
    let mut tools = Inflater::new();
    let mut folder: Option<(PathBuf, File)> = None;
    for (path, id) in come {
        let Some(above) = path.parent().filter(|_| !stop.load(Ordering::Relaxed)) else { break };
        if folder.as_ref().is_none_or(|(last, _)| last != above) {
            let open = workspace.root.open_dir(above).ok();
            folder = open.map(|open| (above.to_owned(), File::from(open)));
        }
        let Some(mut file) = folder.as_ref().and_then(|(_, folder)| temp::nameless(folder).ok()) else {
            continue;
        };
        if let Ok((_, size)) = store.copy(&id, &mut tools, Little { file: &mut file, room: LARGE }) {
            files.insert(path, (file, size));
        }
    }
    files
}

/// Takes so much and no more.
struct Little<'f> {
    file: &'f mut File,
    room: usize,
}

impl Write for Little<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.room = self.room.checked_sub(bytes.len()).ok_or(io::ErrorKind::FileTooLarge)?;
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
