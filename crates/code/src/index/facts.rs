//! What the index takes from a file, and how a symbol is shown again from it.

use std::borrow::Cow;
use std::ops::Range;

use super::words;
use crate::language::Language;
use crate::outline::{Kind, Symbol};
use crate::parse::Reader;

/// Larger files are left out: what is in them is tables.
const MAX_BYTES: usize = 1 << 20;
/// Bytes of a signature and of a doc comment whose words count.
const SIGNATURE: usize = 300;
const DOC: usize = 400;
/// Different words of one symbol.
const WORDS: usize = 64;
/// How much more a word counts in a name.
const IN_NAME: u8 = 3;

/// A symbol in 20 bytes: where it stands, to be read again from the file when it is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    /// Where the signature begins.
    start: u32,
    /// The line of its name, from 1.
    pub(crate) line: u32,
    /// How far before it the symbol begins.
    before: u16,
    signature: u16,
    /// Where in the signature the name is.
    name: u16,
    /// How many symbols before it the one around it is; 0: none.
    container: u16,
    name_len: u8,
    /// Words in it.
    pub(crate) len: u8,
    /// Kind and language; [`Self::DEAD`] when it has gone.
    pub(crate) tag: u8,
}

impl Record {
    pub(crate) const DEAD: u8 = u8::MAX;

    fn tag_of(kind: Kind, language: Language) -> u8 {
        kind as u8 | (language as u8) << 4
    }

    pub(crate) fn kind(&self) -> Kind {
        kind_of(self.tag)
    }

    pub(crate) fn language(&self) -> Language {
        language_of(self.tag)
    }

    /// How many symbols before it the one around it is.
    pub(crate) fn up(&self) -> Option<u32> {
        (self.container > 0).then_some(u32::from(self.container))
    }

    fn of(symbol: &Symbol, at: usize, language: Language) -> Self {
        let short = |n: usize| u16::try_from(n).unwrap_or(u16::MAX);
        let start = symbol.signature.start;
        let name = symbol.name_at.start.saturating_sub(start);
        let fits = name <= usize::from(u16::MAX) && symbol.name_at.len() <= 255;
        Self {
            start: u32::try_from(start).unwrap_or(u32::MAX),
            line: u32::try_from(symbol.line).unwrap_or(u32::MAX),
            // what stands before one of several declarations is not its documentation alone
            before: if symbol.shared { 0 } else { short(start.saturating_sub(symbol.full.start)) },
            signature: short(symbol.signature.len()),
            name: short(name),
            container: symbol.container.and_then(|up| u16::try_from(at - up).ok()).unwrap_or_default(),
            name_len: if fits { symbol.name_at.len() as u8 } else { 0 },
            len: 0,
            tag: Self::tag_of(symbol.kind, language),
        }
    }

    /// Where its name is.
    pub(crate) fn name_at(&self) -> Range<usize> {
        let start = self.start as usize + usize::from(self.name);
        start..start + usize::from(self.name_len)
    }

    /// The part of the file that holds what is shown of it.
    pub(crate) fn span(&self) -> Range<usize> {
        let start = self.start as usize;
        let end = (start + usize::from(self.signature)).max(self.name_at().end);
        // a docstring comes after the signature
        let more = if self.language() == Language::Python { DOC } else { 0 };
        start.saturating_sub(self.before.into())..end + more
    }

    /// The name, from a part of the file.
    pub(crate) fn name<'s>(&self, part: &'s Part) -> Cow<'s, str> {
        match self.name_len {
            0 => Cow::Borrowed("default"),
            _ => part.text(self.name_at()),
        }
    }

    /// The signature on one line, and the first line of the documentation.
    pub(crate) fn shown(&self, part: &Part) -> (String, String) {
        let start = self.start as usize;
        let end = start + usize::from(self.signature);
        let signature = one_line(&part.text(start..end), 200);
        let doc = match self.language() {
            Language::Python => docstring(part.bytes(end..end + DOC)),
            _ => None,
        };
        let doc = doc.unwrap_or_else(|| comment(&part.text(start.saturating_sub(self.before.into())..start)));
        (signature, one_line(&doc, 160))
    }
}

/// A part of a file.
pub(crate) struct Part {
    start: usize,
    bytes: Vec<u8>,
}

impl Part {
    pub(crate) fn new(
        at: Range<usize>,
        read: &mut impl FnMut(Range<usize>) -> Option<Vec<u8>>,
    ) -> Option<Self> {
        Some(Self { start: at.start, bytes: read(at)? })
    }

    /// What of a range of the file is here.
    fn bytes(&self, at: Range<usize>) -> &[u8] {
        let here = |at: usize| at.saturating_sub(self.start).min(self.bytes.len());
        &self.bytes[here(at.start)..here(at.end)]
    }

    fn text(&self, at: Range<usize>) -> Cow<'_, str> {
        String::from_utf8_lossy(self.bytes(at))
    }
}

pub(crate) fn kind_of(tag: u8) -> Kind {
    Kind::ALL.get(usize::from(tag & 15)).copied().unwrap_or(Kind::Variable)
}

pub(crate) fn language_of(tag: u8) -> Language {
    Language::ALL[usize::from(tag >> 4) % Language::ALL.len()]
}

fn one_line(text: &str, most: usize) -> String {
    let mut line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((end, _)) = line.char_indices().nth(most) {
        line.truncate(end);
        line.push('…');
    }
    line
}

