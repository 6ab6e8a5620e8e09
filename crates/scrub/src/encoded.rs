//! Lines in which characters are written by their numbers or names.

/// Longest entity that is looked at: `&#x0010FFFF;`.
const MAX_ENTITY: usize = 12;

/// Adds what is encoded at the beginning of a text; how many bytes stand for it, 0 for nothing.
type Read = fn(&[u8], &mut Vec<u8>) -> usize;

/// A line as it was before it was encoded, and where each byte came from.
pub(crate) struct Decoded {
    pub(crate) bytes: Vec<u8>,
    /// Start in the text of each decoded byte, and the end of the line.
    pub(crate) origin: Vec<usize>,
}

/// Calls `each` with every line that has something encoded in it, which begins with `mark`.
pub(crate) fn lines(text: &[u8], mark: u8, read: Read, mut each: impl FnMut(Decoded)) {
    let mut done = 0;
    for at in memchr::memchr_iter(mark, text) {
        if at < done || read(&text[at..], &mut Vec::new()) == 0 {
            continue;
        }
        let start = memchr::memrchr(b'\n', &text[done..at]).map_or(done, |n| done + n + 1);
        let end = memchr::memchr(b'\n', &text[at..]).map_or(text.len(), |n| at + n);
        done = end;
        each(Decoded::of(&text[..end], start, mark, read));
    }
}

impl Decoded {
    fn of(text: &[u8], start: usize, mark: u8, read: Read) -> Self {
        let mut decoded = Self { bytes: Vec::new(), origin: Vec::new() };
        let mut at = start;
        while at < text.len() {
            let taken = if text[at] == mark { read(&text[at..], &mut decoded.bytes) } else { 0 };
            if taken == 0 {
                decoded.bytes.push(text[at]);
            }
            decoded.origin.resize(decoded.bytes.len(), at);
            at += taken.max(1);
        }
        decoded.origin.push(text.len());
        decoded
    }

    /// Form encoding writes a space as `+`. Tells whether there was one.
    pub(crate) fn plus_to_space(&mut self) -> bool {
        let mut any = false;
        for (byte, origin) in self.bytes.iter_mut().zip(self.origin.windows(2)) {
            let literal = origin[1] - origin[0] == 1;
            if *byte == b'+' && literal {
                *byte = b' ';
                any = true;
            }
        }
        any
    }
}

/// `%2F`.
pub(crate) fn percent(text: &[u8], out: &mut Vec<u8>) -> usize {
    let Some(byte) = digits(text, 1, 2, 16) else { return 0 };
    out.push(byte as u8);
    3
}

/// Whether shells (`printf %q`, `declare -p`) or programming languages write a `\` for or before this character.
pub(crate) fn is_escaped(letter: char) -> bool {
    !letter.is_ascii_alphanumeric() && !"-_./:@%+".contains(letter)
}

/// `\$`, `\n`, `\x27`, `\u00e4`, `\303`.
pub(crate) fn escape(text: &[u8], out: &mut Vec<u8>) -> usize {
    let (byte, taken) = match text.get(1) {
        Some(b'n') => (Some(u32::from(b'\n')), 2),
        Some(b't') => (Some(u32::from(b'\t')), 2),
        Some(b'r') => (Some(u32::from(b'\r')), 2),
        Some(b'x') => (digits(text, 2, 2, 16), 4),
        Some(b'u') => {
            let Some(letter) = digits(text, 2, 4, 16).and_then(char::from_u32) else { return 0 };
            out.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
            return 6;
        }
        Some(b'0'..=b'7') => (digits(text, 1, 3, 8), 4),
        Some(other) if other.is_ascii_punctuation() || *other == b' ' => (Some(u32::from(*other)), 2),
        _ => (None, 0),
    };
    let Some(byte) = byte.and_then(|byte| u8::try_from(byte).ok()) else { return 0 };
    out.push(byte);
    taken
}

/// The number that stands at `at` with so many digits.
fn digits(text: &[u8], at: usize, many: usize, base: u32) -> Option<u32> {
    let digits = text.get(at..at + many)?;
    digits.iter().try_fold(0, |number, digit| Some(number * base + char::from(*digit).to_digit(base)?))
}

/// `&quot;`, `&#39;`, `&#x27;`.
pub(crate) fn entity(text: &[u8], out: &mut Vec<u8>) -> usize {
    let Some(end) = text.iter().take(MAX_ENTITY).position(|byte| *byte == b';') else { return 0 };
    let letter = match &text[1.min(end)..end] {
        b"amp" => Some('&'),
        b"lt" => Some('<'),
        b"gt" => Some('>'),
        b"quot" => Some('"'),
        b"apos" => Some('\''),
        [b'#', b'x' | b'X', digits @ ..] => number(digits, 16),
        [b'#', digits @ ..] => number(digits, 10),
        _ => None,
    };
    let Some(letter) = letter else { return 0 };
    out.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
    end + 1
}

fn number(digits: &[u8], base: u32) -> Option<char> {
    char::from_u32(u32::from_str_radix(std::str::from_utf8(digits).ok()?, base).ok()?)
}
