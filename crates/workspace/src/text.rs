//! Encodings, byte-order marks and line endings: what must survive a change.

use std::borrow::Cow;

const UTF8_BOM: &[u8] = b"\xEF\xBB\xBF";

/// How a text file is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// UTF-8, or bytes that are shown as such with replacement characters.
    Utf8,
    /// UTF-16, little endian, recognised by its byte-order mark.
    Utf16Le,
    /// UTF-16, big endian, recognised by its byte-order mark.
    Utf16Be,
}

/// How the lines of a file end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineEnding {
    /// `\n`, or no line end at all.
    Lf,
    /// `\r\n` everywhere.
    CrLf,
    /// Both.
    Mixed,
}

/// What a change to a text file must keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextInfo {
    /// The encoding.
    pub encoding: Encoding,
    /// Whether the file starts with a byte-order mark.
    pub bom: bool,
    /// How its lines end.
    pub line_ending: LineEnding,
}

impl TextInfo {
    /// Looks at the bytes of a whole file.
    pub fn of(bytes: &[u8]) -> Self {
        let (encoding, bom) = encoding_of(bytes);
        let line_ending = line_ending_of(&decode(bytes));
        Self { encoding, bom, line_ending }
    }

    /// Gives text from a caller the byte-order mark, the line endings and the encoding of the file it replaces.
    pub fn dress(&self, text: &str) -> Vec<u8> {
        let bare = text.strip_prefix('\u{FEFF}').unwrap_or(text);
        let body = match self.line_ending {
            LineEnding::CrLf if !bare.contains("\r\n") => Cow::Owned(bare.replace('\n', "\r\n")),
            _ => Cow::Borrowed(bare),
        };
        // a caller who writes a mark into a file that had none means it
        encode(&body, self.encoding, self.bom || bare.len() < text.len())
    }
}

/// The encoding that the first bytes announce, and whether a mark announces it.
pub(crate) fn encoding_of(bytes: &[u8]) -> (Encoding, bool) {
    match bytes {
        [0xFF, 0xFE, ..] => (Encoding::Utf16Le, true),
        [0xFE, 0xFF, ..] => (Encoding::Utf16Be, true),
        _ => (Encoding::Utf8, bytes.starts_with(UTF8_BOM)),
    }
}

/// The bytes of a file as UTF-8 bytes without a mark. UTF-8 files come back as they are, invalid sequences included.
pub(crate) fn decode(bytes: &[u8]) -> Cow<'_, [u8]> {
    let units = |read: fn([u8; 2]) -> u16| {
        let pairs = bytes[2..].chunks_exact(2).map(|pair| read([pair[0], pair[1]]));
        let text: String =
            char::decode_utf16(pairs).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
        Cow::Owned(text.into_bytes())
    };
    match encoding_of(bytes) {
        (Encoding::Utf16Le, _) => units(u16::from_le_bytes),
        (Encoding::Utf16Be, _) => units(u16::from_be_bytes),
        (Encoding::Utf8, true) => Cow::Borrowed(&bytes[UTF8_BOM.len()..]),
        (Encoding::Utf8, false) => Cow::Borrowed(bytes),
    }
}

/// The inverse of [`decode`].
pub(crate) fn encode_bytes(body: Vec<u8>, encoding: Encoding, bom: bool) -> Vec<u8> {
    match encoding {
        Encoding::Utf8 if !bom => body,
        Encoding::Utf8 => [UTF8_BOM, &body].concat(),
        _ => encode(&String::from_utf8_lossy(&body), encoding, bom),
    }
}

fn encode(text: &str, encoding: Encoding, bom: bool) -> Vec<u8> {
    let mark = if bom { "\u{FEFF}" } else { "" };
    let units = || mark.encode_utf16().chain(text.encode_utf16());
    match encoding {
        Encoding::Utf8 => [mark.as_bytes(), text.as_bytes()].concat(),
        Encoding::Utf16Le => units().flat_map(u16::to_le_bytes).collect(),
        Encoding::Utf16Be => units().flat_map(u16::to_be_bytes).collect(),
    }
}

