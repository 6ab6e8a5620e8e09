//! One client on standard input and output.

use super::{Handler, conformance::Conformance, lines::Lines};
use rmcp::{ServiceExt, service::ServerInitializeError, transport::stdio_pipes};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tools::{Access, Host};

/// Serves the client until it closes its end or `hang_up`, which lets answers leave that are ready.
///
/// # Errors
/// The client spoke, but not MCP.
pub(crate) async fn stdio(host: &Arc<Host>, hang_up: CancellationToken) -> anyhow::Result<()> {
    let session = host.session("stdio", Access::Full);
    let handler = Handler::new(host, None).of(Arc::clone(&session));
    let lines = Lines::new(stdio_pipes(), host.settings.limits.body_bytes);
    if host.settings.conformance {
        wait(Conformance::new(handler).serve_with_ct(lines, hang_up).await).await
    } else {
        wait(handler.serve_with_ct(lines, hang_up).await).await
    }
}

async fn wait<S: rmcp::Service<rmcp::RoleServer>>(
    serving: Result<rmcp::service::RunningService<rmcp::RoleServer, S>, ServerInitializeError>,
) -> anyhow::Result<()> {
    match serving {
        Ok(serving) => {
            serving.waiting().await?;
            Ok(())
        }
        // A client that leaves, or that we leave, before it said anything is not a failure.
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
