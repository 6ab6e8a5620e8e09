//! The symbols that a word occurs in: ascending numbers, each with how often.

/// Bytes that need no allocation: most words occur in a handful of symbols. One more, and all of them take more.
const SMALL: usize = 15;

/// How often a word counts at most in one symbol.
pub(crate) const MOST: u32 = 15;

/// A list of `delta << 4 | frequency`, seven bits a byte: the beginning in a buffer that all lists share, what was
/// added since in its own.
pub(crate) struct Postings {
    last: u32,
    count: u32,
    /// Where in the shared buffer it begins, and how many bytes are there.
    start: u32,
    packed: u32,
    bytes: Bytes,
}

enum Bytes {
    Small(u8, [u8; SMALL]),
    Large(Vec<u8>),
}

impl Default for Postings {
    fn default() -> Self {
        Self { last: 0, count: 0, start: 0, packed: 0, bytes: Bytes::Small(0, [0; SMALL]) }
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

    /// Moves to another shared buffer, with everything it has.
    pub(crate) fn pack(&mut self, from: &[u8], into: &mut Vec<u8>) {
        let start = into.len();
        into.extend_from_slice(self.packed(from));
        into.extend_from_slice(self.own());
        (self.start, self.packed) = (start as u32, (into.len() - start) as u32);
        self.bytes = Bytes::Small(0, [0; SMALL]);
    }

    /// Bytes of it, wherever they are.
    pub(crate) fn len(&self) -> usize {
        self.packed as usize + self.own().len()
    }

    fn packed<'b>(&self, shared: &'b [u8]) -> &'b [u8] {
        &shared[self.start as usize..][..self.packed as usize]
    }

    fn own(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Small(len, bytes) => &bytes[..usize::from(*len)],
            Bytes::Large(bytes) => bytes,
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
    pub(crate) fn each(&self, shared: &[u8], each: impl FnMut(u32, u32)) {
        self.walk(shared).until(u64::MAX, each);
    }

    /// The same piece by piece.
    pub(crate) fn walk<'b>(&'b self, shared: &'b [u8]) -> Walk<'b> {
        Walk { symbol: 0, bytes: self.packed(shared), rest: self.own() }
    }
}

/// On the way through a list.
pub(crate) struct Walk<'b> {
    /// The last that was seen.
    symbol: u64,
    bytes: &'b [u8],
    /// What comes when these are at their end.
    rest: &'b [u8],
}

impl Walk<'_> {
    /// The symbol that comes next.
    pub(crate) fn next_symbol(&mut self) -> Option<u64> {
        self.go_on().then(|| self.symbol + (number(self.bytes).0 >> 4))
    }

    /// Whether there is more.
    fn go_on(&mut self) -> bool {
        if self.bytes.is_empty() {
            self.bytes = std::mem::take(&mut self.rest);
        }
        !self.bytes.is_empty()
    }

    /// Calls `each` with every symbol before `end` that is still to come, and its frequency.
    pub(crate) fn until(&mut self, end: u64, mut each: impl FnMut(u32, u32)) {
        while self.go_on() {
            // one byte or two, without asking which: there is no telling, and a wrong guess costs more than the work
            while let [first, second, ..] = self.bytes {
                let longer = first >> 7;
                if longer & second >> 7 != 0 {
                    break;
                }
                let value = u32::from(first & 127) | u32::from(second * longer) << 7;
                let symbol = self.symbol + u64::from(value >> 4);
                if symbol >= end {
                    return;
                }
                self.symbol = symbol;
                self.bytes = &self.bytes[1 + usize::from(longer)..];
                each(symbol as u32, value & 15);
            }
            if !self.bytes.is_empty() {
                let (value, len) = number(self.bytes);
                let symbol = self.symbol + (value >> 4);
                if symbol >= end {
                    return;
                }
                self.symbol = symbol;
                self.bytes = &self.bytes[len..];
                each(symbol as u32, (value & 15) as u32);
            }
        }
    }
}

/// The number that bytes begin with, and how many they are.
fn number(bytes: &[u8]) -> (u64, usize) {
    let mut value = 0;
    for (at, byte) in bytes.iter().enumerate() {
        value |= u64::from(byte & 127) << (7 * at);
        if byte & 128 == 0 {
            return (value, at + 1);
        }
    }
    (value, bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_goes_in_comes_out(mut symbols in proptest::collection::vec((any::<u32>(), 1..40u32), 0..100),
                                  packed in proptest::collection::vec(0..100usize, 0..4)) {
            symbols.sort_unstable();
            symbols.dedup_by_key(|(symbol, _)| *symbol);
            let mut postings = Postings::default();
            // another list's bytes lie before
            let mut shared = vec![255; 3];
            for (at, (symbol, frequency)) in symbols.iter().enumerate() {
                postings.push(*symbol, *frequency);
                if packed.contains(&at) {
                    let mut other = vec![255; at];
                    postings.pack(&shared, &mut other);
                    shared = other;
                }
            }
            let mut out = Vec::new();
            postings.each(&shared, |symbol, frequency| out.push((symbol, frequency)));
            prop_assert!(size_of::<Postings>() <= 40);
            let expected: Vec<(u32, u32)> = symbols.iter().map(|(s, f)| (*s, (*f).min(MOST))).collect();
            prop_assert_eq!(out, expected);
        }
    }
}
