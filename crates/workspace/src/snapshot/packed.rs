//! Reading packs.

use super::object::{Kind, Oid};
use super::pack::CHUNK;
use flate2::{Crc, Decompress, FlushDecompress, Status};
use std::{
    fs::{self, File},
    io::{self, Write},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU8, Ordering},
};

/// Ids and offsets of an index; `None` when it is malformed.
pub(super) fn decode_index(bytes: &[u8]) -> Option<Vec<(Oid, u64)>> {
    let word = |at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    if bytes.get(..8)? != b"\xfftOc\0\0\0\x02" {
        return None;
    }
    let count = word(8 + 255 * 4)? as usize;
    let ids = 8 + 256 * 4;
    let offsets = ids + count.checked_mul(24)?;
    let large = offsets + count * 4;
    let mut out = Vec::with_capacity(count.min(bytes.len() / 24));
    for n in 0..count {
        let id = Oid(bytes.get(ids + n * 20..ids + n * 20 + 20)?.try_into().ok()?);
        let offset = word(offsets + n * 4)?;
        let offset = if offset >> 31 == 0 {
            u64::from(offset)
        } else {
            let at = large + (offset & 0x7fff_ffff) as usize * 8;
            u64::from_be_bytes(bytes.get(at..at + 8)?.try_into().ok()?)
        };
        out.push((id, offset));
    }
    Some(out)
}

/// The checksums of an index, in the order of its objects.
fn decode_sums(bytes: &[u8], count: usize) -> Option<Vec<u32>> {
    let start = 8 + 256 * 4 + count * 20;
    let sums = bytes.get(start..start + count * 4)?.as_chunks().0;
    Some(sums.iter().map(|sum| u32::from_be_bytes(*sum)).collect())
}

/// What inflating takes; made once for many objects.
pub(crate) struct Inflater {
    inflate: Decompress,
    input: Vec<u8>,
    output: Vec<u8>,
}

impl Inflater {
    pub(crate) fn new() -> Self {
        Self { inflate: Decompress::new(true), input: vec![0; CHUNK], output: Vec::with_capacity(CHUNK) }
    }
}

/// A finished pack.
pub(crate) struct Pack {
    pub(crate) path: PathBuf,
    file: File,
    objects: Vec<(Oid, u64)>,
    sieve: Sieve,
    /// Where objects begin and the last one ends, sorted.
    bounds: Vec<u64>,
    /// What the index says of each object's bytes, and what was found. Of what this process wrote itself nothing.
    sums: Vec<(u32, AtomicU8)>,
}

/// What is known of an object's bytes.
const UNSEEN: u8 = 0;
const SOUND: u8 = 1;
const DAMAGED: u8 = 2;

/// Tells of most ids that are not in a pack that they are not. Every pack is asked for every object, and there are many.
struct Sieve(Vec<u64>);

impl Sieve {
    /// Bits for an id.
    const ROOM: usize = 16;

    fn new(objects: &[(Oid, u64)]) -> Self {
        let words = (objects.len() * Self::ROOM / 64).next_power_of_two();
        let mut sieve = Self(vec![0; words]);
        for (id, _) in objects {
            let (word, bit) = sieve.place(id);
            sieve.0[word] |= bit;
        }
        sieve
    }

    /// Ids are spread evenly: their own bits say where.
    fn place(&self, id: &Oid) -> (usize, u64) {
        let number = id.start() as usize;
        (number / 64 % self.0.len(), 1 << (number % 64))
    }

    fn lets(&self, id: &Oid) -> bool {
        let (word, bit) = self.place(id);
        self.0[word] & bit != 0
    }
}

impl Pack {
    /// Opens a pack by its index.
    pub(crate) fn open(index: &Path) -> io::Result<Self> {
        let bad =
            || io::Error::new(io::ErrorKind::InvalidData, format!("{}: not a pack index", index.display()));
        let bytes = fs::read(index)?;
        let objects = decode_index(&bytes).ok_or_else(bad)?;
        let sums = decode_sums(&bytes, objects.len()).ok_or_else(bad)?;
        let mut pack = Self::new(index.with_extension("pack"), objects)?;
        pack.sums = sums.into_iter().map(|sum| (sum, AtomicU8::new(UNSEEN))).collect();
        // Both end with the same sum of the pack's content: one that was cut off does not.
        let mut sum = [0; 20];
        pack.file.read_exact_at(&mut sum, pack.size())?;
        if bytes.strip_suffix(&bytes[bytes.len() - 20..]).is_some_and(|bytes| bytes.ends_with(&sum)) {
            return Ok(pack);
        }
        Err(bad())
    }

    /// The pack of this name that holds these objects.
    pub(super) fn new(path: PathBuf, objects: Vec<(Oid, u64)>) -> io::Result<Self> {
        let file = File::open(&path)?;
        let mut bounds: Vec<u64> = objects.iter().map(|(_, at)| *at).collect();
        bounds.push(file.metadata()?.len().saturating_sub(20));
        bounds.sort_unstable();
        let sieve = Sieve::new(&objects);
        Ok(Self { path, file, objects, sieve, bounds, sums: Vec::new() })
    }

    /// How many bytes the object at `offset` takes.
    fn length(&self, offset: u64) -> u64 {
        let next = self.bounds.partition_point(|at| *at <= offset);
        self.bounds.get(next).map_or(0, |end| end - offset)
    }

    /// Bytes of all its objects.
    pub(crate) fn size(&self) -> u64 {
        self.bounds.last().copied().unwrap_or(0)
    }