/// The first line of the comments before a declaration; decorators and attributes, which may go over lines, are none.
fn comment(text: &str) -> String {
    let mut block = false;
    let said = |line: &str| {
        let line = line.trim();
        let opens = !block && line.starts_with("/*");
        let plain = line.starts_with("//") || line.starts_with('#') && !line.starts_with("#[");
        let within = block || opens || plain;
        block = (block || opens) && !line.contains("*/");
        let line = line.trim_start_matches(['/', '*', '!', '#']).trim_end_matches("*/").trim();
        let tells = line.chars().any(char::is_alphanumeric) && !line.starts_with('@');
        (within && tells).then(|| line.to_owned())
    };
    text.lines().find_map(said).unwrap_or_default()
}

/// The first line of the string that a Python body begins with.
fn docstring(body: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(&body[..body.len().min(DOC)]).into_owned();
    let text = text.trim_start();
    let text = text.trim_start_matches(['r', 'R', 'u', 'U']);
    let quote = ["\"\"\"", "'''", "\"", "'"].into_iter().find(|quote| text.starts_with(quote))?;
    let text = text[quote.len()..].trim_start();
    let text = text.split(quote).next().unwrap_or_default();
    text.lines().next().map(|line| line.trim().to_owned())
}

/// The symbols of one file with their words, ready for the index.
pub struct Facts {
    pub(crate) records: Vec<Record>,
    arena: String,
    /// End in the arena, and weight.
    words: Vec<(u32, u8)>,
    /// How many words, symbol by symbol.
    counts: Vec<u8>,
    complete: bool,
}

impl Facts {
    /// Takes a file apart.
    pub fn of(reader: &mut Reader, language: Language, source: &[u8]) -> Self {
        let mut facts = Self::left_out();
        if source.len() > MAX_BYTES {
            return facts;
        }
        let Some(symbols) = reader.items(language, source) else { return facts };
        facts.complete = true;
        let mut buffer = String::new();
        for (at, symbol) in symbols.iter().enumerate() {
            let mut record = Record::of(symbol, at, language);
            let from = facts.words.len();
            // the block around methods is there for its name only
            if symbol.kind != Kind::Impl {
                record.len = facts.add(symbol, language, source, &mut buffer);
            }
            facts.counts.push((facts.words.len() - from) as u8);
            facts.records.push(record);
        }
        facts
    }

    /// Those of a file that is not taken apart.
    #[must_use]
    pub fn left_out() -> Self {
        Self {
            records: Vec::new(),
            arena: String::new(),
            words: Vec::new(),
            counts: Vec::new(),
            complete: false,
        }
    }

    /// Whether the file was taken apart: it was not too large, and was parsed in time.
    #[must_use]
    pub fn complete(&self) -> bool {
        self.complete
    }

    /// How many symbols there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Adds the words of a symbol and counts them.
    fn add(&mut self, symbol: &Symbol, language: Language, source: &[u8], buffer: &mut String) -> u8 {
        let (from, mut count) = (self.words.len(), 0usize);
        let start = self.arena.len();
        let cut = |at: Range<usize>, most: usize| {
            let end = at.end.min(at.start + most).min(source.len());
            String::from_utf8_lossy(&source[at.start.min(end)..end])
        };
        let mut parts = 0;
        words::split(&symbol.name, buffer, |word| {
            parts += 1;
            self.word(from, start, word, IN_NAME);
        });
        count += parts;
        // a name that is asked for as a whole comes before those that have it as a part
        let whole = words::whole(&symbol.name);
        if whole.len() > 1 {
            self.word(from, start, &whole, IN_NAME);
        }
        // and of a name that is one word, that word counts as the whole does
        if parts == 1 && whole.len() > 2 {
            self.word(from, start, &whole[1..], IN_NAME);
        }
        let mut text = |text: &str, facts: &mut Self| {
            words::split(text, buffer, |word| {
                count += 1;
                facts.word(from, start, word, 1);
            });
        };
        text(symbol.owner.rsplit('.').next().unwrap_or_default(), self);
        text(&cut(symbol.signature.start..symbol.name_at.start.max(symbol.signature.start), SIGNATURE), self);
        let behind = symbol.name_at.end.clamp(symbol.signature.start, symbol.signature.end);
        text(&cut(behind..symbol.signature.end, SIGNATURE), self);
        if !symbol.shared {
            text(&cut(symbol.full.start..symbol.signature.start, DOC), self);
        }
        if language == Language::Python
            && let Some(body) = &symbol.body
            && let Some(doc) = docstring(&source[body.clone()])
        {
            text(&doc, self);
        }
        u8::try_from(count).unwrap_or(u8::MAX)
    }

    fn word(&mut self, from: usize, start: usize, word: &str, weight: u8) {
        let mut at = start;
        for (end, total) in &mut self.words[from..] {
            if self.arena[at..*end as usize] == *word {
                *total = total.saturating_add(weight);
                return;
            }
            at = *end as usize;
        }
        if self.words.len() - from < WORDS {
            self.arena.push_str(word);
            self.words.push((self.arena.len() as u32, weight));
        }
    }

    /// Calls `each` with every symbol and its words, in order.
    pub(crate) fn each(&self, mut each: impl FnMut(usize, &str, u32)) {
        let (mut at, mut words) = (0, self.words.iter());
        for (symbol, count) in self.counts.iter().enumerate() {
            for (end, weight) in words.by_ref().take(usize::from(*count)) {
                each(symbol, &self.arena[at..*end as usize], u32::from(*weight));
                at = *end as usize;
            }
        }
    }
}
