//! Places to redact, and the count of what was redacted.

/// A place in a text that must not leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// Index into the scrubber's kinds; where spans overlap, the highest names the whole.
    pub(crate) kind: usize,
}

/// Sorts the spans and unites those that overlap.
pub(crate) fn unite(spans: &mut Vec<Span>) {
    if spans.len() < 2 {
        return;
    }
    spans.sort_unstable_by_key(|span| (span.start, span.end));
    let mut kept = 0;
    for next in 1..spans.len() {
        let span = spans[next];
        let last = &mut spans[kept];
        if span.start < last.end {
            last.end = last.end.max(span.end);
            last.kind = last.kind.max(span.kind);
        } else {
            kept += 1;
            spans[kept] = span;
        }
    }
    spans.truncate(kept + 1);
}

/// How often one type of secret was redacted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    /// The type: a rule's name, a pattern's name, `assignment`, or `secret` for a configured value.
    pub kind: String,
    /// How many places were replaced.
    pub count: u64,
    /// How many bytes of the original text they held.
    pub bytes: u64,
}

/// What was redacted, by type.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hits(Vec<Hit>);

impl Hits {
    pub(crate) fn add(&mut self, kind: &str, bytes: usize) {
        let bytes = bytes as u64;
        match self.0.iter_mut().find(|hit| hit.kind == kind) {
            Some(hit) => {
                hit.count += 1;
                hit.bytes += bytes;
            }
            None => self.0.push(Hit { kind: kind.to_owned(), count: 1, bytes }),
        }
    }

    /// Adds what another text had.
    pub fn merge(&mut self, other: Self) {
        for theirs in other.0 {
            match self.0.iter_mut().find(|hit| hit.kind == theirs.kind) {
                Some(hit) => {
                    hit.count += theirs.count;
                    hit.bytes += theirs.bytes;
                }
                None => self.0.push(theirs),
            }
        }
    }

    /// Whether nothing was redacted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One entry per type.
    pub fn iter(&self) -> impl Iterator<Item = &Hit> {
        self.0.iter()
    }

    /// How many places of this type were redacted.
    #[must_use]
    pub fn count(&self, kind: &str) -> u64 {
        self.0.iter().find(|hit| hit.kind == kind).map_or(0, |hit| hit.count)
    }
}
