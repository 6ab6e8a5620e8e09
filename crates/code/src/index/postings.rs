//! The symbols that a word occurs in: ascending numbers, each with how often.

/// Bytes that need no allocation: most words occur in a handful of symbols.
const SMALL: usize = 30;

/// How often a word counts at most in one symbol.
pub(crate) const MOST: u32 = 15;

/// A list of `delta << 4 | frequency`, seven bits a byte.
pub(crate) struct Postings {
    last: u32,
    count: u32,
    bytes: Bytes,
}

enum Bytes {
    Small(u8, [u8; SMALL]),
    Large(Vec<u8>),
}

impl Default for Postings {
    fn default() -> Self {
        Self { last: 0, count: 0, bytes: Bytes::Small(0, [0; SMALL]) }
    }
}

impl Postings {
    /// Symbols in it, those included that have gone since.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Bytes besides its own.
    pub(crate) fn heap(&self) -> usize {
        match &self.bytes {
            Bytes::Small(..) => 0,
            // what the allocator adds counts too
            Bytes::Large(bytes) => bytes.capacity() + 16,
        }
    }

    pub(crate) fn shrink(&mut self) {
        if let Bytes::Large(bytes) = &mut self.bytes {
            bytes.shrink_to_fit();
        }
    }

    /// Adds a symbol, whose number is above all that are there.
    pub(crate) fn push(&mut self, symbol: u32, frequency: u32) {
        let mut value = u64::from(symbol - self.last) << 4 | u64::from(frequency.min(MOST));
        self.last = symbol;
        self.count += 1;
        while value >= 128 {
            self.byte(value as u8 | 128);
            value >>= 7;
        }
        self.byte(value as u8);
    }

    fn byte(&mut self, byte: u8) {
        match &mut self.bytes {
            Bytes::Small(len, bytes) if usize::from(*len) < SMALL => {
                bytes[usize::from(*len)] = byte;
                *len += 1;
            }
            Bytes::Small(_, bytes) => {
                let mut large = Vec::with_capacity(2 * SMALL);
                large.extend_from_slice(bytes);
                large.push(byte);
                self.bytes = Bytes::Large(large);
            }
            Bytes::Large(bytes) => {
                // doubling would leave half of a long list empty
                if bytes.len() == bytes.capacity() {
                    bytes.reserve_exact(bytes.len() / 4);
                }
                bytes.push(byte);
            }
        }
    }

    /// Calls `each` with every symbol and its frequency, in ascending order.
    pub(crate) fn each(&self, mut each: impl FnMut(u32, u32)) {
        let bytes = match &self.bytes {
            Bytes::Small(len, bytes) => &bytes[..usize::from(*len)],
            Bytes::Large(bytes) => bytes,
        };
        let (mut symbol, mut value, mut shift) = (0u32, 0u64, 0);
        for &byte in bytes {
            value |= u64::from(byte & 127) << shift;
            if byte & 128 != 0 {
                shift += 7;
                continue;
            }
            symbol += (value >> 4) as u32;
            each(symbol, (value & 15) as u32);
            (value, shift) = (0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_goes_in_comes_out(mut symbols in proptest::collection::vec((any::<u32>(), 1..40u32), 0..100)) {
            symbols.sort_unstable();
            symbols.dedup_by_key(|(symbol, _)| *symbol);
            let mut postings = Postings::default();
            symbols.iter().for_each(|(symbol, frequency)| postings.push(*symbol, *frequency));
            let mut out = Vec::new();
            postings.each(|symbol, frequency| out.push((symbol, frequency)));
            let expected: Vec<(u32, u32)> = symbols.iter().map(|(s, f)| (*s, (*f).min(MOST))).collect();
            prop_assert_eq!(out, expected);
        }
    }
}
