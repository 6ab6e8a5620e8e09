//! `call`: tools from a terminal or a script, through the same pipeline as any client's.

use super::{host, print};
use crate::{arguments, stop::Stop};
use config::Settings;
use serde_json::json;
use std::{
    io::{IsTerminal, Write},
    process::ExitCode,
};
use tokio_util::sync::CancellationToken;
use tools::{Access, Content, Progress, Reply};

/// What separates calls that share a session.
const THEN: &str = "--then";

const FAILED: u8 = 1;
const USAGE: u8 = 2;

/// How results are printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// The text a model would see.
    #[default]
    Text,
    /// A JSON object a call: `content`, `structured`, `is_error`.
    Json,
}

/// Makes the calls of one line in one session; the first failure ends it.
pub(crate) async fn call(
    settings: Settings,
    log: &str,
    line: Vec<String>,
    format: Format,
) -> anyhow::Result<ExitCode> {
    let host = host(settings, log)?;
    let mut calls = Vec::new();
    for words in line.split(|word| word == THEN) {
        let parsed = arguments::parse(&host.tools(), words).and_then(|parsed| match parsed {
            arguments::Parsed::Call { tool, arguments } => {
                let fits = host.check(&tool, arguments.clone());
                let call = arguments::Parsed::Call { tool, arguments };
                fits.map(|()| call).map_err(|why| why.to_string())
            }
            help => Ok(help),
        });
        match parsed {
            Ok(arguments::Parsed::Call { tool, arguments }) => calls.push((tool, arguments)),
            Ok(arguments::Parsed::Help(text)) => {
                print(&text);
                host.shut_down().await;
                return Ok(ExitCode::SUCCESS);
            }
            Err(why) => {
                let _ = writeln!(std::io::stderr(), "{why}");
                host.shut_down().await;
                return Ok(USAGE.into());
            }
        }
    }
    let session = host.session("call", Access::Full);
    let mut code = ExitCode::SUCCESS;
    for (tool, arguments) in calls {
        let cancel = CancellationToken::new();
        let mut stop = Stop::listen()?;
        let work = session.call(&tool, arguments, cancel.clone(), progress());
        let mut work = std::pin::pin!(work);
        let reply = tokio::select! {
            reply = &mut work => reply,
            () = stop.asked() => {
                cancel.cancel();
                stop.or_else_at_once();
                work.await
            }
        };
        show(&reply, format);
        if reply.is_error {
            code = FAILED.into();
            break;
        }
    }
    drop(session);
    host.shut_down().await;
    Ok(code)
}

/// A person sees progress; a script does not.
fn progress() -> Progress {
    if !std::io::stderr().is_terminal() {
        return Progress::default();
    }
    Progress::to(|update| {
        let _ = writeln!(std::io::stderr(), "… {}", update.message);
    })
}

fn show(reply: &Reply, format: Format) {
    if format == Format::Json {
        let content: Vec<_> = reply
            .content
            .iter()
            .map(|content| match content {
                Content::Text(text) => json!({"type": "text", "text": text}),
                Content::Image { data, mime } => json!({"type": "image", "mime": mime, "bytes": data.len()}),
            })
            .collect();
        let whole = json!({"content": content, "structured": reply.structured, "is_error": reply.is_error});
        print(&format!("{whole}\n"));
        return;
    }
    let mut text = reply.all_text();
    for content in &reply.content {
        if let Content::Image { data, mime } = content {
            text.push_str(&format!("[{mime}, {} bytes]", data.len()));
        }
    }
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    if reply.is_error {
        let _ = std::io::stderr().write_all(text.as_bytes());
    } else {
        print(&text);
    }
}
