//! Flags, environment and configuration file become [`Settings`], once.
//!
//! Domain code sees only the result: no clap, no YAML, no `std::env`.

mod error;
mod flags;
mod listen;
mod settings;
pub mod units;

pub use error::ConfigError;
pub use flags::{Flags, resolve};
pub use listen::{Listen, ServeFlags, Token};
pub use settings::{Durability, Limits, NamedRoot, Secret, Settings, ToolFilter};
