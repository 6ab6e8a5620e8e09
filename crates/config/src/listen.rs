//! Where a server listens and who may come in.

use crate::{ConfigError, Secret, units};
use std::{
    collections::BTreeSet,
    fmt, fs,
    net::{SocketAddr, ToSocketAddrs},
    path::{Path, PathBuf},
    time::Duration,
};

/// A token shorter than this can be guessed.
const SHORTEST_TOKEN: usize = 16;

/// Flags of `serve` alone.
#[derive(Debug, Clone, clap::Args)]
pub struct ServeFlags {
    /// Where to listen; a port of 0 takes a free one
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8080")]
    pub addr: String,

    /// File of bearer tokens, a line each: `name:token` or `name:token:readonly`
    #[arg(long, value_name = "FILE", conflicts_with = "insecure_no_auth")]
    pub auth_token_file: Option<PathBuf>,

    /// Listen beyond loopback without tokens: whoever reaches the port owns the workspace
    #[arg(long)]
    pub insecure_no_auth: bool,

    /// Run commands for other servers that have this one as a sandbox of mode `remote`; needs tokens
    #[arg(long, requires = "auth_token_file")]
    pub allow_remote_exec: bool,

    /// Names accepted in the Host header besides localhost and IP addresses
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub allow_host: Vec<String>,

    /// Browser origins accepted besides loopback and the server's own
    #[arg(long, value_name = "ORIGIN,…", value_delimiter = ',')]
    pub allow_origin: Vec<String>,

    /// Sessions at once [default: 256]
    #[arg(long, value_name = "N", value_parser = at_least_one, help_heading = "Limits")]
    pub max_sessions: Option<usize>,

    /// Connections at once [default: 1024]
    #[arg(long, value_name = "N", value_parser = at_least_one, help_heading = "Limits")]
    pub max_connections: Option<usize>,

    /// A request's body must have arrived within this time [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = units::duration, help_heading = "Limits")]
    pub body_time: Option<Duration>,

    /// A connection that sends no request head, or takes nothing of its answer, for this long is closed [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = units::duration, help_heading = "Limits")]
    pub connection_idle: Option<Duration>,

    /// A session that nobody uses for this long is closed [default: 1h]
    #[arg(long, value_name = "TIME", value_parser = units::duration, help_heading = "Limits")]
    pub session_idle: Option<Duration>,
}

pub(crate) fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|n| *n > 0).ok_or_else(|| "must be a whole number above 0".to_owned())
}

/// One bearer token.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// Names its holder in logs and audit lines.
    pub name: String,
    /// What the client sends.
    pub value: String,
    /// Its holder may only call tools that change nothing.
    pub readonly: bool,
}

impl Token {
    /// Its value as something that must never leave.
    #[must_use]
    pub fn secret(&self) -> Secret {
        Secret { name: format!("auth-token-{}", self.name), value: self.value.clone() }
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({}{})", self.name, if self.readonly { ", readonly" } else { "" })
    }
}

/// Where a server listens and whom it lets in.
#[derive(Debug, Clone)]
pub struct Listen {
    /// The address to bind.
    pub addr: SocketAddr,
    /// Whoever presents one of these may come in; empty means everybody.
    pub tokens: Vec<Token>,
    /// Whether commands of other servers are run.
    pub remote_exec: bool,
    /// Names accepted in the Host header besides localhost and IP addresses, in lower case.
    pub hosts: Vec<String>,
    /// Browser origins accepted besides loopback and the server's own, in lower case.
    pub origins: Vec<String>,
}

impl Listen {
    /// Decides from the flags of `serve`.
    ///
    /// # Errors
    /// An address that cannot be used or is not safe, or a token file that cannot be read.
    pub fn resolve(flags: &ServeFlags) -> Result<Self, ConfigError> {
        let tokens = flags.auth_token_file.as_deref().map(read_tokens).transpose()?.unwrap_or_default();
        let addr = address(&flags.addr)?;
        if !addr.ip().is_loopback() && tokens.is_empty() && !flags.insecure_no_auth {
            return Err(ConfigError::OpenAddress { addr });
        }
        let lower = |list: &[String]| list.iter().map(|name| name.trim().to_lowercase()).collect();
        Ok(Self {
            addr,
            tokens,
            remote_exec: flags.allow_remote_exec,
            hosts: lower(&flags.allow_host),
            origins: lower(&flags.allow_origin),
        })
    }
}

