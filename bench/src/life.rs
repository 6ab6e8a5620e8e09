//! Start, memory, and many sessions at once.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::client::Client;
use crate::http::Session;
use crate::probe::{Times, cpu, resident, resident_tree};
use crate::report::{Report, ms, verdict};
use crate::subjects::Subjects;

const SETTLE: Duration = Duration::from_millis(500);
/// Below the default limit on sessions.
const IDLE_SESSIONS: u64 = 40;

/// Start to the first answered call, and memory when idle.
pub(crate) fn start(subjects: &Subjects, report: &mut Report) -> Result<()> {
    let folder = subjects.folder()?;
    let file = folder.path().join("file.txt");
    fs::write(&file, "hello\n")?;
    let [mut product, mut echo, mut peer] = [const { Times::new() }; 3];
    for round in 0..30 {
        let read = json!({ "file_path": "file.txt" });
        first_call(&mut product, || subjects.product(folder.path()), "Read", &read)?;
        first_call(&mut echo, || subjects.echo(&file), "echo", &json!({}))?;
        if round % 5 == 0 {
            let read = json!({ "path": file });
            first_call(&mut peer, || subjects.peer(folder.path()), "read_text_file", &read)?;
        }
    }
    let mut idle = subjects.product(folder.path())?;
    idle.call("Read", &json!({ "file_path": "file.txt" }))?;
    let mut other = subjects.peer(folder.path())?;
    other.call("read_text_file", &json!({ "path": file }))?;
    thread::sleep(SETTLE);
    let (alone, tree) = (resident(idle.pid())?, resident_tree(idle.pid())?);
    report.section(
        "Start and idle memory (stdio)",
        &["", "start to first answered call", "resident when idle", "asked", ""],
    );
    let met = product.median() < Duration::from_millis(15) && tree < 15_000_000;
    report.row(&[
        "codegen-sandbox".to_owned(),
        ms(product.median()),
        format!("{} ({} with its helper processes)", megabytes(alone), megabytes(tree)),
        "< 15 ms, < 15 MB".to_owned(),
        verdict(met),
    ]);
    let none = String::new;
    report.row(&["echo over the bare SDK".to_owned(), ms(echo.median()), none(), none(), none()]);
    report.row(&[
        "server-filesystem".to_owned(),
        ms(peer.median()),
        megabytes(resident(other.pid())?),
        none(),
        none(),
    ]);
    Ok(())
}

/// Times a start up to the first answer; ending the server again is not part of it.
fn first_call(
    times: &mut Times,
    start: impl FnOnce() -> Result<Client>,
    tool: &str,
    arguments: &Value,
) -> Result<()> {
    let client = times.time(|| {
        let mut client = start()?;
        client.call(tool, arguments)?;
        Ok(client)
    })?;
    drop(client);
    Ok(())
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

/// A server for many sessions.
struct Served {
    child: Child,
    address: SocketAddr,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Served {
    fn start(subjects: &Subjects, workspace: &std::path::Path) -> Result<Self> {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let mut command = Command::new(&subjects.product);
        command.args(["serve", "--addr", &address.to_string(), "--workspace"]).arg(workspace);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let served = Self { child, address };
        let start = Instant::now();
        while TcpStream::connect(address).is_err() {
            if start.elapsed() > Duration::from_secs(20) {
                bail!("`serve` does not listen on {address}");
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(served)
    }

    /// Processor time per call and calls per second, with so many sessions at once.
    fn load(&self, sessions: usize, calls: usize) -> Result<(Duration, f64, f64)> {
        let mut open = (0..sessions).map(|_| Session::open(self.address)).collect::<Result<Vec<_>>>()?;
        let arguments = json!({ "file_path": "file.rs" });
        for session in &mut open {
            session.call("Read", &arguments)?;
        }
        let before = cpu(self.child.id())?;
        let start = Instant::now();
        thread::scope(|scope| {
            let workers: Vec<_> = open
                .iter_mut()
                .map(|session| {
                    scope.spawn(|| (0..calls).try_for_each(|_| session.call("Read", &arguments).map(|_| ())))
                })
                .collect();
            workers.into_iter().try_for_each(|worker| worker.join().ok().context("a worker panicked")?)
        })?;
        let wall = start.elapsed();
        let used = cpu(self.child.id())? - before;
        let total = u32::try_from(sessions * calls)?;
        Ok((used / total, f64::from(total) / wall.as_secs_f64(), used.as_secs_f64() / wall.as_secs_f64()))
    }
}

/// Eight sessions at once, and the memory of idle ones, over HTTP.
pub(crate) fn sessions(subjects: &Subjects, report: &mut Report) -> Result<()> {
    let folder = subjects.folder()?;
    let lines: String =
        (0..200).map(|n| format!("    let value_{n} = compute(\"input\", {n}); // a line\n")).collect();
    fs::write(folder.path().join("file.rs"), lines)?;
    let served = Served::start(subjects, folder.path())?;
    served.load(1, 500)?;
    let (one, one_rate, one_cores) = served.load(1, 3000)?;
    let (eight, eight_rate, eight_cores) = served.load(8, 1500)?;
    report.section(
        "Sessions at once (HTTP, Read of 200 lines)",
        &["sessions", "processor per call", "calls per second", "cores the server used", "asked", ""],
    );
    let line = |name: &str, cpu: Duration, rate: f64, cores: f64| {
        [name.to_owned(), ms(cpu), format!("{rate:.0}"), format!("{cores:.2}")]
    };
    let none = String::new;
    report.row(&[&line("1", one, one_rate, one_cores)[..], &[none(), none()]].concat());
    let met = eight.as_secs_f64() <= one.as_secs_f64() * 1.25;
    let asked = ["≤ 1.25 × one session's".to_owned(), verdict(met)];
    report.row(&[&line("8", eight, eight_rate, eight_cores)[..], &asked].concat());

    let first = Session::open(served.address)?;
    thread::sleep(SETTLE);
    let before = resident(served.child.id())?;
    let more = (0..IDLE_SESSIONS).map(|_| Session::open(served.address)).collect::<Result<Vec<_>>>()?;
    thread::sleep(SETTLE);
    let each = resident(served.child.id())?.saturating_sub(before) / IDLE_SESSIONS;
    drop((first, more));
    report.section("A further idle session (HTTP)", &["resident memory", "asked", ""]);
    report.row(&[format!("{:.1} KB", each as f64 / 1e3), "< 64 KB".to_owned(), verdict(each < 64_000)]);
    Ok(())
}
