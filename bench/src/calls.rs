//! Single calls: Read, Edit, Bash.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::client::Client;
use crate::probe::{Times, cpu};
use crate::report::{Report, ms, times, verdict};
use crate::subjects::Subjects;

/// Subjects take turns, so that a busy moment of the machine meets them all.
const ROUNDS: usize = 20;

/// One server under one kind of call.
struct Turn {
    client: Client,
    tool: &'static str,
    times: Times,
    cpu: Duration,
}

impl Turn {
    fn new(client: Client, tool: &'static str) -> Self {
        Self { client, tool, times: Times::default(), cpu: Duration::ZERO }
    }

    fn calls(&mut self, count: usize, arguments: &mut dyn FnMut() -> Value) -> Result<()> {
        let before = cpu(self.client.pid())?;
        for _ in 0..count {
            let arguments = arguments();
            let (client, tool) = (&mut self.client, self.tool);
            self.times.time(|| client.call(tool, &arguments).map(|_| ()))?;
        }
        self.cpu += cpu(self.client.pid())? - before;
        Ok(())
    }

    fn cpu_per_call(&self) -> Duration {
        self.cpu / self.times.count().max(1)
    }
}

/// Read of a file of 200 lines.
pub(crate) fn read(subjects: &Subjects, report: &mut Report) -> Result<()> {
    let folder = subjects.folder()?;
    let file = folder.path().join("file.rs");
    let lines: String =
        (0..200).map(|n| format!("    let value_{n} = compute(\"input\", {n}); // a line\n")).collect();
    fs::write(&file, lines)?;
    let mut product = Turn::new(subjects.product(folder.path())?, "Read");
    let arguments = json!({ "file_path": "file.rs" });
    let text = product.client.text("Read", &arguments)?;
    ensure!(text.lines().count() >= 200, "Read gave {text}");
    let answer = folder.path().join("answer.txt");
    fs::write(&answer, &text)?;
    let mut echo = Turn::new(subjects.echo(&answer)?, "echo");
    let mut peer = Turn::new(subjects.peer(folder.path())?, "read_text_file");
    let theirs = json!({ "path": file });
    for _ in 0..ROUNDS {
        echo.calls(100, &mut || arguments.clone())?;
        product.calls(100, &mut || arguments.clone())?;
        peer.calls(30, &mut || theirs.clone())?;
    }
    let floor = echo.times.median();
    let ours = product.times.median();
    report.section("Read, 200 lines", &["", "median", "processor per call", "beside", "asked", ""]);
    row(report, "echo over the bare SDK (floor)", floor, echo.cpu_per_call(), ["", "", ""].map(String::from));
    let beside = [times(ours, floor), "≤ 2 × floor".to_owned(), verdict(ours <= floor * 2)];
    row(report, "Read", ours, product.cpu_per_call(), beside);
    peer_row(report, &mut peer, &product);
    Ok(())
}

fn row(report: &mut Report, name: &str, time: Duration, cpu: Duration, rest: [String; 3]) {
    let [beside, asked, met] = rest;
    report.row(&[name.to_owned(), ms(time), ms(cpu), beside, asked, met]);
}

fn peer_row(report: &mut Report, peer: &mut Turn, product: &Turn) {
    let (theirs, ours) = (peer.cpu_per_call(), product.cpu_per_call());
    let beside = [
        format!("{} our processor time", times(theirs, ours)),
        "≥ 4 × ours".to_owned(),
        verdict(theirs >= ours * 4),
    ];
    row(report, &format!("server-filesystem `{}`", peer.tool), peer.times.median(), theirs, beside);
}

