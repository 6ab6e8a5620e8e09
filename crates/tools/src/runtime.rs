//! What an operator may change while sessions go on: where things run, and who is asked.

use crate::{
    Place,
    hooks::{Hook, Hooks},
    shell::Denylist,
};
use config::HookSpec;
use sandbox::Sandbox;
use std::{collections::BTreeMap, sync::Arc};

/// Where commands run and which hooks look on. Replaced as a whole when the configuration is read again;
/// a call keeps the one it began with.
pub struct Runtime {
    default: Place,
    languages: BTreeMap<String, Place>,
    pub(crate) hooks: Hooks,
    /// Commands that are refused.
    pub(crate) denylist: Denylist,
    /// What is closed with this.
    owned: Vec<Arc<dyn Sandbox>>,
}

impl Runtime {
    /// Everything runs in `default`, and nobody looks on.
    #[must_use]
    pub fn new(default: impl Into<Place>) -> Self {
        Self {
            default: default.into(),
            languages: BTreeMap::new(),
            hooks: Hooks::default(),
            denylist: Denylist::default(),
            owned: Vec::new(),
        }
    }

    /// These sandboxes are closed with this runtime; every other one is its maker's to close.
    #[must_use]
    pub fn owning(mut self, sandboxes: impl IntoIterator<Item = Arc<dyn Sandbox>>) -> Self {
        self.owned.extend(sandboxes);
        self
    }

    /// The programs of a language run in a place of their own.
    #[must_use]
    pub fn with_language(mut self, language: impl Into<String>, place: impl Into<Place>) -> Self {
        self.languages.insert(language.into(), place.into());
        self
    }

    /// Refuses these commands instead of the usual ones; `None`: the usual ones.
    #[must_use]
    pub fn with_denylist(mut self, commands: Option<Vec<String>>) -> Self {
        self.denylist = commands.map_or_else(Denylist::default, Denylist::new);
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
    pub fn place(&self) -> &Place {
        &self.default
    }

    /// Where the programs of a language run.
    #[must_use]
    pub fn sandbox_for(&self, language: &str) -> &Place {
        self.languages.get(language).unwrap_or(&self.default)
    }

    /// Every sandbox with what it is used for: for reports.
    #[must_use]
    pub fn named(&self) -> Vec<(String, Arc<dyn Sandbox>)> {
        let default = [("default_sandbox".to_owned(), Arc::clone(&self.default.sandbox))];
        let languages =
            self.languages.iter().map(|(language, place)| (language.clone(), Arc::clone(&place.sandbox)));
        default.into_iter().chain(languages).collect()
    }

    /// Every hook by name, with its command and where that runs: for reports.
    #[must_use]
    pub fn hook_commands(&self) -> Vec<(String, String, Arc<dyn Sandbox>)> {
        self.hooks.commands().collect()
    }

    /// Releases what the sandboxes hold that it owns.
    pub async fn close(&self) {
        self.close_but(None).await;
    }

    /// The same but for those that `successor` owns as well.
    pub async fn close_but(&self, successor: Option<&Self>) {
        let kept = |sandbox: &Arc<dyn Sandbox>| {
            successor.is_some_and(|next| next.owned.iter().any(|other| Arc::ptr_eq(other, sandbox)))
        };
        for sandbox in self.owned.iter().filter(|sandbox| !kept(sandbox)) {
            if let Some(closer) = sandbox.closer()
                && let Err(why) = closer.close().await
            {
                tracing::warn!(sandbox = sandbox.name(), "closing a sandbox: {why}");
            }
        }
    }
}