    /// Bytes of those of its objects that are wanted.
    pub(crate) fn size_of(&self, wanted: impl Fn(&Oid) -> bool) -> u64 {
        self.objects.iter().filter(|(id, _)| wanted(id)).map(|(_, at)| self.length(*at)).sum()
    }

    /// Ids and offsets, sorted by id.
    pub(crate) fn objects(&self) -> &[(Oid, u64)] {
        &self.objects
    }

    /// The bytes of the object at `offset` as they stand in the pack.
    pub(crate) fn raw(&self, offset: u64) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(self.length(offset)).map_err(io::Error::other)?];
        self.file.read_exact_at(&mut bytes, offset)?;
        Ok(bytes)
    }

    /// Whether the bytes of an object are what they were when they were written, as far as that is known.
    pub(crate) fn known_sound(&self, at: usize) -> Option<bool> {
        let known = self.sums.get(at).map_or(SOUND, |(_, known)| known.load(Ordering::Relaxed));
        (known != UNSEEN).then_some(known == SOUND)
    }

    /// The same for one who has to know. Its bytes are read once: this is about what became of them before this process
    /// came.
    pub(crate) fn is_sound(&self, at: usize) -> bool {
        self.known_sound(at).unwrap_or_else(|| {
            let sum = self.objects.get(at).and_then(|(_, offset)| self.sum(*offset).ok());
            let sound = sum.is_some_and(|sum| self.has_sum(at, sum));
            if let Some((_, known)) = self.sums.get(at) {
                known.store(if sound { SOUND } else { DAMAGED }, Ordering::Relaxed);
            }
            sound
        })
    }

    /// Whether the index says this of an object's bytes.
    pub(crate) fn has_sum(&self, at: usize, sum: u32) -> bool {
        self.sums.get(at).is_none_or(|(right, _)| *right == sum)
    }

    /// The checksum of the object at `offset`.
    fn sum(&self, mut offset: u64) -> io::Result<u32> {
        let mut left = usize::try_from(self.length(offset)).map_err(io::Error::other)?;
        let mut bytes = vec![0; left.min(CHUNK)];
        let mut sum = Crc::new();
        while left > 0 {
            let part = &mut bytes[..left.min(CHUNK)];
            self.file.read_exact_at(part, offset)?;
            sum.update(part);
            left -= part.len();
            offset += part.len() as u64;
        }
        Ok(sum.sum())
    }

    /// Which of its objects has this id.
    pub(crate) fn find(&self, id: &Oid) -> Option<usize> {
        if !self.sieve.lets(id) {
            return None;
        }
        // Their place is known within a few, and numbers are compared faster than bytes.
        let wanted = id.start();
        let all = &self.objects[..];
        let guess = ((u128::from(wanted) * all.len() as u128) >> 64) as usize;
        let reach = all.len().isqrt() + 4;
        let (mut from, mut to) = (guess.saturating_sub(reach), (guess + reach).min(all.len()));
        if all.get(from).is_some_and(|(first, _)| first.start() >= wanted) {
            from = 0;
        }
        if all.get(to).is_some_and(|(next, _)| next.start() < wanted) {
            to = all.len();
        }
        let at = from + all[from..to].partition_point(|(other, _)| other.start() < wanted);
        let same = all[at..].iter().take_while(|(other, _)| other.start() == wanted);
        same.zip(at..).find(|((other, _), _)| other == id).map(|(_, at)| at)
    }

    /// Inflates the object at `offset` into `sink`; its kind and size.
    pub(crate) fn copy(
        &self,
        offset: u64,
        tools: &mut Inflater,
        mut sink: impl Write,
    ) -> io::Result<(Kind, u64)> {
        let bad = || io::Error::new(io::ErrorKind::InvalidData, format!("{}: damaged", self.path.display()));
        let Inflater { inflate, input, output } = tools;
        inflate.reset(true);
        // No more than the object: most are far smaller than the buffer.
        let first = usize::try_from(self.length(offset)).unwrap_or(CHUNK).min(CHUNK);
        let mut got = self.file.read_at(&mut input[..first], offset)?;
        let mut at = 0;
        let first = *input.first().filter(|_| got > 0).ok_or_else(bad)?;
        let kind = Kind::from_code(first >> 4 & 7).ok_or_else(bad)?;
        let mut size = u64::from(first & 15);
        let (mut byte, mut shift) = (first, 4);
        while byte & 0x80 != 0 {
            at += 1;
            byte = *input.get(at).filter(|_| shift < 60).ok_or_else(bad)?;
            size |= u64::from(byte & 0x7f) << shift;
            shift += 7;
        }
        let mut from = offset;
        at += 1;
        loop {
            output.clear();
            let before = inflate.total_in();
            let status =
                inflate.decompress_vec(&input[at..got], output, FlushDecompress::None).map_err(|_| bad())?;
            let used = usize::try_from(inflate.total_in() - before).map_err(io::Error::other)?;
            at += used;
            sink.write_all(output)?;
            match status {
                Status::StreamEnd if inflate.total_out() == size => return Ok((kind, size)),
                Status::StreamEnd => return Err(bad()),
                _ if at == got => {
                    from += got as u64;
                    got = self.file.read_at(input, from)?;
                    at = 0;
                    if got == 0 {
                        return Err(bad());
                    }
                }
                _ if used == 0 && output.is_empty() => return Err(bad()),
                _ => {}
            }
        }
    }
}
