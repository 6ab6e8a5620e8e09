//! A folder for one test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A temporary workspace, removed when dropped.
#[derive(Debug)]
pub struct Workspace {
    folder: TempDir,
    root: PathBuf,
}

impl Default for Workspace {
    fn default() -> Self {
        Self::new()
    }
}

impl Workspace {
    /// An empty workspace.
    ///
    /// # Panics
    /// When no temporary folder can be made.
    pub fn new() -> Self {
        let folder = match tempfile::Builder::new().prefix("workspace-").tempdir() {
            Ok(folder) => folder,
            Err(problem) => panic!("no temporary folder: {problem}"),
        };
        let root = folder.path().canonicalize().unwrap_or_else(|_| folder.path().to_owned());
        Self { folder, root }
    }

    /// A workspace that holds these files, each given by its relative path and its content.
    pub fn with(files: &[(&str, &str)]) -> Self {
        let workspace = Self::new();
        for (name, content) in files {
            workspace.write(name, content);
        }
        workspace
    }

    /// The workspace's root, without symlinks.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The full path of a file in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Writes a file, folders included.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        let written = match path.parent() {
            Some(parent) => fs::create_dir_all(parent).and_then(|()| fs::write(&path, content)),
            None => fs::write(&path, content),
        };
        match written {
            Ok(()) => path,
            Err(problem) => panic!("writing {}: {problem}", path.display()),
        }
    }

    /// Reads a file.
    ///
    /// # Panics
    /// When it cannot be read, or is not UTF-8.
    pub fn read(&self, name: &str) -> String {
        let path = self.path(name);
        match fs::read_to_string(&path) {
            Ok(content) => content,
            Err(problem) => panic!("reading {}: {problem}", path.display()),
        }
    }

    /// Makes it a git repository with everything in it committed.
    ///
    /// # Panics
    /// When git fails.
    pub fn git_init(&self) -> &Self {
        self.git(&["init", "--quiet", "--initial-branch=main"]);
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--allow-empty", "--message=start"]);
        self
    }

    /// Runs git in it, untouched by the user's configuration, and gives what it printed.
    ///
    /// # Panics
    /// When git fails.
    pub fn git(&self, arguments: &[&str]) -> String {
        let output = Command::new("git")
            .current_dir(&self.root)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_SYSTEM", "/dev/null")
            .args(["-c", "user.name=Test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false"])
            .args(arguments)
            .output();
        match output {
            Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).into_owned(),
            Ok(output) => panic!("git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr)),
            Err(problem) => panic!("cannot start git: {problem}"),
        }
    }

    /// Leaves the folder where it is, for a look after the test.
    pub fn keep(self) -> PathBuf {
        self.folder.keep()
    }
}
