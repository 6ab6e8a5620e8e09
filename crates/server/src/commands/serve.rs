//! `serve`: any number of clients over HTTP.

use super::{host, print};
use crate::{
    found,
    http::{self, Gate},
    mcp, place, reload,
    stop::Stop,
};
use anyhow::Context;
use config::{Listen, Settings};
use std::{fmt::Write, net::SocketAddr, process::ExitCode, sync::Arc, time::Duration};
use tokio::net::TcpListener;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tools::Host;

/// Answers that are ready when the last call ends need this long to leave.
const LAST_ANSWERS: Duration = Duration::from_millis(200);

/// Commands of other servers need this long to end.
const LAST_COMMANDS: Duration = Duration::from_secs(5);

/// Serves until told to stop; then refuses calls, lets short ones end, and ends.
pub(crate) async fn serve(settings: Settings, listen: Listen, log: &str) -> anyhow::Result<ExitCode> {
    let host = host(settings, log)?;
    let listener = TcpListener::bind(listen.addr).await.with_context(|| {
        format!("cannot listen on {}: pass another address with --addr HOST:PORT", listen.addr)
    })?;
    let mut stop = Stop::listen()?;
    reload::on_hangup(&host)?;
    print(&banner(&host, &listen, listener.local_addr()?));
    let limits = host.settings.limits.clone();
    let gate = Gate::new(&listen, &limits);
    let mcp = mcp::http(&host, Arc::clone(&gate));
    let (mut routes, commands) = (mcp.routes, TaskTracker::new());
    if listen.remote_exec {
        routes = routes.merge(http::exec_routes(&host, gate, mcp.hang_up.clone(), commands.clone()));
    }
    let last_connection = CancellationToken::new();
    let serving = {
        let last_connection = last_connection.clone();
        tokio::spawn(async move { http::serve(listener, routes, &limits, last_connection).await })
    };
    sandbox::release_code();
    stop.asked().await;
    tracing::info!("stopping: no new calls; a second signal ends at once");
    stop.or_else_at_once();
    host.shut_down().await;
    last_connection.cancel();
    tokio::time::sleep(LAST_ANSWERS).await;
    mcp.hang_up.cancel();
    serving.await?;
    commands.close();
    if tokio::time::timeout(LAST_COMMANDS, commands.wait()).await.is_err() {
        tracing::warn!("commands of other servers have not ended after {LAST_COMMANDS:?}");
    }
    Ok(ExitCode::SUCCESS)
}

/// What a person needs to know at the start, and what to paste into a client.
fn banner(host: &Host, listen: &Listen, addr: SocketAddr) -> String {
    let mut text = format!("codegen-sandbox {}\n", env!("CARGO_PKG_VERSION"));
    for workspace in &host.settings.workspaces {
        let languages = found::languages_in(&workspace.root);
        let languages =
            if languages.is_empty() { "no language found".to_owned() } else { languages.join(", ") };
        let _ = writeln!(text, "  workspace  {} {} ({languages})", workspace.name, workspace.root.display());
    }
    let registered = host.tools();
    let tools: Vec<&str> = registered.names().collect();
    let _ = writeln!(text, "  tools      {}: {}", tools.len(), tools.join(", "));
    let in_force = place::in_force(&host.settings, place::probe(&host.settings));
    let _ = writeln!(text, "  isolation  {}", in_force.text);
    if let Some((held, lacking)) = in_force.guarantees() {
        let _ = writeln!(text, "  holds      {}", held.join(", "));
        if !lacking.is_empty() {
            let why = "`codegen-sandbox doctor` says why";
            let _ = writeln!(text, "  lacks      {} ({why})", lacking.join(", "));
        }
    }
    let _ = writeln!(text, "  access     {}", access(listen));
    if listen.remote_exec {
        let _ =
            writeln!(text, "  remote     runs commands for other servers that have this one as a sandbox");
    }
    let _ = writeln!(text, "  address    http://{addr}/mcp (older clients: http://{addr}/sse)");
    let _ =
        writeln!(text, "\nClaude Code:\n  {}\nOther clients:\n{}", claude(listen, addr), entry(listen, addr));
    text
}

fn access(listen: &Listen) -> String {
    if listen.tokens.is_empty() {
        return if listen.addr.ip().is_loopback() {
            "whoever is on this machine"
        } else {
            "ANYBODY who reaches the port"
        }
        .to_owned();
    }
    let names: Vec<String> = listen
        .tokens
        .iter()
        .map(|token| format!("{}{}", token.name, if token.readonly { " (read-only)" } else { "" }))
        .collect();
    format!("bearer tokens of {}", names.join(", "))
}

fn claude(listen: &Listen, addr: SocketAddr) -> String {
    let header = if listen.tokens.is_empty() { "" } else { " --header \"Authorization: Bearer $TOKEN\"" };
    format!("claude mcp add --transport http codegen-sandbox http://{addr}/mcp{header}")
}

fn entry(listen: &Listen, addr: SocketAddr) -> String {
    let headers = if listen.tokens.is_empty() {
        ""
    } else {
        ", \"headers\": { \"Authorization\": \"Bearer <token>\" }"
    };
    format!(
        "  {{ \"mcpServers\": {{ \"codegen-sandbox\": {{ \"type\": \"http\", \"url\": \"http://{addr}/mcp\"{headers} }} }} }}"
    )
}
