//! What is measured: the product, the floor, the peer, and the programs beside them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::client::Client;

/// The MCP project's filesystem server.
const PEER: &str = "@modelcontextprotocol/server-filesystem";
const PEER_VERSION: &str = "2026.8.31";

/// Where the programs are.
pub(crate) struct Subjects {
    pub(crate) product: PathBuf,
    echo: PathBuf,
    peer: PathBuf,
    /// Where everything is written: on the disk that builds go to, since a temporary folder may be in memory.
    pub(crate) scratch: PathBuf,
    /// The part of a measure that is wanted, when not all of it is.
    pub(crate) part: Option<String>,
}

impl Subjects {
    /// Builds the product, finds the rest, installs what is missing.
    pub(crate) fn prepare() -> Result<Self> {
        let own = std::env::current_exe()?;
        let release = own.parent().context("the bench's folder")?.to_owned();
        if cfg!(debug_assertions) {
            bail!("a debug build measures nothing: use `cargo run --release -p bench`");
        }
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--release", "--locked", "-p", "codegen-sandbox", "-p", "bench", "--bins"]);
        run(build.current_dir(env!("CARGO_MANIFEST_DIR")))?;
        run(Command::new("rg").arg("--version")).context("ripgrep is needed: `apt install ripgrep`")?;
        let scratch = release.join("bench-scratch");
        fs::create_dir_all(&scratch)?;
        Ok(Self {
            product: release.join("codegen-sandbox"),
            echo: release.join("bench-echo"),
            peer: peer()?,
            scratch,
            part: None,
        })
    }

    /// An empty folder.
    pub(crate) fn folder(&self) -> Result<tempfile::TempDir> {
        // Not hidden: Serena finds no uses in Go below a folder whose name begins with a dot.
        Ok(tempfile::Builder::new().prefix("bench-").tempdir_in(&self.scratch)?)
    }

    /// The product on pipes.
    pub(crate) fn product(&self, workspace: &Path) -> Result<Client> {
        self.product_with(workspace, &[])
    }

    /// The same with further arguments. What it keeps for undo stands on the same disk as the rest.
    pub(crate) fn product_with(&self, workspace: &Path, arguments: &[&str]) -> Result<Client> {
        let mut command = Command::new(&self.product);
        command.arg("stdio").arg("--workspace").arg(workspace).args(arguments);
        Client::start(command.env("XDG_STATE_HOME", self.scratch.join("state")))
    }

    /// The bare SDK, answering with what is in `text`.
    pub(crate) fn echo(&self, text: &Path) -> Result<Client> {
        Client::start(Command::new(&self.echo).arg(text))
    }

    /// The peer on pipes.
    pub(crate) fn peer(&self, workspace: &Path) -> Result<Client> {
        Client::start(Command::new("node").arg(&self.peer).arg(workspace))
    }
}

/// The peer's entry file.
fn peer() -> Result<PathBuf> {
    Ok(installed(PEER, PEER_VERSION)?.join("node_modules").join(PEER).join("dist/index.js"))
}

/// A folder of the cache with an npm package, installed when it is not there yet.
pub(crate) fn installed(package: &str, version: &str) -> Result<PathBuf> {
    let name = package.rsplit('/').next().unwrap_or(package);
    let folder = cache()?.join(format!("bench/{name}-{version}"));
    if !folder.join("node_modules").join(package).exists() {
        fs::create_dir_all(&folder)?;
        let mut install = Command::new("npm");
        install.args(["install", "--no-audit", "--no-fund", "--prefix"]).arg(&folder);
        run(install.arg(format!("{package}@{version}")))
            .with_context(|| format!("installing {package} needs npm and the network"))?;
    }
    Ok(folder)
}

/// A folder of the cache with a package of the system unpacked in it, which is not installed. Its programs are in
/// `usr/bin`.
pub(crate) fn unpacked(package: &str) -> Result<PathBuf> {
    let folder = cache()?.join("bench").join(package);
    if !folder.join("usr/bin").exists() {
        fs::create_dir_all(&folder)?;
        // The network may be slow or absent, and this is worth no wait.
        let script = format!(
            "set -e; timeout 60 apt-get download {package}; dpkg -x {package}_*.deb .; rm {package}_*.deb"
        );
        run(Command::new("sh").args(["-c", &script]).current_dir(&folder))
            .with_context(|| format!("fetching {package} needs apt-get and the network"))?;
    }
    Ok(folder)
}

/// The product's folder in the user's cache.
pub(crate) fn cache() -> Result<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    Ok(cache.context("HOME is not set")?.join("codegen-sandbox"))
}

/// Runs a command to its end; its words when it fails.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("starting {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}
