//! Flags, environment and configuration file become [`Settings`], once.
//!
//! Domain code sees only the result: no clap, no YAML, no `std::env`.

mod error;
mod file;
mod flags;
mod hook;
mod listen;
mod settings;
pub mod units;

pub use error::ConfigError;
pub use file::{FileError, Place, Places, RuntimeConfig, SandboxSpec, json_schema, similar};
pub use flags::{Flags, resolve};
pub use hook::{HookKind, HookMode, HookSpec, Phase};
pub use listen::{Listen, ServeFlags, Token};
pub use settings::{Durability, Limits, NamedRoot, Secret, Settings, ToolFilter};
