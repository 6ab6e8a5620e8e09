//! What can be told of a message that cannot be read: whose it is, what is wrong with it and where.

use rmcp::{ErrorData, model::RequestId};
use serde_json::error::Category;

/// More of a key or an id than this is nobody's.
const LONGEST_WORD: usize = 512;

/// Finds the `id` of a message that need not be JSON throughout, byte by byte and in little memory. Only the
/// outermost object's counts: an `id` among a tool's arguments is none.
#[derive(Default)]
pub(super) struct Look {
    at: usize,
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// The next string of the outermost object is a key.
    before_key: bool,
    key_is_id: bool,
    taking: Taking,
    word: Vec<u8>,
    /// Every `id`, and where it ends.
    found: Vec<(Option<RequestId>, usize)>,
    closed: bool,
    /// Brackets or quotes do not match, so that what follows may be anything.
    broken: bool,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Taking {
    #[default]
    Nothing,
    Key,
    Id,
}

impl Look {
    pub(super) fn take(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.at += 1;
            if self.in_string {
                self.within_string(*byte);
            } else {
                self.between(*byte);
            }
        }
    }

    fn within_string(&mut self, byte: u8) {
        self.keep(byte);
        if self.escaped {
            self.escaped = false;
        } else if byte == b'\\' {
            self.escaped = true;
        } else if byte == b'"' {
            self.in_string = false;
            if self.taking == Taking::Key {
                self.key_is_id = self.word == b"id\"";
                self.taking = Taking::Nothing;
            }
        }
    }

    fn between(&mut self, byte: u8) {
        let outermost = self.depth == 1;
        if outermost && matches!(byte, b',' | b'}') {
            self.end_value();
        }
        self.keep(byte);
        match byte {
            b'"' => {
                self.in_string = true;
                if outermost && self.before_key {
                    self.begin(Taking::Key);
                }
            }
            b'{' | b'[' => {
                self.broken |= self.depth == 0 && (self.closed || byte == b'[');
                self.before_key |= self.depth == 0;
                self.depth += 1;
            }
            b'}' | b']' => {
                self.broken |= self.depth == 0;
                self.closed |= outermost;
                self.depth = self.depth.saturating_sub(1);
            }
            b',' if outermost => self.before_key = true,
            b':' if outermost && self.before_key => {
                self.before_key = false;
                if std::mem::take(&mut self.key_is_id) {
                    self.begin(Taking::Id);
                }
            }
            _ => self.broken |= self.depth == 0 && !byte.is_ascii_whitespace(),
        }
    }

    fn begin(&mut self, taking: Taking) {
        self.taking = taking;
        self.word.clear();
    }

    fn keep(&mut self, byte: u8) {
        if self.taking != Taking::Nothing && self.word.len() < LONGEST_WORD {
            self.word.push(byte);
        }
    }

    fn end_value(&mut self) {
        if self.taking == Taking::Id {
            self.found.truncate(1);
            self.found.push((serde_json::from_slice(&self.word).ok(), self.at));
            self.taking = Taking::Nothing;
        }
    }

    /// The id, if there is one and no doubt about it. Behind a fault (a byte's number) in something whose brackets
    /// or quotes do not match, nothing is sure.
    pub(super) fn id(self, fault: Option<usize>) -> Option<RequestId> {
        let sound = self.closed && !self.broken && !self.in_string && self.depth == 0;
        match <[_; 1]>::try_from(self.found) {
            Ok([(id, end)]) if sound || fault.is_some_and(|fault| end <= fault) => id,
            _ => None,
        }
    }
}

/// The answer to a text that is not JSON.
pub(super) fn answer(text: &[u8], error: &serde_json::Error) -> (ErrorData, Option<RequestId>) {
    let before: usize = text
        .split_inclusive(|byte| *byte == b'\n')
        .take(error.line().saturating_sub(1))
        .map(<[u8]>::len)
        .sum();
    let fault = before + error.column();
    let mut look = Look::default();
    look.take(text);
    let (what, next) = fault_in(text, fault, error);
    let why = format!("the message is not JSON: {what} at byte {fault}; {next}");
    (ErrorData::parse_error(why, None), look.id(Some(fault)))
}

