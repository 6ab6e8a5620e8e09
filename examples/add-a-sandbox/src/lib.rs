//! Mode `niced`: commands that leave the processor to everybody else.
//!
//! What `docs/src/add-a-sandbox.md` leads to. A mode of one's own need not start from nothing: this one says how a
//! command is wrapped and leaves its life (timeouts, descendants, streams) to [`Direct`].

use futures_util::future::BoxFuture;
use sandbox::{
    EnvEntry, Factory, FactoryError, Outcome, Process, Request, Response, Sandbox, StartRequest,
    StreamingSandbox, direct::Direct, host_variables,
};
use serde_json::{Map, Value};
use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The name of the mode.
pub const MODE: &str = "niced";

/// Runs commands under `nice`.
pub struct Niced {
    inner: Direct,
    niceness: u8,
}

impl Niced {
    /// A sandbox whose commands have this niceness, 19 at most.
    #[must_use]
    pub fn new(name: &str, niceness: u8) -> Self {
        Self { inner: Direct::new(name), niceness: niceness.min(19) }
    }

    /// `nice -n N command args…`
    fn wrap(&self, command: String, args: Vec<String>) -> (String, Vec<String>) {
        let before = ["-n".to_owned(), self.niceness.to_string(), command];
        ("nice".to_owned(), before.into_iter().chain(args).collect())
    }

    /// `nice` would report a missing command as exit code 127, which a command can also return itself.
    fn look_for(command: &str, env: &[EnvEntry], cwd: Option<&Path>) -> Result<(), Outcome> {
        let missing = || Err(Outcome::NotFound { command: command.to_owned() });
        if command.contains('/') {
            let folder = cwd.map(PathBuf::from).unwrap_or_default();
            return if folder.join(command).exists() { Ok(()) } else { missing() };
        }
        let given = env.iter().rev().find_map(|entry| match entry {
            EnvEntry::Set(key, value) if key == "PATH" => Some(value.into()),
            _ => None,
        });
        let path = given.or_else(|| host_variables().remove(OsStr::new("PATH"))).unwrap_or_default();
        let found = std::env::split_paths(&path).any(|folder| folder.join(command).is_file());
        if found { Ok(()) } else { missing() }
    }
}

impl Sandbox for Niced {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn spawn(&self, request: Request) -> BoxFuture<'_, Response> {
        Box::pin(async move {
            // The inner sandbox knows what to do with it, and nobody wants to know whether there is such a command.
            if request.cancel.is_cancelled() {
                return self.inner.spawn(request).await;
            }
            if let Err(outcome) = Self::look_for(&request.command, &request.env, request.cwd.as_deref()) {
                return Response::nothing(outcome);
            }
            let Request { command, args, .. } = request.clone();
            let (command, args) = self.wrap(command, args);
            self.inner.spawn(Request { command, args, ..request }).await
        })
    }

    fn streaming(&self) -> Option<&dyn StreamingSandbox> {
        Some(self)
    }
}

impl StreamingSandbox for Niced {
    fn start(&self, request: StartRequest) -> BoxFuture<'_, Result<Process, Outcome>> {
        Box::pin(async move {
            Self::look_for(&request.command, &request.env, request.cwd.as_deref())?;
            let StartRequest { command, args, .. } = request.clone();
            let (command, args) = self.wrap(command, args);
            match self.inner.streaming() {
                Some(streaming) => streaming.start(StartRequest { command, args, ..request }).await,
                None => Err(Outcome::Refused { why: "live processes are not supported".to_owned() }),
            }
        })
    }
}

/// Builds [`Niced`] sandboxes from `{ mode: niced, niceness: 10 }`.
#[must_use]
pub fn factory() -> Arc<dyn Factory> {
    Arc::new(|name: &str, config: &Map<String, Value>| -> Result<Arc<dyn Sandbox>, FactoryError> {
        if let Some(key) = config.keys().find(|key| *key != "niceness") {
            return Err(FactoryError::UnknownKey { key: key.clone(), known: vec!["niceness".to_owned()] });
        }
        let niceness = match config.get("niceness") {
            None => 10,
            Some(value) => {
                value.as_u64().and_then(|n| u8::try_from(n).ok()).filter(|n| *n <= 19).ok_or_else(|| {
                    let why = format!("must be a number from 0 to 19, not {value}");
                    FactoryError::BadValue { key: "niceness".to_owned(), why }
                })?
            }
        };
        Ok(Arc::new(Niced::new(name, niceness)))
    })
}
