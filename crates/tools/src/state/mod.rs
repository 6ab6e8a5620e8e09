//! Secrets and pictures.

mod secrets;

pub(crate) use secrets::{SecretValue, SecretsAvailable};