/// What is wrong, and what to do about it. Nothing of the text itself: it may be a secret.
fn fault_in(text: &[u8], fault: usize, error: &serde_json::Error) -> (String, &'static str) {
    let said = error.to_string();
    let said = said.rsplit_once(" at line ").map_or(said.as_str(), |(said, _)| said);
    if let Some(half) = lone_surrogate(text, fault).filter(|_| said.contains("hex escape")) {
        return (
            format!("lone surrogate {half}"),
            "send valid Unicode: both halves of the pair, or the character itself",
        );
    }
    let next = match said {
        _ if error.classify() == Category::Eof => "send the whole message, on one line over stdio",
        "recursion limit exceeded" => "nest less than 128 levels deep",
        "number out of range" => "send a number that fits into 64 bits, or a string",
        "invalid unicode code point" => "encode the message in UTF-8",
        _ if said.starts_with("control character") => "escape it, as \\n, \\t or \\u0000",
        _ => "send one object of JSON-RPC 2.0 as a JSON library writes it",
    };
    (said.to_owned(), next)
}

/// The escape of half a surrogate pair that stands just before `fault`.
fn lone_surrogate(text: &[u8], fault: usize) -> Option<&str> {
    let near = text.get(fault.saturating_sub(12)..text.len().min(fault + 6))?;
    let escape = near.windows(6).rfind(|escape| {
        matches!(escape, [b'\\', b'u', b'd' | b'D', b'8'..=b'9' | b'a'..=b'f' | b'A'..=b'F', ..])
    });
    std::str::from_utf8(escape?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &[u8], fault: Option<usize>) -> Option<String> {
        let mut whole = Look::default();
        whole.take(text);
        let mut bits = Look::default();
        text.chunks(1).for_each(|bit| bits.take(bit));
        let (whole, bits) = (whole.id(fault), bits.id(fault));
        assert_eq!(whole, bits, "however it arrives");
        whole.map(|id| id.to_string())
    }

    #[test]
    fn only_the_outermost_id_counts() {
        let seven = Some("7".to_owned());
        assert_eq!(id(br#"{"id":7}"#, None), seven);
        assert_eq!(id(br#" {"a":{"id":1},"b":[{"id":2}],"c":"\"id\":3", "id" : 7 , "d":"id"}"#, None), seven);
        assert_eq!(id(br#"{"id":"a \"b\", }","method":"x"}"#, None), Some(r#"a "b", }"#.to_owned()));
        for none in [
            br#"{"params":{"id":1}}"#.as_slice(),
            br#"{"a":"id","b":7}"#,
            br#"[{"id":7}]"#,
            br#"{"id":7,"id":8}"#,
            br#"{"id":{"x":7}}"#,
            br#"{"id":null}"#,
            b"no json",
            b"",
        ] {
            assert_eq!(id(none, None), None, "{}", String::from_utf8_lossy(none));
        }
    }

    #[test]
    fn behind_a_stray_quote_nothing_is_sure() {
        let text = br#"{"jsonrpc":"2.0","id":7,"params":{"text":"say "hi","id":8}"#;
        assert_eq!(id(text, None), None);
        assert_eq!(id(text, Some(46)).as_deref(), Some("7"), "it stands before the fault");
        let behind = br#"{"params":{"text":"say "hi"}},"id":8}}"#;
        assert_eq!(id(behind, Some(24)), None);
    }

    #[test]
    fn a_fault_is_named_with_its_place_and_a_way_out() {
        for (fault, what, next) in [
            (r#""cut \ud83d here""#, r"lone surrogate \ud83d at byte ", "valid Unicode"),
            (r#""cut \ud83d""#, r"lone surrogate \ud83d at byte ", "valid Unicode"),
            (r#""\uDE00""#, r"lone surrogate \uDE00 at byte ", "valid Unicode"),
            (r#""\ud83d\u0041""#, r"lone surrogate \ud83d at byte ", "valid Unicode"),
            ("1e999", "number out of range at byte ", "64 bits"),
            ("\"a\tb\"", "control character", "escape it"),
            ("{\"a\":1,}", "trailing comma at byte ", "JSON library"),
            (&("[".repeat(200) + &"]".repeat(200)), "recursion limit exceeded at byte ", "128 levels"),
        ] {
            let text = format!(r#"{{"method":"tools/call","params":{fault},"id":7}}"#);
            let error = serde_json::from_slice::<serde_json::Value>(text.as_bytes()).unwrap_err();
            let (told, id) = answer(text.as_bytes(), &error);
            assert_eq!(told.code.0, -32700);
            assert!(told.message.contains(what) && told.message.contains(next), "{fault}: {}", told.message);
            assert_eq!(id.map(|id| id.to_string()).as_deref(), Some("7"), "{fault}");
        }
    }
}
