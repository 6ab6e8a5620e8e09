//! `doctor`: what this start would have, what it lacks, and how to get that.
//!
//! A section is a file with a `look`: it says what it found as [`Item`]s. To add one, write the file and name
//! it in [`doctor`].

mod engines;
mod features;
mod isolation;
mod languages;
mod places;
mod servers;
mod workspaces;

use super::{host, print};
use anyhow::bail;
use config::{Settings, did_you_mean};
use sandbox::{Outcome, Request, Sandbox, direct::Direct};
use serde::Serialize;
use serde_json::json;
use std::{fmt::Write as _, process::ExitCode, sync::Arc, time::Duration};
use tools::{Access, Call, Host, SessionGuard};

/// Something that was asked for is missing.
const LACKING: u8 = 1;

/// How long a program may take to answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// What the command line says.
pub(crate) struct Ask {
    /// For programs.
    pub(crate) json: bool,
    /// Words whose items must all be there.
    pub(crate) require: Vec<String>,
}

/// What sections look from.
struct Desk {
    host: Arc<Host>,
    session: SessionGuard,
    /// For what runs as this user also when commands are isolated: engines' clients.
    plain: Direct,
}

impl Desk {
    fn settings(&self) -> &Settings {
        &self.host.settings
    }

    /// A call in each workspace.
    fn calls(&self) -> Vec<Call> {
        let call = |workspace: &Arc<_>| Call::beside(Arc::clone(&self.session), Arc::clone(workspace));
        self.host.workspaces.values().map(call).collect()
    }
}

/// Whether something is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    /// It is, and works.
    Ok,
    /// It is not, or does not work.
    Missing,
    /// Neither good nor bad.
    Info,
}

/// One thing that was looked at.
#[derive(Debug, Clone, Serialize)]
struct Item {
    name: String,
    state: State,
    /// What was found, in one line.
    text: String,
    /// How to get it.
    #[serde(skip_serializing_if = "Option::is_none")]
    get: Option<String>,
    /// Words of `--require` that ask for it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    words: Vec<String>,
    /// The configuration asks for it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    configured: bool,
}

impl Item {
    fn new(name: impl Into<String>, state: State, text: impl Into<String>) -> Self {
        Self { name: name.into(), state, text: text.into(), get: None, words: Vec::new(), configured: false }
    }

    /// It is there, or it is missing and this is how to get it.
    fn there(name: impl Into<String>, found: Result<String, String>, get: &str) -> Self {
        match found {
            Ok(text) => Self::new(name, State::Ok, text),
            Err(text) => Self { get: Some(get.to_owned()), ..Self::new(name, State::Missing, text) },
        }
    }

    fn word(mut self, word: impl Into<String>) -> Self {
        self.words.push(word.into());
        self
    }
}

/// What belongs together.
#[derive(Debug, Serialize)]
struct Section {
    name: &'static str,
    items: Vec<Item>,
}

/// Looks at everything, tells it, and says by the exit code whether what was asked for is there.
pub(crate) async fn doctor(settings: Settings, log: &str, ask: Ask) -> anyhow::Result<ExitCode> {
    let host = host(settings, log)?;
    let desk = Desk {
        session: host.session("doctor", Access::Full),
        plain: Direct::new("doctor"),
        host: Arc::clone(&host),
    };
    let sections = [
        isolation::look(&desk),
        places::look(&desk).await,
        engines::look(&desk).await,
        languages::look(&desk).await?,
        servers::look(),
        workspaces::look(&desk).await,
        features::look(&desk).await,
    ];
    check_words(&sections, &ask.require)?;
    let lacking = lacking(&sections, &ask.require);
    match ask.json {
        true => {
            let whole = json!({"version": env!("CARGO_PKG_VERSION"), "ok": lacking.is_empty(),
                               "lacking": lacking, "sections": sections});
            print(&format!("{}\n", serde_json::to_string_pretty(&whole)?));
        }
        false => print(&told(&sections, &lacking)),
    }
    drop(desk);
    host.shut_down().await;
    Ok(if lacking.is_empty() { ExitCode::SUCCESS } else { LACKING.into() })
}

/// A word that asks for nothing would never be missing.
fn check_words(sections: &[Section], required: &[String]) -> anyhow::Result<()> {
    let items = sections.iter().flat_map(|section| &section.items);
    let mut known: Vec<&str> = items.flat_map(|item| item.words.iter().map(String::as_str)).collect();
    known.sort_unstable();
    known.dedup();
    for word in required {
        if !known.contains(&word.as_str()) {
            let mean = did_you_mean(word, known.iter().copied());
            bail!("--require {word}: there is no such thing{mean} (known: {})", known.join(", "));
        }
    }
    Ok(())
}

/// What is missing of what the command line and the configuration ask for, with the way to get it.
fn lacking(sections: &[Section], required: &[String]) -> Vec<String> {
    let asked = |item: &Item| item.configured || item.words.iter().any(|word| required.contains(word));
    let items = sections.iter().flat_map(|section| &section.items);
    items
        .filter(|item| item.state == State::Missing && asked(item))
        .map(|item| {
            let get = item.get.as_ref().map(|get| format!("; {get}")).unwrap_or_default();
            format!("{}: {}{get}", item.name, item.text)
        })
        .collect()
}

fn told(sections: &[Section], lacking: &[String]) -> String {
    let mut text = String::new();
    for section in sections.iter().filter(|section| !section.items.is_empty()) {
        let _ = writeln!(text, "{}", section.name);
        let width = section.items.iter().map(|item| item.name.chars().count()).max().unwrap_or_default();
        for item in &section.items {
            let mark = match item.state {
                State::Ok => "ok",
                State::Missing => "--",
                State::Info => "  ",
            };
            let _ = writeln!(text, "  {mark} {:width$}  {}", item.name, item.text);
            if let Some(get) = &item.get {
                let _ = writeln!(text, "     {:width$}  get it: {get}", "");
            }
        }
    }
    for lack in lacking {
        let _ = writeln!(text, "missing: {lack}");
    }
    text
}

/// Runs a short command; the first line it prints, or why there is none.
async fn ask(sandbox: &dyn Sandbox, program: &str, args: &[&str]) -> Result<String, String> {
    let mut request = Request::new(program).args(args.iter().copied());
    request.timeout = PATIENCE;
    let response = sandbox.spawn(request).await;
    let line = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        let line = text.lines().map(str::trim).find(|line| !line.is_empty());
        line.map(|line| line.chars().take(160).collect::<String>())
    };
    match response.outcome {
        Outcome::Exited(0) => {
            Ok(line(&response.stdout).or_else(|| line(&response.stderr)).unwrap_or_default())
        }
        Outcome::NotFound { .. } => Err("not found".to_owned()),
        outcome => Err(line(&response.stderr).unwrap_or_else(|| outcome.to_string())),
    }
}
