//! Finds where any of many words may stand, in one pass.
//!
//! The bytes at each place of the text, letters in small, are mixed into a number; a table says whether any word has
//! these bytes at the place it is told apart by. At nearly no place of an ordinary text does one, so the look at
//! every place is all that costs. Unlike an automaton the table is made in microseconds and stays in the nearest
//! cache.

/// Two to the power of this are the entries in the table: two hundred words leave 99 of a hundred empty.
const BITS: u32 = 14;
/// Spreads the bytes over the table: 2³² divided by the golden ratio.
const SPREAD: u32 = 0x9E37_79B1;
/// Sets the bit that tells small letters from capitals; what it does to other bytes is no matter.
const SMALL: u64 = 0x2020_2020_2020_2020;
/// What source text is made of, the most common first. Anything else is rare.
const COMMON: &[u8] = b" etaionsrlcdpumfhgbyvwkxjqz";

/// Words of at least `WIDTH` bytes (3 or 4), told apart by the rarest so many in each.
pub(crate) struct Words<const WIDTH: usize> {
    /// Whether a word is told apart by bytes that mix to this number.
    table: Box<[u8; 1 << BITS]>,
    /// By number.
    marks: Vec<Mark>,
}

/// The bytes by which a word is told apart.
struct Mark {
    number: u32,
    word: u32,
    /// Where in the word they are.
    at: u32,
}

impl<const WIDTH: usize> Words<WIDTH> {
    /// Shorter words are never found.
    pub(crate) fn new<'w>(words: impl IntoIterator<Item = &'w [u8]>) -> Self {
        let mark = |(word, bytes): (u32, &[u8])| {
            let (at, rarest) = (0..).zip(bytes.windows(WIDTH)).min_by_key(|(_, bytes)| commonness(bytes))?;
            Some(Mark { number: of_bytes::<WIDTH>(rarest), word, at })
        };
        let mut marks: Vec<Mark> = (0..).zip(words).filter_map(mark).collect();
        marks.sort_unstable_by_key(|mark| mark.number);
        let mut table = Box::new([0; 1 << BITS]);
        marks.iter().for_each(|mark| table[mark.number as usize] = 1);
        Self { table, marks }
    }

    /// Calls `found` with every place at which a word may stand and that word's number. The caller has to compare:
    /// only some bytes were looked at, and other bytes mix to the same number.
    pub(crate) fn find(&self, text: &[u8], mut found: impl FnMut(usize, usize)) {
        let step = 9 - WIDTH;
        let mut at = 0;
        while let Some(bytes) = text.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()) {
            let bytes = u64::from_le_bytes(bytes) | SMALL;
            // One branch for all places in eight bytes.
            let any = (0..step).fold(0, |any, n| any | self.table[mixed::<WIDTH>(bytes >> (8 * n)) as usize]);
            if any != 0 {
                (0..step).for_each(|n| self.look(mixed::<WIDTH>(bytes >> (8 * n)), at + n, &mut found));
            }
            at += step;
        }
        for at in at..(text.len() + 1).saturating_sub(WIDTH).max(at) {
            self.look(of_bytes::<WIDTH>(&text[at..at + WIDTH]), at, &mut found);
        }
    }

    fn look(&self, number: u32, place: usize, found: &mut impl FnMut(usize, usize)) {
        if self.table[number as usize] == 0 {
            return;
        }
        let first = self.marks.partition_point(|mark| mark.number < number);
        for mark in self.marks[first..].iter().take_while(|mark| mark.number == number) {
            if let Some(start) = place.checked_sub(mark.at as usize) {
                found(start, mark.word as usize);
            }
        }
    }
}

/// How often bytes like these are met.
fn commonness(bytes: &[u8]) -> usize {
    let rank = |byte: &u8| COMMON.iter().position(|common| *common == byte.to_ascii_lowercase());
    bytes.iter().map(|byte| rank(byte).map_or(0, |rank| COMMON.len() - rank)).sum()
}

fn of_bytes<const WIDTH: usize>(bytes: &[u8]) -> u32 {
    let mut eight = [0; 8];
    eight[..WIDTH].copy_from_slice(&bytes[..WIDTH]);
    mixed::<WIDTH>(u64::from_le_bytes(eight) | SMALL)
}

/// A number below 2^[`BITS`] for the first `WIDTH` bytes.
fn mixed<const WIDTH: usize>(bytes: u64) -> u32 {
    let word = (bytes & (u64::MAX >> (64 - 8 * WIDTH))) as u32;
    word.wrapping_mul(SPREAD) >> (32 - BITS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn found<const WIDTH: usize>(words: &[&str], text: &str) -> Vec<(usize, usize)> {
        let mut all = Vec::new();
        Words::<WIDTH>::new(words.iter().map(|word| word.as_bytes())).find(text.as_bytes(), |at, word| {
            let (word_bytes, rest) = (words[word].as_bytes(), &text.as_bytes()[at..]);
            if rest.get(..word_bytes.len()).is_some_and(|bytes| bytes.eq_ignore_ascii_case(word_bytes)) {
                all.push((at, word));
            }
        });
        all.sort_unstable();
        all
    }

    fn expected(words: &[&str], text: &str) -> Vec<(usize, usize)> {
        let small = text.to_ascii_lowercase();
        let mut all: Vec<(usize, usize)> = (words.iter().enumerate())
            .flat_map(|(n, word)| {
                let word = word.to_ascii_lowercase();
                let places =
                    (0..small.len()).filter(|at| small.as_bytes()[*at..].starts_with(word.as_bytes()));
                places.map(move |at| (at, n)).collect::<Vec<_>>()
            })
            .collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn words_at_both_ends_and_within_each_other_are_found() {
        let words = ["abc", "ABCD", "bcda", "cda"];
        for text in ["", "ab", "abc", "abcd", "xxabcdabcdaxx", "aBcDa", "xxxxxabc", "xxxxxxabc", "xxxxxxxabc"]
        {
            assert_eq!(found::<3>(&words, text), expected(&words, text), "{text}");
        }
        assert_eq!(found::<4>(&["abcd"], "ABCDabcd"), [(0, 0), (4, 0)]);
        assert_eq!(found::<4>(&["abc"], "abcabc"), [], "shorter than the width");
    }

    proptest! {
        #[test]
        fn nothing_is_missed(words in prop::collection::vec("[a-cé_]{4,6}", 1..40), text in "[a-cA-Cé_]{0,200}") {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let want = expected(&words, &text);
            prop_assert_eq!(&found::<3>(&words, &text), &want);
            prop_assert_eq!(&found::<4>(&words, &text), &want);
        }
    }
}
