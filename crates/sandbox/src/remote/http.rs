//! As much of HTTP/1.1 as it takes to ask for an upgrade.
//!
//! Written by hand because that is one request and one head of a response: a client library would bring dozens
//! of crates into the crate that starts processes, and would still have to be taken apart for the upgrade.

use super::tls::Tls;
use std::{fmt, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

/// How long the far side may take to answer at all.
const PATIENCE: Duration = Duration::from_secs(5);

/// A response's head, or what is shown of an error's body, is not longer.
const LONGEST: usize = 16 << 10;

/// A connection, whatever it goes through.
pub(super) trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

/// Where the far side is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    /// Whether the connection is to be encrypted.
    pub(super) encrypted: bool,
    /// `host:port`, as in the Host header.
    authority: String,
    /// What the path begins with, without a slash at its end.
    base: String,
}

impl Address {
    pub(super) fn parse(url: &str) -> Result<Self, String> {
        let Some((scheme, rest)) = url.split_once("://") else {
            return Err(format!("\"{url}\" is no URL; write https://HOST:PORT or http://HOST:PORT"));
        };
        let encrypted = match scheme {
            "http" => false,
            "https" => true,
            other => {
                return Err(format!("scheme \"{other}\" is not supported; write https:// or http://"));
            }
        };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let odd = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '@' | '?' | '#');
        if authority.is_empty() || rest.contains(odd) {
            return Err(format!("\"{url}\" is not of the form {scheme}://HOST:PORT[/PATH]"));
        }
        let port = authority.rsplit_once(':').map(|(_, port)| port).filter(|port| !port.ends_with(']'));
        if port.is_some_and(|port| port.parse::<u16>().is_err()) {
            return Err(format!("\"{url}\" has no valid port"));
        }
        let usual = if encrypted { 443 } else { 80 };
        let authority = if port.is_some() { authority.to_owned() } else { format!("{authority}:{usual}") };
        let base = path.trim_end_matches('/');
        let base = if base.is_empty() { String::new() } else { format!("/{base}") };
        Ok(Self { encrypted, authority, base })
    }

    /// The name or address that the far side must prove to be its own.
    fn host(&self) -> &str {
        let host = self.authority.rsplit_once(':').map_or(&*self.authority, |(host, _)| host);
        host.trim_start_matches('[').trim_end_matches(']')
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.encrypted { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority, self.base)
    }
}

/// Connects, and has the connection upgraded to `protocol`.
pub(super) async fn connect(
    address: &Address,
    tls: Option<&Tls>,
    path: &str,
    protocol: &str,
    token: Option<&str>,
) -> Result<Box<dyn Wire>, String> {
    timeout(PATIENCE, upgrade(address, tls, path, protocol, token))
        .await
        .unwrap_or_else(|_| Err(format!("no answer within {} s", PATIENCE.as_secs())))
}

async fn upgrade(
    address: &Address,
    tls: Option<&Tls>,
    path: &str,
    protocol: &str,
    token: Option<&str>,
) -> Result<Box<dyn Wire>, String> {
    let broken = |error: std::io::Error| error.to_string();
    let stream = TcpStream::connect(&address.authority).await.map_err(broken)?;
    stream.set_nodelay(true).map_err(broken)?;
    let mut stream: Box<dyn Wire> = match tls {
        Some(tls) => Box::new(tls.connect(address.host(), stream).await?),
        None => Box::new(stream),
    };
    let bearer = token.map(|token| format!("authorization: Bearer {token}\r\n")).unwrap_or_default();
    let Address { authority, base, .. } = address;
    let request = format!(
        "GET {base}{path} HTTP/1.1\r\nhost: {authority}\r\nconnection: upgrade\r\nupgrade: {protocol}\r\n{bearer}\r\n"
    );
    stream.write_all(request.as_bytes()).await.map_err(broken)?;
    let mut head = Vec::new();
    // One byte at a time: what follows the head is not ours to take.
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) if head.len() < LONGEST => head.push(byte),
            Ok(_) => return Err("its answer is not HTTP".to_owned()),
            Err(_) => return Err("it closed the connection instead of answering".to_owned()),
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let status = head.split_whitespace().nth(1).unwrap_or_default();
    if status == "101" {
        return Ok(stream);
    }
    let lines = head.lines().filter_map(|line| line.split_once(':'));
    let mut lengths = lines.filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let length = lengths.next_back().and_then(|(_, length)| length.trim().parse::<u64>().ok()).unwrap_or(0);
    let mut body = Vec::new();
    // As much as there is: it only says more about a refusal that stands.
    let _ = stream.take(length.min(LONGEST as u64)).read_to_end(&mut body).await;
    let body = String::from_utf8_lossy(&body).trim().to_owned();
    Err(if status == "404" {
        "it does not run commands for others (start it with --allow-remote-exec)".to_owned()
    } else {
        format!("{} {body}", head.lines().next().unwrap_or_default()).trim().to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let shown = |url: &str| Address::parse(url).map(|address| address.to_string());
        assert_eq!(shown("http://box:8080").unwrap(), "http://box:8080");
        assert_eq!(shown("http://box").unwrap(), "http://box:80");
        assert_eq!(shown("https://box").unwrap(), "https://box:443");
        assert_eq!(shown("http://[::1]:8080/a/b/").unwrap(), "http://[::1]:8080/a/b");
        assert_eq!(shown("http://[::1]").unwrap(), "http://[::1]:80");
        for bad in [
            "box:8080",
            "ftp://box",
            "http://",
            "http://box:99999",
            "http://a@b",
            "http://a b",
            "http://a/\r\nx",
        ] {
            assert!(shown(bad).is_err(), "{bad}");
        }
        let host = |url: &str| Address::parse(url).unwrap().host().to_owned();
        assert_eq!(host("https://box.example:8443/x"), "box.example");
        assert_eq!(host("https://[::1]"), "::1");
    }
}
