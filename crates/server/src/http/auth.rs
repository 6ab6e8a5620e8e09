//! Who is calling: bearer tokens by name and scope.

use config::Token;
use http::{HeaderMap, header::AUTHORIZATION};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use tools::Access;

/// Whoever made a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Principal {
    /// The token's name, or `anonymous` where no tokens are asked for.
    pub(crate) name: Arc<str>,
    /// It may only call tools that change nothing.
    pub(crate) readonly: bool,
}

impl Principal {
    fn anonymous() -> Self {
        Self { name: "anonymous".into(), readonly: false }
    }

    pub(crate) fn access(&self) -> Access {
        if self.readonly { Access::ReadOnly } else { Access::Full }
    }
}

/// The tokens that open the door. Only their digests are kept, so that comparing takes the same time
/// whatever was presented.
pub(crate) struct Door {
    keys: Vec<([u8; 32], Principal)>,
}

impl Door {
    pub(crate) fn new(tokens: &[Token]) -> Self {
        let key = |token: &Token| {
            let principal = Principal { name: token.name.as_str().into(), readonly: token.readonly };
            (digest(token.value.as_bytes()), principal)
        };
        Self { keys: tokens.iter().map(key).collect() }
    }

    /// Who sent these headers; nobody when a token is needed and none of ours came.
    pub(crate) fn admit(&self, headers: &HeaderMap) -> Option<Principal> {
        if self.keys.is_empty() {
            return Some(Principal::anonymous());
        }
        let value = headers.get(AUTHORIZATION)?.as_bytes();
        let (scheme, token) = value.split_at_checked("Bearer ".len())?;
        if !scheme.eq_ignore_ascii_case(b"Bearer ") {
            return None;
        }
        let presented = digest(token.trim_ascii());
        // Every key is compared in full: neither the position nor the length of a match shows.
        self.keys.iter().fold(None, |found, (key, principal)| {
            let differing = key.iter().zip(presented).fold(0, |all, (a, b)| all | (a ^ b));
            if differing == 0 { Some(principal.clone()) } else { found }
        })
    }
}

fn digest(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(value: &str) -> HeaderMap {
        HeaderMap::from_iter([(AUTHORIZATION, value.parse().unwrap())])
    }

    #[test]
    fn only_a_known_token_opens() {
        let token =
            |name: &str, value: &str, readonly| Token { name: name.into(), value: value.into(), readonly };
        let door = Door::new(&[token("ann", "aaaa", false), token("bob", "bbbb", true)]);
        assert_eq!(&*door.admit(&headers("Bearer aaaa")).unwrap().name, "ann");
        assert!(door.admit(&headers("bearer bbbb")).unwrap().readonly);
        for wrong in ["Bearer aaa", "Bearer aaaab", "Bearer ", "aaaa", "Basic aaaa"] {
            assert_eq!(door.admit(&headers(wrong)), None, "{wrong}");
        }
        assert_eq!(door.admit(&HeaderMap::new()), None);
    }

    #[test]
    fn without_tokens_everybody_is_anonymous() {
        assert_eq!(&*Door::new(&[]).admit(&HeaderMap::new()).unwrap().name, "anonymous");
    }
}
