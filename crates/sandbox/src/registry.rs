//! Mode names to factories: process-wide, or one that a caller makes and passes on.

use crate::Sandbox;
use serde_json::{Map, Value};
use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock, PoisonError, RwLock},
};

/// Builds a [`Sandbox`] from a name and a mode-specific configuration block.
pub trait Factory: Send + Sync {
    /// Builds it.
    ///
    /// # Errors
    /// An unknown key, a missing one, or a value that cannot be used.
    fn build(&self, name: &str, config: &Map<String, Value>) -> Result<Arc<dyn Sandbox>, FactoryError>;
}

impl<F> Factory for F
where
    F: Fn(&str, &Map<String, Value>) -> Result<Arc<dyn Sandbox>, FactoryError> + Send + Sync,
{
    fn build(&self, name: &str, config: &Map<String, Value>) -> Result<Arc<dyn Sandbox>, FactoryError> {
        self(name, config)
    }
}

/// Why a factory built nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FactoryError {
    /// A key this mode does not have.
    #[error("unknown key \"{key}\"; known: {}", if known.is_empty() { "none".to_owned() } else { known.join(", ") })]
    UnknownKey {
        /// The offending key.
        key: String,
        /// What the mode takes, sorted.
        known: Vec<String>,
    },
    /// A key this mode cannot do without.
    #[error("missing key \"{0}\"")]
    MissingKey(String),
    /// A value that cannot be used.
    #[error("{key}: {why}")]
    BadValue {
        /// Where it stands.
        key: String,
        /// What is wrong with it.
        why: String,
    },
    /// The host cannot give what was asked for.
    #[error("{0}")]
    Unavailable(String),
}

/// Why a registry refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// A mode must have a name.
    #[error("sandbox mode must not be empty")]
    EmptyMode,
    /// The name is taken; `replace` overwrites.
    #[error("sandbox mode \"{0}\" is already registered")]
    Duplicate(String),
    /// Nobody registered it.
    #[error("unknown sandbox mode \"{mode}\"; known: {}", known.join(", "))]
    Unknown {
        /// What was asked for.
        mode: String,
        /// What there is, sorted.
        known: Vec<String>,
    },
}

/// Maps mode names to factories. Cheap to share, safe under concurrency.
#[derive(Default)]
pub struct Registry {
    factories: RwLock<BTreeMap<String, Arc<dyn Factory>>>,
}

impl Registry {
    /// An empty registry.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A registry that knows the modes this crate ships.
    #[must_use]
    pub fn with_shipped_modes() -> Self {
        let modes = [
            (crate::direct::MODE, crate::direct::factory()),
            (crate::isolated::MODE, crate::isolated::factory_for_current_directory()),
            ("docker_exec", crate::carried::exec_factory()),
            ("docker_run", crate::carried::run_factory()),
            ("kubectl_exec", crate::carried::kubectl_factory()),
            (crate::remote::MODE, crate::remote::factory()),
        ];
        Self { factories: RwLock::new(modes.map(|(mode, factory)| (mode.to_owned(), factory)).into()) }
    }

    /// The modes there are, sorted.
    #[must_use]
    pub fn modes(&self) -> Vec<String> {
        self.factories.read().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    /// Adds a factory.
    ///
    /// # Errors
    /// The mode is empty or taken.
    pub fn register(&self, mode: &str, factory: Arc<dyn Factory>) -> Result<(), RegistryError> {
        if mode.is_empty() {
            return Err(RegistryError::EmptyMode);
        }
        let mut factories = self.factories.write().unwrap_or_else(PoisonError::into_inner);
        if factories.contains_key(mode) {
            return Err(RegistryError::Duplicate(mode.to_owned()));
        }
        factories.insert(mode.to_owned(), factory);
        Ok(())
    }

    /// Adds a factory, or puts it in the place of the one that was there.
    ///
    /// # Errors
    /// The mode is empty.
    pub fn replace(&self, mode: &str, factory: Arc<dyn Factory>) -> Result<(), RegistryError> {
        if mode.is_empty() {
            return Err(RegistryError::EmptyMode);
        }
        self.factories.write().unwrap_or_else(PoisonError::into_inner).insert(mode.to_owned(), factory);
        Ok(())
    }

    /// Finds a factory.
    ///
    /// # Errors
    /// The mode is unknown; the error lists the known ones.
    pub fn lookup(&self, mode: &str) -> Result<Arc<dyn Factory>, RegistryError> {
        let factories = self.factories.read().unwrap_or_else(PoisonError::into_inner);
        factories.get(mode).cloned().ok_or_else(|| RegistryError::Unknown {
            mode: mode.to_owned(),
            known: factories.keys().cloned().collect(),
        })
    }
}

static GLOBAL: LazyLock<Registry> = LazyLock::new(Registry::with_shipped_modes);

/// The process-wide registry. It knows the modes of [`Registry::with_shipped_modes`] from the start.
#[must_use]
pub fn global_registry() -> &'static Registry {
    &GLOBAL
}

/// [`Registry::register`] on the process-wide registry.
///
/// # Errors
/// The mode is empty or taken.
pub fn register_factory(mode: &str, factory: Arc<dyn Factory>) -> Result<(), RegistryError> {
    GLOBAL.register(mode, factory)
}

/// [`Registry::replace`] on the process-wide registry.
///
/// # Errors
/// The mode is empty.
pub fn replace_factory(mode: &str, factory: Arc<dyn Factory>) -> Result<(), RegistryError> {
    GLOBAL.replace(mode, factory)
}

/// [`Registry::lookup`] on the process-wide registry.
///
/// # Errors
/// The mode is unknown.
pub fn lookup_factory(mode: &str) -> Result<Arc<dyn Factory>, RegistryError> {
    GLOBAL.lookup(mode)
}
