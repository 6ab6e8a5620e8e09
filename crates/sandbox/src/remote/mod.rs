//! Mode `remote`: another server of this kind runs the command.
//!
//! Each call has a connection of its own, plain or by TLS: an HTTP/1.1 request that is upgraded to a stream of frames. So a broken
//! connection is the end of one call, and the next one connects anew. Both sides show a sign of life every
//! second; whoever hears none for five seconds takes the other for gone: the near side answers with
//! [`Outcome::Transport`], the far side ends the command and its descendants.

mod far;
mod frame;
mod http;
mod link;
mod near;
mod tls;
mod words;

pub use far::attend;

use crate::{
    Factory, FactoryError, Outcome, Process, Request, Response, Sandbox, StartRequest, StreamingSandbox,
    carried::Block, host_variables, local::DEFAULT_TIMEOUT,
};
use frame::Frame;
use futures_util::future::BoxFuture;
use http::Address;
use link::Link;
use serde_json::{Map, Value};
use std::{path::PathBuf, sync::Arc, time::Duration};
use tls::Tls;
use words::{End, Start, Way};

/// The name of the mode.
pub const MODE: &str = "remote";

/// The path of the far side's endpoint.
pub const PATH: &str = "/sandbox/v1/exec";

/// What the connection is upgraded to.
pub const PROTOCOL: &str = "codegen-sandbox-exec-1";

/// On which terms the far side runs commands.
#[derive(Debug, Clone)]
pub struct Terms {
    /// Where a command runs that does not say.
    pub cwd: PathBuf,
    /// How many bytes of stdin a collected call may have.
    pub stdin_bytes: usize,
}

/// How long a far side may take beyond the call's own timeout before it is taken for lost.
const GRACE: Duration = Duration::from_secs(20);

struct Remote {
    name: String,
    address: Address,
    tls: Option<Tls>,
    token_file: Option<PathBuf>,
    workdir: Option<PathBuf>,
}

impl Remote {
    /// A connection on which the far side was told what to run.
    async fn ask(&self, start: &Start) -> Result<Link, Outcome> {
        let failed = |why: String| Outcome::Transport { why: format!("{}: {why}", self.address) };
        let token = self.token().map_err(failed)?;
        let tls = self.tls.as_ref();
        let wire = http::connect(&self.address, tls, PATH, PROTOCOL, token.as_deref()).await;
        let link = Link::new(wire.map_err(failed)?);
        match link.say.send(Frame::Start(start.to_json())).await {
            Ok(()) => Ok(link),
            Err(_) => Err(near::gone(&self.address.to_string())),
        }
    }

    /// Read for each call, so that a new token needs no restart.
    fn token(&self) -> Result<Option<String>, String> {
        let Some(file) = &self.token_file else { return Ok(None) };
        let text = std::fs::read_to_string(file)
            .map_err(|error| format!("token_file {}: {error}", file.display()))?;
        let token = text.trim();
        if token.is_empty() || token.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(format!("token_file {} does not hold one token", file.display()));
        }
        Ok(Some(token.to_owned()))
    }

    async fn call(&self, request: Request) -> Response {
        if request.cancel.is_cancelled() {
            return Response::nothing(Outcome::Cancelled);
        }
        let timeout = if request.timeout.is_zero() { DEFAULT_TIMEOUT } else { request.timeout };
        let start = Start {
            command: request.command,
            args: request.args,
            env: words::environment(&request.env, &host_variables()),
            cwd: request.cwd.or_else(|| self.workdir.clone()),
            way: Way::Collected { timeout, capture_limit: request.capture_limit },
        };
        let place = self.address.to_string();
        let whole = async {
            match self.ask(&start).await {
                Ok(link) => near::collect(link, &request.stdin, &request.cancel, &place).await,
                Err(outcome) => Response::nothing(outcome),
            }
        };
        match tokio::time::timeout(timeout.saturating_add(GRACE), whole).await {
            Ok(response) => response,
            Err(_) => Response::nothing(Outcome::Transport { why: format!("{place}: no answer in time") }),
        }
    }

    async fn begin(&self, request: StartRequest) -> Result<Process, Outcome> {
        let start = Start {
            command: request.command,
            args: request.args,
            env: words::environment(&request.env, &host_variables()),
            cwd: request.cwd.or_else(|| self.workdir.clone()),
            way: Way::Live(request.stdio),
        };
        let mut link = self.ask(&start).await?;
        match link.heard.recv().await {
            Some(Frame::Started) => Ok(near::process(link, request.stdio, self.address.to_string())),
            Some(Frame::End(end)) => {
                Err(End::from_json(&end)
                    .map_or_else(|| near::gone(&self.address.to_string()), |end| end.outcome))
            }
            _ => Err(near::gone(&self.address.to_string())),
        }
    }
}

impl Sandbox for Remote {
    fn name(&self) -> &str {
        &self.name
    }

    fn spawn(&self, request: Request) -> BoxFuture<'_, Response> {
        Box::pin(self.call(request))
    }

    fn streaming(&self) -> Option<&dyn StreamingSandbox> {
        Some(self)
    }
}

impl StreamingSandbox for Remote {
    fn start(&self, request: StartRequest) -> BoxFuture<'_, Result<Process, Outcome>> {
        Box::pin(self.begin(request))
    }
}

const KEYS: [&str; 4] = ["url", "token_file", "ca_file", "workdir"];

/// Builds sandboxes of mode `remote`.
pub(crate) fn factory() -> Arc<dyn Factory> {
    Arc::new(|name: &str, config: &Map<String, Value>| -> Result<Arc<dyn Sandbox>, FactoryError> {
        let block = Block::new(config, &KEYS)?;
        let url = block.needed("url")?;
        let bad = |key: &str, why| FactoryError::BadValue { key: key.to_owned(), why };
        let address = Address::parse(&url).map_err(|why| bad("url", why))?;
        let ca_file = block.text("ca_file")?.map(PathBuf::from);
        let tls = match (address.encrypted, &ca_file) {
            (true, file) => {
                let key = if file.is_some() { "ca_file" } else { "url" };
                Some(Tls::new(file.as_deref()).map_err(|why| bad(key, why))?)
            }
            (false, None) => None,
            (false, Some(_)) => {
                return Err(bad(
                    "ca_file",
                    "it is for https:// only, and url begins with http://".to_owned(),
                ));
            }
        };
        Ok(Arc::new(Remote {
            name: name.to_owned(),
            address,
            tls,
            token_file: block.text("token_file")?.map(PathBuf::from),
            workdir: block.text("workdir")?.map(PathBuf::from),
        }))
    })
}
