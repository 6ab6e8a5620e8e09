//! Finds where any of many words may begin, in one pass.
//!
//! The first bytes at each place of the text, letters in small, are mixed into a number; a table of bits says
//! whether any word begins so. At nearly no place of an ordinary text does one, so the look at every place is all
//! that costs. Unlike an automaton the table is made in microseconds and stays in the nearest cache.

/// Bits in the table: two thousand words leave nineteen of twenty empty.
const BITS: u32 = 15;
const ROWS: usize = 1 << (BITS - 6);
/// Spreads the bytes over the table: 2³² divided by the golden ratio.
const SPREAD: u32 = 0x9E37_79B1;
/// Sets the bit that tells small letters from capitals; what it does to other bytes is no matter.
const SMALL: u64 = 0x2020_2020_2020_2020;

/// Words of at least `WIDTH` bytes (3 or 4), told apart by that many.
pub(crate) struct Words<const WIDTH: usize> {
    bits: Box<[u64; ROWS]>,
    /// How many bits are set in the rows before.
    ranks: Box<[u16; ROWS]>,
    /// Where the words of each set bit start in `words`, and the end of the last.
    starts: Vec<u32>,
    words: Vec<u32>,
}

impl<const WIDTH: usize> Words<WIDTH> {
    /// Shorter words are never found.
    pub(crate) fn new<'w>(words: impl IntoIterator<Item = &'w [u8]>) -> Self {
        let beginning = |word: &[u8]| {
            let mut bytes = [0; 8];
            bytes[..WIDTH].copy_from_slice(word.get(..WIDTH)?);
            Some(mixed::<WIDTH>(u64::from_le_bytes(bytes) | SMALL, 0))
        };
        let mut sorted: Vec<(usize, u32)> =
            (0..).zip(words).filter_map(|(number, word)| Some((beginning(word)?, number))).collect();
        sorted.sort_unstable();
        let (mut bits, mut ranks) = (Box::new([0_u64; ROWS]), Box::new([0_u16; ROWS]));
        let mut starts = Vec::new();
        for (at, (bit, _)) in (0..).zip(&sorted) {
            let (row, mask) = (bit / 64, 1 << (bit % 64));
            if bits[row] & mask == 0 {
                bits[row] |= mask;
                starts.push(at);
            }
        }
        starts.push(u32::try_from(sorted.len()).unwrap_or(u32::MAX));
        let mut set = 0;
        for (rank, row) in ranks.iter_mut().zip(bits.iter()) {
            *rank = set;
            // There are fewer bits than a u16 counts.
            set += u16::try_from(row.count_ones()).unwrap_or(0);
        }
        Self { bits, ranks, starts, words: sorted.into_iter().map(|(_, word)| word).collect() }
    }

    /// Calls `found` with every place at which a word may begin and that word's number, in the order of the text.
    /// The caller has to compare: other words mix to the same number.
    pub(crate) fn find(&self, text: &[u8], mut found: impl FnMut(usize, usize)) {
        let step = 9 - WIDTH;
        let mut at = 0;
        while let Some(bytes) = text.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()) {
            let bytes = u64::from_le_bytes(bytes) | SMALL;
            // One branch for all places in eight bytes.
            let any = (0..step).fold(0, |any, n| any | self.bit(mixed::<WIDTH>(bytes, n)));
            if any & 1 == 1 {
                (0..step).for_each(|n| self.look(mixed::<WIDTH>(bytes, n), at + n, &mut found));
            }
            at += step;
        }
        for at in at..(text.len() + 1).saturating_sub(WIDTH).max(at) {
            let mut bytes = [0; 8];
            bytes[..WIDTH].copy_from_slice(&text[at..at + WIDTH]);
            self.look(mixed::<WIDTH>(u64::from_le_bytes(bytes) | SMALL, 0), at, &mut found);
        }
    }

    /// The lowest bit tells.
    fn bit(&self, number: usize) -> u64 {
        self.bits[number / 64] >> (number % 64)
    }

    fn look(&self, number: usize, at: usize, found: &mut impl FnMut(usize, usize)) {
        if self.bit(number) & 1 == 0 {
            return;
        }
        let row = number / 64;
        let before = self.bits[row] & ((1 << (number % 64)) - 1);
        let slot = usize::from(self.ranks[row]) + before.count_ones() as usize;
        let (start, end) = (self.starts[slot] as usize, self.starts[slot + 1] as usize);
        self.words[start..end].iter().for_each(|word| found(at, *word as usize));
    }
}

/// A number below 2^[`BITS`] for the `WIDTH` bytes from the `n`th on.
fn mixed<const WIDTH: usize>(bytes: u64, n: usize) -> usize {
    let unused = 64 - 8 * WIDTH;
    // Shifted to the top and down again: the other bytes are gone.
    let word = ((bytes >> (8 * n)) << unused >> unused) as u32;
    (word.wrapping_mul(SPREAD) >> (32 - BITS)) as usize
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