/// How the lines of decoded text end.
pub(crate) fn line_ending_of(body: &[u8]) -> LineEnding {
    let (mut lf, mut crlf) = (0usize, 0usize);
    for at in memchr::memchr_iter(b'\n', body) {
        if at > 0 && body[at - 1] == b'\r' { crlf += 1 } else { lf += 1 }
    }
    match (lf, crlf) {
        (_, 0) => LineEnding::Lf,
        (0, _) => LineEnding::CrLf,
        _ => LineEnding::Mixed,
    }
}

/// Bytes at the start of a file in which a NUL makes it binary.
pub(crate) const BINARY_WINDOW: usize = 8 << 10;

/// Whether a file that starts with these bytes is binary: a NUL early on, and no UTF-16 mark.
pub(crate) fn is_binary(start: &[u8]) -> bool {
    let start = &start[..start.len().min(BINARY_WINDOW)];
    encoding_of(start).0 == Encoding::Utf8 && memchr::memchr(0, start).is_some()
}

/// The media type of an image that a client can show, by its first bytes.
pub(crate) fn image_type(start: &[u8]) -> Option<&'static str> {
    match start {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1A, b'\n', ..] => Some("image/png"),
        [0xFF, 0xD8, 0xFF, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

/// What a binary file is, as far as its first bytes tell.
pub(crate) fn binary_kind(start: &[u8]) -> &'static str {
    if image_type(start).is_some() {
        return "image";
    }
    match start {
        [0x7F, b'E', b'L', b'F', ..] => "ELF binary",
        [b'P', b'K', 3, 4, ..] => "zip archive",
        [0x1F, 0x8B, ..] => "gzip data",
        [0x28, 0xB5, 0x2F, 0xFD, ..] => "zstd data",
        [b'%', b'P', b'D', b'F', ..] => "PDF document",
        [0, b'a', b's', b'm', ..] => "WebAssembly module",
        [b'S', b'Q', b'L', b'i', b't', b'e', ..] => "SQLite database",
        [b'M', b'Z', ..] => "Windows executable",
        [0xCA, 0xFE, 0xBA, 0xBE, ..] => "Java class or Mach-O file",
        _ => "binary file",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn dressing_keeps_mark_and_line_ends() {
        let info = TextInfo::of(b"\xEF\xBB\xBFa\r\nb\r\n");
        assert_eq!(info, TextInfo { encoding: Encoding::Utf8, bom: true, line_ending: LineEnding::CrLf });
        assert_eq!(info.dress("x\ny\n"), b"\xEF\xBB\xBFx\r\ny\r\n");
        assert_eq!(info.dress("\u{FEFF}x\r\n"), b"\xEF\xBB\xBFx\r\n");
        assert_eq!(TextInfo::of(b"a\n").dress("x\r\n"), b"x\r\n");
        assert_eq!(TextInfo::of(b"a\n").dress("\u{FEFF}x\n"), b"\xEF\xBB\xBFx\n");
    }

    proptest! {
        #[test]
        fn utf16_survives(text in "\\PC{0,40}(\r?\n\\PC{0,10}){0,3}", big in any::<bool>()) {
            let encoding = if big { Encoding::Utf16Be } else { Encoding::Utf16Le };
            let bytes = encode(&text, encoding, true);
            prop_assert_eq!(encoding_of(&bytes), (encoding, true));
            let body = decode(&bytes).into_owned();
            prop_assert_eq!(&body[..], text.as_bytes());
            prop_assert_eq!(encode_bytes(body, encoding, true), bytes);
        }

        #[test]
        fn any_bytes_survive(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let (encoding, bom) = encoding_of(&bytes);
            if encoding == Encoding::Utf8 {
                prop_assert_eq!(encode_bytes(decode(&bytes).into_owned(), encoding, bom), bytes);
            }
        }
    }
}
