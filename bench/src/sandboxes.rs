//! The cost of `true` where commands can run, beside what others isolate commands with.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;

use crate::client::Client;
use crate::probe::Times;
use crate::report::{Report, ms, verdict};
use crate::subjects::{Subjects, installed, unpacked};

const ROUNDS: usize = 15;
const CALLS: usize = 10;

/// What isolation may add to a command.
const GOAL: Duration = Duration::from_micros(1500);

const PEERS: &[(&str, &str)] = &[("@openai/codex", "0.166.0"), ("@anthropic-ai/sandbox-runtime", "0.0.83")];

/// A command line that runs `true` somewhere.
struct Peer {
    name: String,
    argv: Vec<String>,
    /// Where its helpers are, besides the usual places.
    helpers: Option<PathBuf>,
    times: Times,
}

/// Through the product, and each peer by its own command line.
pub(crate) fn sandboxes(subjects: &Subjects, report: &mut Report) -> Result<()> {
    let folder = subjects.folder()?;
    let mut direct = product(subjects, folder.path(), "direct", "direct")?;
    let mut isolated = product(subjects, folder.path(), "place", "isolated")?;
    let true_ = json!({ "command": "true" });
    let in_force = isolated.text("Bash", &true_)?;
    let tier = in_force.strip_prefix("isolation: ").and_then(|line| line.split(',').next());
    let tier = tier.with_context(|| format!("isolated does not say what is in force: {in_force}"))?;
    let nothing = direct.text("Bash", &true_)?;
    ensure!(!nothing.contains("isolation"), "direct is not direct: {nothing}");
    let (mut plain, mut strong) = (Times::new(), Times::new());
    let mut faults = Vec::new();
    let mut peers = peers(folder.path(), &mut faults)?;
    peers.retain(|peer| match once(&peer.argv, peer.helpers.as_deref(), folder.path()) {
        Ok(()) => true,
        Err(error) => {
            faults.push(format!("{}: not measured: {error:#}", peer.name));
            false
        }
    });
    for _ in 0..ROUNDS {
        for _ in 0..CALLS {
            plain.time(|| direct.text("Bash", &true_))?;
            strong.time(|| isolated.text("Bash", &true_))?;
        }
        for peer in &mut peers {
            let Peer { argv, helpers, times, .. } = peer;
            times.time(|| once(argv, helpers.as_deref(), folder.path()))?;
        }
    }
    let (plain, strong) = (plain.median(), strong.median());
    let added = strong.saturating_sub(plain);
    report.section("`true` in a sandbox", &["", "median", "over direct", "asked", ""]);
    let none = String::new;
    report.row(&["Bash, mode direct".to_owned(), ms(plain), none(), none(), none()]);
    report.row(&[
        format!("Bash, mode isolated ({tier})"),
        ms(strong),
        ms(added),
        format!("≤ {}", ms(GOAL)),
        verdict(added <= GOAL),
    ]);
    for mut peer in peers {
        report.row(&[peer.name, ms(peer.times.median()), none(), none(), none()]);
    }
    report.note(
        "Isolation costs a call this little because it is not set up in the call: the process that starts the command \
         has entered the namespaces, the rules and the filter before, and serves one command after another.",
    );
    report.note(
        "The product's rows are whole tool calls over a running server; the others are command lines started anew, as \
         their users start them. None of them caps memory or processes.",
    );
    for fault in faults {
        report.note(&fault.replace(['\n', '|'], " ").chars().take(300).collect::<String>());
    }
    Ok(())
}

/// The product with its commands in one mode.
fn product(subjects: &Subjects, folder: &Path, name: &str, mode: &str) -> Result<Client> {
    let file = folder.join(format!("{mode}.yaml"));
    let declared =
        if name == mode { String::new() } else { format!("  sandboxes: {{ {name}: {{ mode: {mode} }} }}\n") };
    let text = format!(
        "apiVersion: codegen-sandbox/v1\nkind: RuntimeConfig\nspec:\n{declared}  tools: {{ default_sandbox: {name} }}\n"
    );
    fs::write(&file, text)?;
    let workspace = folder.join(format!("{mode}-workspace"));
    fs::create_dir_all(&workspace)?;
    let mut command = Command::new(&subjects.product);
    command.arg("stdio").arg("--workspace").arg(workspace).arg("--config").arg(file);
    Client::start(&mut command)
}

fn peers(folder: &Path, faults: &mut Vec<String>) -> Result<Vec<Peer>> {
    let [codex, srt] = [0, 1].map(|at| installed(PEERS[at].0, PEERS[at].1));
    let bin = |root: PathBuf, name: &str| root.join("node_modules/.bin").join(name).display().to_string();
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let here = folder.display();
    let mut peers = vec![
        ("bare spawn".to_owned(), words("true")),
        (
            "bubblewrap".to_owned(),
            words(&format!(
                "bwrap --unshare-all --die-with-parent --ro-bind / / --dev /dev --proc /proc --bind {here} {here} true"
            )),
        ),
        (peer_name(0), [bin(codex?, "codex")].into_iter().chain(words("sandbox -- true")).collect()),
        (peer_name(1), [bin(srt?, "srt")].into_iter().chain(words("true")).collect()),
    ];
    // Engines are not ours to start here: whoever has one names a container or a pod.
    for (name, variable, line) in
        [("docker exec", "BENCH_CONTAINER", "docker exec"), ("kubectl exec", "BENCH_POD", "kubectl exec")]
    {
        if let Ok(place) = std::env::var(variable) {
            let separator = if name == "kubectl exec" { "-- " } else { "" };
            peers.push((name.to_owned(), words(&format!("{line} {place} {separator}true"))));
        }
    }
    // One of them forwards ports with a program that few machines have.
    let socat = unpacked("socat").map_err(|error| faults.push(format!("socat: {error:#}"))).ok();
    let helpers = socat.map(|folder| folder.join("usr/bin"));
    let peer = |(name, argv)| Peer { name, argv, helpers: helpers.clone(), times: Times::new() };
    Ok(peers.into_iter().map(peer).collect())
}

fn peer_name(at: usize) -> String {
    format!("{} {}", PEERS[at].0, PEERS[at].1)
}

fn once(argv: &[String], helpers: Option<&Path>, folder: &Path) -> Result<()> {
    let (program, args) = argv.split_first().context("a command")?;
    let mut command = Command::new(program);
    if let Some(helpers) = helpers {
        let mut path = std::env::var_os("PATH").unwrap_or_default();
        path.push(OsString::from(":"));
        path.push(helpers);
        command.env("PATH", path);
    }
    let output = command.args(args).current_dir(folder).stdin(Stdio::null()).output()?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
