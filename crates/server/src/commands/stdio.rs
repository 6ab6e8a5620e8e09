//! `stdio`: one client on standard input and output.

use super::host;
use crate::{mcp, reload, stop::Stop};
use config::Settings;
use std::process::ExitCode;

/// Serves one client until it leaves or we are told to stop.
pub(crate) async fn stdio(settings: Settings, log: &str) -> anyhow::Result<ExitCode> {
    let host = host(settings, log)?;
    let mut stop = Stop::listen()?;
    reload::on_hangup(&host)?;
    sandbox::release_code();
    let served = tokio::select! {
        served = mcp::stdio(&host) => served,
        () = stop.asked() => Ok(()),
    };
    stop.or_else_at_once();
    host.shut_down().await;
    served.map(|()| ExitCode::SUCCESS)
}