/// A small durable Edit.
pub(crate) fn edit(subjects: &Subjects, report: &mut Report) -> Result<()> {
    let folder = subjects.folder()?;
    let text: String = (0..40).map(|n| format!("line {n} says alpha{n}\n")).collect();
    for name in ["ours.txt", "theirs.txt"] {
        fs::write(folder.path().join(name), &text)?;
    }
    let mut product = Turn::new(subjects.product(folder.path())?, "Edit");
    product.client.text("Read", &json!({ "file_path": "ours.txt" }))?;
    let mut there = false;
    let mut ours = || {
        there = !there;
        let (old, new) = if there { ("alpha7\n", "beta7\n") } else { ("beta7\n", "alpha7\n") };
        json!({ "file_path": "ours.txt", "old_string": old, "new_string": new })
    };
    let answer = folder.path().join("answer.txt");
    fs::write(&answer, product.client.text("Edit", &ours())?)?;
    let mut echo = Turn::new(subjects.echo(&answer)?, "echo");
    let mut peer = Turn::new(subjects.peer(folder.path())?, "edit_file");
    let mut changed = false;
    let path = folder.path().join("theirs.txt");
    let mut theirs = || {
        changed = !changed;
        let (old, new) = if changed { ("alpha7\n", "beta7\n") } else { ("beta7\n", "alpha7\n") };
        json!({ "path": path, "edits": [{ "oldText": old, "newText": new }] })
    };
    let mut bare = Times::default();
    for _ in 0..ROUNDS {
        echo.calls(
            20,
            &mut || json!({ "file_path": "ours.txt", "old_string": "alpha7", "new_string": "beta7" }),
        )?;
        for _ in 0..20 {
            bare.time(|| durable(folder.path(), text.as_bytes()))?;
        }
        product.calls(20, &mut ours)?;
        peer.calls(20, &mut theirs)?;
    }
    let floor = echo.times.median() + bare.median();
    let median = product.times.median();
    report.section("Edit, small and durable", &["", "median", "processor per call", "beside", "asked", ""]);
    let none = || ["", "", ""].map(String::from);
    row(report, "echo over the bare SDK", echo.times.median(), echo.cpu_per_call(), none());
    report.row(&[
        "temp, fdatasync, rename, fsync of the folder, bare".to_owned(),
        ms(bare.median()),
        String::new(),
        String::new(),
        String::new(),
        String::new(),
    ]);
    let within = median.as_secs_f64() <= floor.as_secs_f64() * 1.3;
    let beside = [format!("{} both", times(median, floor)), "≤ 1.3 × both".to_owned(), verdict(within)];
    row(report, "Edit", median, product.cpu_per_call(), beside);
    peer_row(report, &mut peer, &product);
    report.note("The peer does not sync: its time is not comparable, its processor time is.");
    Ok(())
}

/// The same four calls that a durable write takes, and nothing else.
pub(crate) fn durable(folder: &Path, text: &[u8]) -> Result<()> {
    let temporary = folder.join(".bare.tmp");
    let mut file = File::create(&temporary)?;
    file.write_all(text)?;
    file.sync_data()?;
    fs::rename(&temporary, folder.join("bare.txt"))?;
    File::open(folder)?.sync_all()?;
    Ok(())
}

/// The shortest command.
pub(crate) fn bash(subjects: &Subjects, report: &mut Report) -> Result<()> {
    let folder = subjects.folder()?;
    let mut product = Turn::new(subjects.product(folder.path())?, "Bash");
    let mut bare = Times::default();
    for _ in 0..ROUNDS {
        for _ in 0..20 {
            let mut command = Command::new("bash");
            command.args(["-c", "true"]).current_dir(folder.path());
            bare.time(|| Ok(command.output()?))?;
        }
        product.calls(20, &mut || json!({ "command": "true" }))?;
    }
    let (floor, ours) = (bare.median(), product.times.median());
    report.section("Bash `true`", &["", "median", "beside", "asked", ""]);
    let none = String::new;
    report.row(&["bare spawn of `bash -c true`".to_owned(), ms(floor), none(), none(), none()]);
    let within = ours.as_secs_f64() <= floor.as_secs_f64() * 1.3;
    report.row(&[
        "Bash".to_owned(),
        ms(ours),
        times(ours, floor),
        "≤ 1.3 × bare".to_owned(),
        verdict(within),
    ]);
    Ok(())
}
