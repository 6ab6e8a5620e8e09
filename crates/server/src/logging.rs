//! Logs go to stderr, without secrets. Never to stdout: that is the protocol's.

use anyhow::Context;
use scrub::Scrubber;
use std::{
    io::{self, Write},
    sync::Arc,
};
use tools::Host;
use tracing_subscriber::{
    Layer,
    filter::{FilterExt, LevelFilter, Targets, filter_fn},
    fmt,
    layer::SubscriberExt,
    util::SubscriberInitExt,
};

/// The target of what an auditor wants to see.
const AUDIT: &str = "audit";

/// Starts logging at `level`: one level for our own crates, or levels by module.
///
/// # Errors
/// `level` is neither.
pub(crate) fn start(level: &str, host: &Arc<Host>) -> anyhow::Result<()> {
    let bad =
        || format!("--log {level}: write a level (error, warn, info, debug, trace, off) or module=level,…");
    // A bare level speaks of us: the SDK's own chatter starts one level lower.
    let filter = match level.contains('=') {
        true => level.parse().with_context(bad)?,
        false => Targets::new()
            .with_default(level.parse::<LevelFilter>().with_context(bad)?)
            .with_targets([("rmcp", LevelFilter::WARN), ("hyper", LevelFilter::WARN)]),
    };
    let (ours, audited) = (Arc::clone(host), Arc::clone(host));
    let text = fmt::layer()
        .with_writer(move || Scrubbed(ours.scrubber()))
        .with_ansi(false)
        .with_target(false)
        .with_filter(filter.clone().and(filter_fn(|about| about.target() != AUDIT)));
    // For programs: one JSON object a line.
    let audit = fmt::layer()
        .json()
        .flatten_event(true)
        .with_level(false)
        .with_current_span(false)
        .with_span_list(false)
        .with_writer(move || Audited(audited.scrubber()))
        .with_filter(filter.and(filter_fn(|about| about.target() == AUDIT)));
    tracing_subscriber::registry().with(text).with(audit).init();
    std::panic::set_hook(Box::new(|panic| tracing::error!("{panic}")));
    Ok(())
}

struct Scrubbed(Arc<Scrubber>);

impl Write for Scrubbed {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        io::stderr().write_all(self.0.scrub(&text).as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// Like [`Scrubbed`], and what is left is still JSON.
struct Audited(Arc<Scrubber>);

impl Write for Audited {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut event: serde_json::Value = serde_json::from_slice(line)?;
        self.0.scrub_json(&mut event);
        io::stderr().write_all(format!("{event}\n").as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
