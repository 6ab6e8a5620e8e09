//! Takes secrets out of everything that leaves.
//!
//! A [`Scrubber`] is built once from the configured secrets and the operator's patterns; it also knows the
//! shapes of common credentials ([`rules()`]). It replaces what it finds by `[REDACTED:<type>]`:
//!
//! ```
//! let scrubber = scrub::Scrubber::builder().secret("DB_PASSWORD", "correct horse battery").build();
//! assert_eq!(scrubber.scrub("login correct horse battery ok"), "login [REDACTED:secret:DB_PASSWORD] ok");
//! ```
//!
//! # What is found
//! * **Exact values** of configured secrets, wherever they stand: as they are, JSON-escaped, in hexadecimal,
//!   in base64 (both alphabets, at any alignment within a larger base64 text, wrapped over lines or not) and
//!   URL-encoded, with HTML entities or with `\` before or for characters (any mixture of encoded and plain
//!   characters), and with the quotes of a shell within.
//! * **Shapes**: tokens with a recognisable form, private-key blocks, passwords in URLs.
//! * **Assignments** `NAME=value` of secret-looking names, when the value looks like a literal secret.
//!   Expressions, types, variables and placeholders stay, so that ordinary source code is not mangled.
//!
//! # Short secrets
//! A configured secret of fewer than [`MIN_SECRET`] characters is not searched for at all (it would turn
//! ordinary text to rubble); [`Scrubber::unprotected`] names those. One of fewer than [`MIN_ANYWHERE`]
//! characters is replaced only where it stands alone, not inside a longer word.
//!
//! # Bytes
//! The functions take `&str`. [`StreamScrubber::push`] takes bytes and replaces invalid UTF-8 by U+FFFD.

mod assign;
mod encoded;
mod exact;
mod json;
mod lines;
mod pem;
mod rules;
mod scrubber;
mod span;
mod stream;
mod words;

pub use exact::{MIN_ANYWHERE, MIN_SECRET};
pub use pem::{KEY_MARKER, key_lines, may_be_key, open_key};
pub use rules::{Place, Rule, rules};
pub use scrubber::{Builder, PatternError, Scrubbed, Scrubber};
pub use span::{Hit, Hits};
pub use stream::StreamScrubber;