fn address(text: &str) -> Result<SocketAddr, ConfigError> {
    let bad = |why: String| ConfigError::Address { addr: text.to_owned(), why };
    let found: Vec<SocketAddr> = text.to_socket_addrs().map_err(|error| bad(error.to_string()))?.collect();
    // A name that means several addresses is only as safe as the widest of them.
    let widest = found.iter().find(|addr| !addr.ip().is_loopback()).or_else(|| found.first());
    widest.copied().ok_or_else(|| bad("it names no address".to_owned()))
}

fn read_tokens(file: &Path) -> Result<Vec<Token>, ConfigError> {
    let bad = |why: String| ConfigError::Tokens { file: file.to_owned(), why };
    let text = fs::read_to_string(file).map_err(|error| bad(error.to_string()))?;
    let mut names = BTreeSet::new();
    let mut tokens = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let at = |why: &str| bad(format!("line {}: {why}", number + 1));
        let token = token(line).map_err(|why| at(&why))?;
        if !names.insert(token.name.clone()) {
            return Err(at(&format!("\"{}\" is named twice", token.name)));
        }
        tokens.push(token);
    }
    if tokens.is_empty() { Err(bad("it holds no token".to_owned())) } else { Ok(tokens) }
}

fn token(line: &str) -> Result<Token, String> {
    let mut parts = line.splitn(3, ':');
    let (name, value) = match (parts.next(), parts.next()) {
        (Some(name), Some(value)) if !name.is_empty() => (name, value),
        _ => return Err("it is not name:token or name:token:readonly".to_owned()),
    };
    let readonly = match parts.next() {
        None => false,
        Some("readonly") => true,
        Some(other) => return Err(format!("unknown scope \"{other}\" of \"{name}\"; known: readonly")),
    };
    if value.len() < SHORTEST_TOKEN || !value.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(format!(
            "the token of \"{name}\" must be at least {SHORTEST_TOKEN} printable characters; \
             make one with: openssl rand -hex 32"
        ));
    }
    Ok(Token { name: name.to_owned(), value: value.to_owned(), readonly })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(args: &[&str]) -> ServeFlags {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            serve: ServeFlags,
        }
        <Line as clap::Parser>::try_parse_from(std::iter::once("serve").chain(args.iter().copied()))
            .unwrap()
            .serve
    }

    #[test]
    fn an_open_address_needs_tokens_or_the_word_insecure() {
        let refused = Listen::resolve(&flags(&["--addr", "0.0.0.0:80"])).unwrap_err().to_string();
        assert!(refused.contains("--auth-token-file") && refused.contains("--insecure-no-auth"), "{refused}");
        assert!(Listen::resolve(&flags(&["--addr", "0.0.0.0:80", "--insecure-no-auth"])).is_ok());
        assert!(Listen::resolve(&flags(&["--addr", "localhost:80"])).unwrap().addr.ip().is_loopback());
        assert!(Listen::resolve(&flags(&["--addr", "nowhere"])).is_err());
    }

    #[test]
    fn token_lines_have_a_name_and_perhaps_a_scope() {
        let read = token("ci:0123456789abcdef:readonly").unwrap();
        assert_eq!((read.name.as_str(), read.readonly), ("ci", true));
        assert_eq!(format!("{read:?}"), "Token(ci, readonly)");
        assert!(token("0123456789abcdef").unwrap_err().contains("name:token"));
        assert!(token("ci:short").unwrap_err().contains("openssl rand"));
        assert!(token("ci:0123456789abcdef:admin").unwrap_err().contains("unknown scope"));
    }
}
