//! Serena from PyPI: the peer for code by meaning.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::client::Client;
use crate::probe::{Times, resident};
use crate::subjects::{cache, run};

pub(crate) const NAME: &str = "Serena (PyPI serena-agent 2.1.0)";
const PACKAGE: &str = "serena-agent==2.1.0";
/// What one language may take altogether: it may have to fetch a server first.
const PATIENCE: Duration = Duration::from_secs(90);
/// Wrong answers after which it is given up.
const WRONG: usize = 200;
/// Warm questions.
const ROUNDS: usize = 9;

/// Where it is installed.
pub(crate) struct Serena(PathBuf);

/// A function, where it is defined and where it is used.
pub(crate) struct Subject<'a> {
    pub(crate) language: &'a str,
    pub(crate) root: &'a Path,
    pub(crate) module: &'a str,
    pub(crate) user: &'a str,
    pub(crate) name: &'a str,
    pub(crate) path: std::ffi::OsString,
}

/// What it takes.
pub(crate) struct Taken {
    pub(crate) first: Duration,
    /// Answers before the first right one.
    pub(crate) wrong: usize,
    pub(crate) references: Duration,
    /// Of its own process, in bytes.
    pub(crate) memory: u64,
}

impl Serena {
    /// Installs it when it is not there yet.
    pub(crate) fn installed() -> Result<Self> {
        let folder = cache()?.join(format!("bench/{}", PACKAGE.replace("==", "-")));
        if !folder.join("done").exists() {
            fs::create_dir_all(&folder)?;
            run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(folder.join("venv")))?;
            let mut install = Command::new("timeout");
            install.arg("300").arg(folder.join("venv/bin/pip")).args(["install", "--quiet", PACKAGE]);
            run(&mut install).context("installing it needs the network")?;
            fs::write(folder.join("done"), "")?;
        }
        // For Python it has uv fetch an interpreter and a server; this gives it the server that is there.
        let uvx = folder.join("uvx");
        fs::write(&uvx, "#!/bin/sh\nexec pyright-langserver --stdio\n")?;
        fs::set_permissions(&uvx, fs::Permissions::from_mode(0o755))?;
        Ok(Self(folder))
    }

    /// Asks it the same questions: from its start to the first right answer, then warm.
    pub(crate) fn measure(&self, subject: &Subject<'_>) -> Result<Taken> {
        let settings = subject.root.join(".serena");
        fs::create_dir_all(&settings)?;
        let text = format!("project_name: bench\nlanguages:\n- {}\nencoding: utf-8\n", subject.language);
        fs::write(settings.join("project.yml"), text)?;
        // The first time it may fetch a server.
        self.first(subject)?;
        let mut first = Times::new();
        let (mut client, wrong) = first.time(|| self.first(subject))?;
        let mut references = Times::new();
        for _ in 0..ROUNDS {
            references.time(|| {
                let answer = ask(&mut client.0, subject)?;
                ensure!(answer.contains(subject.user), "{answer}");
                Ok(())
            })?;
        }
        Ok(Taken {
            first: first.median(),
            wrong,
            references: references.median(),
            memory: resident(client.0.pid())?,
        })
    }

    /// Starts it and asks until the answer is right: it may answer before its server has loaded the project.
    fn first(&self, subject: &Subject<'_>) -> Result<(Watched, usize)> {
        let mut command = Command::new(self.0.join("venv/bin/serena"));
        command.args(["start-mcp-server", "--context", "ide", "--agent-interface", "tools", "--project"]);
        command.arg(subject.root).args(["--enable-web-dashboard", "false", "--open-web-dashboard", "false"]);
        command.args(["--enable-gui-log-window", "false", "--log-level", "ERROR"]);
        command.env("SERENA_HOME", self.0.join("home")).env("PATH", &subject.path);
        command.env("UVX", self.0.join("uvx"));
        let mut client = Watched::over(Client::start(&mut command)?);
        let mut wrong = 0;
        loop {
            let answer = ask(&mut client.0, subject)?;
            if answer.contains(subject.user) {
                return Ok((client, wrong));
            }
            ensure!(wrong < WRONG, "{answer}");
            wrong += 1;
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn ask(client: &mut Client, subject: &Subject<'_>) -> Result<String> {
    let question = json!({ "name_path": subject.name, "relative_path": subject.module });
    client.text("find_referencing_symbols", &question)
}

/// A client whose server is ended when it takes too long.
struct Watched(Client, #[expect(dead_code, reason = "dropping it ends the watch")] mpsc::Sender<()>);

impl Watched {
    fn over(client: Client) -> Self {
        let (alive, ended) = mpsc::channel();
        let pid = client.pid().to_string();
        std::thread::spawn(move || {
            if ended.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                let _ = Command::new("kill").args(["-9", &pid]).status();
            }
        });
        Self(client, alive)
    }
}
