//! Starting and ending the real binary.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use regex::Regex;

use crate::client::Client;
use crate::transport::{Sse, StdioPipes, StreamableHttp};
use crate::workspace::Workspace;

/// How long a start or an end may take before a test fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// How to start the binary.
#[derive(Debug, Clone)]
pub struct Launch {
    binary: PathBuf,
    workspace: Option<PathBuf>,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    folder: Option<PathBuf>,
}

impl Launch {
    /// The binary under test: `env!("CARGO_BIN_EXE_codegen-sandbox")`.
    pub fn new(binary: impl Into<PathBuf>) -> Self {
        Self {
            binary: binary.into(),
            workspace: None,
            arguments: Vec::new(),
            // What outlives a process is no business of the user who runs the tests.
            environment: vec![(
                "XDG_STATE_HOME".into(),
                std::env::temp_dir().join("codegen-sandbox-tests").into(),
            )],
            folder: None,
        }
    }

    /// Serves this workspace.
    #[must_use]
    pub fn workspace(self, workspace: &Workspace) -> Self {
        self.workspace_at(workspace.root())
    }

    /// Serves this folder.
    #[must_use]
    pub fn workspace_at(mut self, root: &Path) -> Self {
        self.workspace = Some(root.to_owned());
        self
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: Into<OsString>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Sets a variable of its environment.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Starts it in this folder.
    #[must_use]
    pub fn current_dir(mut self, folder: &Path) -> Self {
        self.folder = Some(folder.to_owned());
        self
    }

    /// The command line for `stdio`, `serve` and the like: for tests that start it themselves.
    pub fn command(&self, subcommand: &str) -> Command {
        let mut command = Command::new(&self.binary);
        command.arg(subcommand);
        if let Some(root) = &self.workspace {
            command.arg("--workspace").arg(root);
        }
        command.args(&self.arguments).envs(self.environment.iter().map(|(name, value)| (name, value)));
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        command
    }

    /// Starts `stdio` and connects to it.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn stdio(&self) -> Client {
        let (process, input, output) = self.start("stdio");
        Client::new(Box::new(StdioPipes::new(input, output)), Some(process))
    }

    /// Starts `serve` on a free port and waits for the address that it prints.
    ///
    /// # Panics
    /// When it cannot be started or names no address.
    pub fn serve(&self) -> Served {
        let with_port = self.clone().args(["--addr", "127.0.0.1:0"]);
        let (process, _input, output) = with_port.start("serve");
        let (found, address) = mpsc::channel();
        process.collect(output, Some(found.clone()));
        process.watch_stderr(found);
        match address.recv_timeout(PATIENCE) {
            Ok(address) => Served { process, address },
            Err(_) => panic!("`serve` printed no address; it printed:\n{}", process.printed()),
        }
    }

    fn start(&self, subcommand: &str) -> (Process, ChildStdin, ChildStdout) {
        let mut command = self.command(subcommand);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(problem) => panic!("cannot start {}: {problem}", self.binary.display()),
        };
        let (Some(input), Some(output), Some(errors)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            panic!("pipes were asked for")
        };
        let process =
            Process { child: Mutex::new(child), printed: Arc::default(), listeners: Arc::default() };
        process.collect(errors, None);
        (process, input, output)
    }
}

type Listeners = Arc<Mutex<Vec<mpsc::Sender<SocketAddr>>>>;

/// A running binary; killed when dropped.
#[derive(Debug)]
pub struct Process {
    child: Mutex<Child>,
    printed: Arc<Mutex<String>>,
    listeners: Listeners,
}

impl Process {
    /// Its process number.
    pub fn pid(&self) -> u32 {
        self.lock().id()
    }

    /// What it printed so far: stderr, and stdout where that is not the protocol's.
    pub fn printed(&self) -> String {
        self.printed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sends it a signal by name, such as `TERM`.
    ///
    /// # Panics
    /// When the signal cannot be sent.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").arg(format!("-{name}")).arg(self.pid().to_string()).status();
        assert!(sent.is_ok_and(|status| status.success()), "sending {name} to {}", self.pid());
    }

    /// Kills it as `kill -9` does, and waits until it is gone.
    pub fn kill(&self) {
        let mut child = self.lock();
        // It may be gone already.
        let _ = child.kill();
        let _ = child.wait();
    }

    /// Its end, when it has come.
    pub fn ended(&self) -> Option<ExitStatus> {
        self.lock().try_wait().ok().flatten()
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// When that takes longer than 30 s.
    pub fn wait(&self) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.ended() {
                return status;
            }
            assert!(start.elapsed() < PATIENCE, "the process does not end; it printed:\n{}", self.printed());
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Its resident memory in bytes.
    ///
    /// # Panics
    /// When it is gone.
    pub fn resident_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = line.and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
        match kilobytes {
            Some(kilobytes) => kilobytes * 1024,
            None => panic!("process {} is gone; it printed:\n{}", self.pid(), self.printed()),
        }
    }

    fn watch_stderr(&self, listener: mpsc::Sender<SocketAddr>) {
        let before = self.printed();
        if let Some(address) = before.lines().find_map(address_in) {
            // The receiver waits for one address only.
            let _ = listener.send(address);
        }
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).push(listener);
    }

    /// Collects a stream in the background, and tells of the first address in it.
    fn collect(&self, stream: impl Read + Send + 'static, listener: Option<mpsc::Sender<SocketAddr>>) {
        let printed = Arc::clone(&self.printed);
        let listeners = Arc::clone(&self.listeners);
        thread::spawn(move || {
            let mut stream = BufReader::new(stream);
            let mut line = Vec::new();
            while stream.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
                let text = String::from_utf8_lossy(&line).into_owned();
                printed.lock().unwrap_or_else(PoisonError::into_inner).push_str(&text);
                if let Some(address) = address_in(&text) {
                    let others = listeners.lock().unwrap_or_else(PoisonError::into_inner).clone();
                    for listener in listener.iter().chain(&others) {
                        let _ = listener.send(address);
                    }
                }
                line.clear();
            }
        });
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

fn address_in(line: &str) -> Option<SocketAddr> {
    let pattern = Regex::new(r"http://((?:\d+\.\d+\.\d+\.\d+|\[[0-9a-f:]+\]):\d+)").ok()?;
    pattern.captures(line)?.get(1)?.as_str().parse().ok()
}

/// A running `serve`; killed when dropped.
#[derive(Debug)]
pub struct Served {
    process: Process,
    address: SocketAddr,
}

impl Served {
    /// The process.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of a path on it.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// A client over streamable HTTP.
    pub fn http(&self) -> Client {
        Client::new(Box::new(StreamableHttp::new(self.address, None)), None)
    }

    /// A client over streamable HTTP that shows a token.
    pub fn http_with_token(&self, token: &str) -> Client {
        Client::new(Box::new(StreamableHttp::new(self.address, Some(token))), None)
    }

    /// A client over the older HTTP with server-sent events.
    pub fn sse(&self) -> Client {
        Client::new(Box::new(Sse::new(self.address, None)), None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_an_address_in_a_line() {
        assert_eq!(address_in("  url  http://127.0.0.1:8080/mcp"), "127.0.0.1:8080".parse().ok());
        assert_eq!(address_in("listening on http://[::1]:9/mcp"), "[::1]:9".parse().ok());
        assert_eq!(address_in("nothing here"), None);
    }

    #[test]
    fn a_dropped_process_is_gone() {
        let (process, _input, _output) = Launch::new("/bin/sleep").start("600");
        let pid = process.pid();
        assert!(Path::new(&format!("/proc/{pid}")).exists());
        drop(process);
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }
}
