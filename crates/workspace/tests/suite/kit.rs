//! What the tests share.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;

use tempfile::TempDir;
use workspace::{Content, FileHits, GlobQuery, GrepQuery, WindowSpec, Workspace};

pub(crate) static NEVER: AtomicBool = AtomicBool::new(false);

/// A workspace in a temporary folder, with a neighbour that must never be seen.
pub(crate) struct Box {
    pub(crate) dir: TempDir,
    pub(crate) ws: Workspace,
}

impl Box {
    pub(crate) fn new() -> Self {
        Self::with(workspace::Options::default())
    }

    pub(crate) fn with(options: workspace::Options) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("ws")).unwrap();
        std::fs::create_dir_all(dir.path().join("outside")).unwrap();
        std::fs::write(dir.path().join("outside/secret.txt"), "SECRET\n").unwrap();
        let ws = Workspace::open_with("main", dir.path().join("ws"), options).unwrap();
        Self { dir, ws }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join("ws").join(name)
    }

    pub(crate) fn outside(&self, name: &str) -> PathBuf {
        self.dir.path().join("outside").join(name)
    }

    pub(crate) fn put(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub(crate) fn get(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// Reads through the workspace: text, or the error.
    pub(crate) fn read(&self, path: impl AsRef<Path>) -> Result<String, String> {
        let path = self.ws.resolve(path).map_err(|e| e.to_string())?;
        match self.ws.read(&path, &WindowSpec::default()).map_err(|e| e.to_string())?.content {
            Content::Text(window) => Ok(window.numbered),
            other => Ok(format!("{other:?}")),
        }
    }

    /// `path:line:text` for every hit.
    pub(crate) fn grep(&self, query: &GrepQuery) -> Vec<String> {
        hits(&self.ws, query).iter().flat_map(shown).collect()
    }

    pub(crate) fn grep_for(&self, pattern: &str) -> Vec<String> {
        self.grep(&GrepQuery::new(pattern, self.ws.resolve(".").unwrap()))
    }

    pub(crate) fn glob(&self, pattern: &str) -> Vec<String> {
        let path = self.ws.resolve(".").unwrap();
        let query = GlobQuery { pattern: pattern.into(), path, limit: 1000, fresh: false };
        let reply = self.ws.glob(&query, &NEVER).unwrap();
        let mut files: Vec<String> =
            reply.files.iter().map(|path| workspace::quoted(path).into_owned()).collect();
        files.sort();
        files
    }
}

pub(crate) fn hits(ws: &Workspace, query: &GrepQuery) -> Vec<FileHits> {
    let mut all = Vec::new();
    ws.grep(query, &NEVER, &mut |hits| {
        all.push(hits);
        ControlFlow::Continue(())
    })
    .unwrap();
    all
}

pub(crate) fn shown(hits: &FileHits) -> Vec<String> {
    let path = workspace::quoted(&hits.path);
    if hits.lines.is_empty() {
        return vec![format!("{path}:{}", hits.count)];
    }
    hits.lines.iter().map(|line| format!("{path}:{}:{}", line.number, line.text)).collect()
}

/// This test binary again, running one test that does nothing unless `name` is set.
pub(crate) fn myself(test: &str, name: &str, value: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(name, value)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}
