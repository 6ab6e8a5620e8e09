//! What an operator may change while sessions go on: where things run, and who is asked.

use crate::hooks::{Hook, Hooks};
use config::HookSpec;
use sandbox::Sandbox;
use std::{collections::BTreeMap, sync::Arc};

/// Where commands run and which hooks look on. Replaced as a whole when the configuration is read again;
/// a call keeps the one it began with.
pub struct Runtime {
    default: Arc<dyn Sandbox>,
    languages: BTreeMap<String, Arc<dyn Sandbox>>,
    pub(crate) hooks: Hooks,
}

impl Runtime {
    /// Everything runs in `default`, and nobody looks on.
    #[must_use]
    pub fn new(default: Arc<dyn Sandbox>) -> Self {
        Self { default, languages: BTreeMap::new(), hooks: Hooks::default() }
    }

    /// The programs of a language run in a sandbox of their own.
    #[must_use]
    pub fn with_language(mut self, language: impl Into<String>, sandbox: Arc<dyn Sandbox>) -> Self {
        self.languages.insert(language.into(), sandbox);
        self
    }

    /// A further hook, which runs in `sandbox`. Hooks run in the order in which they are added.
    #[must_use]
    pub fn with_hook(mut self, spec: HookSpec, sandbox: Arc<dyn Sandbox>) -> Self {
        self.hooks.add(Hook { spec, sandbox });
        self
    }

    /// Where Bash and everything else runs.
    #[must_use]
    pub fn sandbox(&self) -> &Arc<dyn Sandbox> {
        &self.default
    }

    /// Where the programs of a language run.
    #[must_use]
    pub fn sandbox_for(&self, language: &str) -> &Arc<dyn Sandbox> {
        self.languages.get(language).unwrap_or(&self.default)
    }

    /// Releases what the sandboxes hold. Closing one twice, because it has two names, is harmless.
    pub async fn close(&self) {
        let hooks = self.hooks.sandboxes();
        for sandbox in std::iter::once(&self.default).chain(self.languages.values()).chain(hooks) {
            if let Some(closer) = sandbox.closer()
                && let Err(why) = closer.close().await
            {
                tracing::warn!(sandbox = sandbox.name(), "closing a sandbox: {why}");
            }
        }
    }
}
