//! Flags, environment and configuration file become [`Settings`], once.
//!
//! Domain code sees only the result: no clap, no YAML, no `std::env`.

mod error;
mod file;
mod flags;
mod hook;
mod listen;
mod secrets;
mod settings;
pub mod units;

pub use error::ConfigError;
pub use file::{FileError, NO_VALUE, Place, Places, RuntimeConfig, SandboxSpec, did_you_mean, json_schema};
pub use flags::{Flags, read_again, resolve};
pub use hook::{HookKind, HookMode, HookSpec, Phase, tool_matches};
pub use listen::{Listen, ServeFlags, Token};
pub use secrets::{SecretFile, is_secret_name, misnamed_secrets, read_secrets, secrets_stamp};
pub use settings::{Fixed, Limits, NamedRoot, Secret, Settings, ToolFilter, Undo};
