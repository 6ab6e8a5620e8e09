//! Host and Origin: a web page must not reach a local server through the user's browser.
//!
//! A DNS-rebinding page talks to us under *its* name, so a Host that is an IP address, `localhost` or a
//! name we were told is safe and anything else is not. A page of another site carries its Origin, so an
//! Origin that is neither loopback, our own nor one we were told is refused.

use http::{HeaderMap, header};
use std::net::IpAddr;

/// Which names and origins are ours besides the obvious ones, in lower case.
pub(crate) struct Names {
    pub(crate) hosts: Vec<String>,
    pub(crate) origins: Vec<String>,
}

impl Names {
    /// Refuses what a browser would send on behalf of a foreign page; the text says how to allow it.
    pub(crate) fn check(&self, headers: &HeaderMap) -> Result<(), String> {
        let text =
            |name| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).to_lowercase());
        let host = text(header::HOST).ok_or("the request has no Host header")?;
        let name = host_name(&host);
        if !is_local(name)
            && name.parse::<IpAddr>().is_err()
            && !self.hosts.iter().any(|known| *known == name)
        {
            return Err(format!("Host \"{name}\" is not allowed; start the server with --allow-host {name}"));
        }
        let Some(origin) = text(header::ORIGIN) else { return Ok(()) };
        let authority = origin.split_once("://").map_or("", |(_, authority)| authority);
        let allowed = is_local(host_name(authority))
            || (!authority.is_empty() && authority == host)
            || self.origins.contains(&origin);
        if allowed {
            Ok(())
        } else {
            Err(format!("Origin \"{origin}\" is not allowed; start the server with --allow-origin {origin}"))
        }
    }
}

/// The name of `name:port`, without the brackets of an IPv6 address.
fn host_name(authority: &str) -> &str {
    match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => authority.rsplit_once(':').map_or(authority, |(name, _)| name),
    }
}

fn is_local(name: &str) -> bool {
    name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(host: &str, origin: Option<&str>) -> Result<(), String> {
        let mut headers = HeaderMap::from_iter([(header::HOST, host.parse().unwrap())]);
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, origin.parse().unwrap());
        }
        Names { hosts: vec!["box.example".into()], origins: vec!["https://ide.example".into()] }
            .check(&headers)
    }

    #[test]
    fn hosts() {
        for fine in ["localhost:8080", "127.0.0.1", "[::1]:80", "10.0.0.7:8080", "BOX.example:1"] {
            assert_eq!(check(fine, None), Ok(()), "{fine}");
        }
        assert!(check("evil.example:8080", None).unwrap_err().contains("--allow-host evil.example"));
        assert!(check("localhost.evil.example", None).is_err());
    }

    #[test]
    fn origins() {
        for fine in
            ["http://localhost:3000", "http://127.0.0.1:8080", "http://10.0.0.7:8080", "https://IDE.example"]
        {
            assert_eq!(check("10.0.0.7:8080", Some(fine)), Ok(()), "{fine}");
        }
        for foreign in
            ["https://evil.example", "null", "http://localhost.evil.example", "http://10.0.0.8:8080"]
        {
            assert!(check("10.0.0.7:8080", Some(foreign)).is_err(), "{foreign}");
        }
    }
}
