//! Lines and columns: a person counts characters from 1, a server counts bytes or UTF-16 units from 0.

use crate::Position;

/// What a server counts along a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Encoding {
    /// Bytes.
    Utf8,
    /// UTF-16 units, which is what a server counts that says nothing.
    #[default]
    Utf16,
    /// Characters.
    Utf32,
}

impl Encoding {
    /// By its name in the protocol.
    #[must_use]
    pub fn named(name: &str) -> Self {
        match name {
            "utf-8" => Self::Utf8,
            "utf-32" => Self::Utf32,
            _ => Self::Utf16,
        }
    }

    fn units(self, c: char) -> usize {
        match self {
            Self::Utf8 => c.len_utf8(),
            Self::Utf16 => c.len_utf16(),
            Self::Utf32 => 1,
        }
    }

    /// The byte of `line` at which `units` end; the end of the line when it is shorter.
    #[must_use]
    pub fn byte(self, line: &str, units: usize) -> usize {
        let mut seen = 0;
        for (at, c) in line.char_indices() {
            if seen >= units {
                return at;
            }
            seen += self.units(c);
        }
        line.len()
    }

    /// The units of `line` before a byte.
    #[must_use]
    pub fn count(self, line: &str, byte: usize) -> usize {
        line.char_indices().take_while(|(at, _)| *at < byte).map(|(_, c)| self.units(c)).sum()
    }
}

/// A text and where its lines begin.
pub struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
    /// Lines that are ASCII alone: there everybody counts the same. A line may be a whole program, and hold the places
    /// of thousands of edits.
    plain: Vec<bool>,
}

impl<'a> Lines<'a> {
    /// Looks through the text once.
    #[must_use]
    pub fn of(text: &'a str) -> Self {
        let mut starts = vec![0];
        let mut plain = vec![true];
        let bytes = text.as_bytes();
        for (at, byte) in bytes.iter().enumerate() {
            if !byte.is_ascii() {
                plain[starts.len() - 1] = false;
            }
            // A lone CR ends a line, too; before an LF it belongs to that.
            if *byte == b'\n' || (*byte == b'\r' && bytes.get(at + 1) != Some(&b'\n')) {
                starts.push(at + 1);
                plain.push(true);
            }
        }
        Self { text, starts, plain }
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.starts.len()
    }

    /// A line, from 0, without its end.
    #[must_use]
    pub fn line(&self, number: usize) -> &'a str {
        let Some(&start) = self.starts.get(number) else { return "" };
        let end = self.starts.get(number + 1).copied().unwrap_or(self.text.len());
        self.text[start..end].trim_end_matches(['\r', '\n'])
    }

    /// The byte a server's position means; past the end of a line its end, past the last line the end.
    #[must_use]
    pub fn byte(&self, position: Position, encoding: Encoding) -> usize {
        let number = position.line as usize;
        match self.starts.get(number) {
            None => self.text.len(),
            Some(start) => start + self.byte_of(number, position.character as usize, encoding),
        }
    }

    /// The server's position of a byte.
    #[must_use]
    pub fn position(&self, byte: usize, encoding: Encoding) -> Position {
        let number = self.starts.partition_point(|start| *start <= byte).saturating_sub(1);
        let within = byte - self.starts[number].min(byte);
        let units = self.units_of(number, within, encoding);
        Position { line: small(number), character: small(units) }
    }

    /// The server's position of a line and a column as a person counts them: characters, from 1.
    #[must_use]
    pub fn at(&self, line: u32, col: u32, encoding: Encoding) -> Position {
        let number = line.saturating_sub(1) as usize;
        let byte = self.byte_of(number, col.saturating_sub(1) as usize, Encoding::Utf32);
        Position { line: small(number), character: small(self.units_of(number, byte, encoding)) }
    }

    /// Line and column of a server's position as a person counts them.
    #[must_use]
    pub fn shown(&self, position: Position, encoding: Encoding) -> (u32, u32) {
        let number = position.line as usize;
        let byte = self.byte_of(number, position.character as usize, encoding);
        (position.line + 1, small(self.units_of(number, byte, Encoding::Utf32)) + 1)
    }

    fn byte_of(&self, number: usize, units: usize, encoding: Encoding) -> usize {
        let line = self.line(number);
        match self.plain.get(number) {
            Some(true) => units.min(line.len()),
            _ => encoding.byte(line, units),
        }
    }

    fn units_of(&self, number: usize, byte: usize, encoding: Encoding) -> usize {
        let line = self.line(number);
        match self.plain.get(number) {
            Some(true) => byte.min(line.len()),
            _ => encoding.count(line, byte),
        }
    }
}

fn small(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = "let é = \"🦀\"; x\r\nsecond\rthird\n";

    #[test]
    fn a_column_is_a_character_whatever_the_server_counts() {
        let lines = Lines::of(TEXT);
        assert_eq!((lines.count(), lines.line(1), lines.line(2), lines.line(9)), (4, "second", "third", ""));
        let x = 14; // characters before the x, and one
        for (encoding, units) in [(Encoding::Utf8, 17), (Encoding::Utf16, 14), (Encoding::Utf32, 13)] {
            let position = lines.at(1, x, encoding);
            assert_eq!(position, Position { line: 0, character: units });
            assert_eq!(lines.shown(position, encoding), (1, x));
            assert_eq!(&TEXT[lines.byte(position, encoding)..][..1], "x");
        }
    }

    proptest! {
        #[test]
        fn every_byte_has_a_position_and_comes_back(text in "[a-zé🦀\\n\\r ]{0,60}", which in 0_usize..61) {
            let lines = Lines::of(&text);
            let byte = text.char_indices().map(|(at, _)| at).chain([text.len()]).nth(which).unwrap_or(0);
            for encoding in [Encoding::Utf8, Encoding::Utf16, Encoding::Utf32] {
                let position = lines.position(byte, encoding);
                let back = lines.byte(position, encoding);
                // The bytes of a line's end are at no column.
                let ends = |at: usize| text[at..].starts_with(['\r', '\n']);
                prop_assert!(back == byte || (ends(back) && back < byte), "{byte} -> {position:?} -> {back}");
            }
        }

        #[test]
        fn any_position_is_taken(text in ".{0,40}", line in 0_u32..9, character in 0_u32..60) {
            let at = Lines::of(&text).byte(Position { line, character }, Encoding::Utf16);
            prop_assert!(text.is_char_boundary(at));
        }
    }
}
