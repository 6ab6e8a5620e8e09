//! `stdio`: one client on standard input and output.

use super::host;
use crate::{mcp, reload, stop::Stop};
use config::Settings;
use std::{process::ExitCode, sync::Arc};
use tokio_util::sync::CancellationToken;

/// Serves one client until it leaves or we are told to stop.
pub(crate) async fn stdio(settings: Settings, log: &str) -> anyhow::Result<ExitCode> {
    let host = host(settings, log)?;
    let mut stop = Stop::listen()?;
    reload::on_hangup(&host)?;
    sandbox::release_code();
    let hang_up = CancellationToken::new();
    let mut serving = {
        let (host, hang_up) = (Arc::clone(&host), hang_up.clone());
        tokio::spawn(async move { mcp::stdio(&host, hang_up).await })
    };
    let left = tokio::select! {
        served = &mut serving => Some(served),
        () = stop.asked() => None,
    };
    stop.or_else_at_once();
    if left.is_none() {
        tracing::info!("stopping: no new calls; a second signal ends at once");
    }
    // The client is served on: calls that end in time are answered, and new ones are refused.
    host.shut_down().await;
    hang_up.cancel();
    let served = match left {
        Some(served) => served,
        None => serving.await,
    };
    served??;
    Ok(ExitCode::SUCCESS)
}
