//! One pack a snapshot: git's pack format without deltas, and its index (version 2).

use super::object::{Kind, Oid};
use flate2::{Compress, Compression, Crc, FlushCompress, Status};
use rustix::fs::Advice;
use sha1::{Digest, Sha1};
use std::{
    collections::HashMap,
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom, Write},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};
use tempfile::NamedTempFile;

const HEADER: usize = 12;
pub(super) const CHUNK: usize = 64 * 1024;
/// Below this a pack is built in memory and written at once.
const SPILL: usize = 32 << 20;

/// Bytes of a pack in the making: in memory, then on disk.
struct Spool {
    memory: Vec<u8>,
    file: Option<NamedTempFile>,
    folder: PathBuf,
    length: u64,
}

impl Spool {
    fn push(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.memory.extend_from_slice(bytes);
        self.length += bytes.len() as u64;
        if self.memory.len() > SPILL {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.file.is_none() {
            self.file = Some(temporary(&self.folder)?);
        }
        if let Some(file) = &mut self.file {
            file.seek(SeekFrom::End(0))?;
            file.write_all(&self.memory)?;
            self.memory.clear();
        }
        Ok(())
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        let on_disk = self.length - self.memory.len() as u64;
        if length >= on_disk {
            self.memory.truncate(usize::try_from(length - on_disk).map_err(io::Error::other)?);
        } else if let Some(file) = &self.file {
            self.memory.clear();
            file.as_file().set_len(length)?;
        }
        self.length = length;
        Ok(())
    }
}

/// A file in `folder` that a crash leaves under a name which the next start removes.
pub(super) fn temporary(folder: &Path) -> io::Result<NamedTempFile> {
    tempfile::Builder::new().prefix(super::store::TEMPORARY).tempfile_in(folder)
}

/// Content up to this is kept as it is: making a compressor forget the object before costs far more than writing it.
const PLAIN: usize = 4096;

/// An object as it stands in a pack.
pub(crate) struct Object {
    bytes: Vec<u8>,
    pub(super) crc: u32,
}

impl Object {
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        let mut crc = Crc::new();
        crc.update(&bytes);
        Self { bytes, crc: crc.sum() }
    }
}

/// Makes objects as they stand in a pack. Threads that read many files have one each.
#[derive(Default)]
pub(crate) struct Packer {
    /// Made for the first object that needs it: its tables are large.
    deflate: Option<Compress>,
    scratch: Vec<u8>,
}

impl Packer {
    fn deflate(&mut self) -> &mut Compress {
        // A state made anew for each object costs more than deflating a small file.
        self.deflate.get_or_insert_with(|| Compress::new(Compression::new(1), true))
    }

    /// The whole object, header and all.
    pub(crate) fn object(&mut self, kind: Kind, content: &[u8]) -> io::Result<Object> {
        if content.len() <= PLAIN {
            return Ok(Object::new(plain(kind, content)));
        }
        let mut out = Vec::with_capacity(content.len() / 2 + 32);
        let mut push = |bytes: &[u8]| {
            out.extend_from_slice(bytes);
            Ok(())
        };
        self.start(kind, content.len() as u64, &mut push)?;
        self.squeeze(content, FlushCompress::Finish, &mut push)?;
        Ok(Object::new(out))
    }

    fn start(&mut self, kind: Kind, size: u64, push: &mut Push<'_>) -> io::Result<()> {
        self.deflate().reset();
        push(&header(kind, size))
    }

    fn squeeze(&mut self, mut input: &[u8], flush: FlushCompress, push: &mut Push<'_>) -> io::Result<()> {
        // The scratch buffer keeps its capacity, so nothing is zero-filled twice.
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.reserve(CHUNK);
        let deflate = self.deflate();
        let done = loop {
            scratch.clear();
            let before = deflate.total_in();
            let status = deflate.compress_vec(input, &mut scratch, flush).map_err(io::Error::other)?;
            let used = usize::try_from(deflate.total_in() - before).map_err(io::Error::other)?;
            input = &input[used..];
            push(&scratch)?;
            let done = match flush {
                FlushCompress::Finish => status == Status::StreamEnd,
                _ => input.is_empty() && scratch.len() < scratch.capacity(),
            };
            if done {
                break Ok(());
            }
        };
        self.scratch = scratch;
        done
    }
}

/// An object's own header: kind and size in groups of seven bits.
fn header(kind: Kind, size: u64) -> Vec<u8> {
    let mut rest = size >> 4;
    let mut header = vec![(kind as u8) << 4 | (size & 15) as u8];
    while rest > 0 {
        if let Some(last) = header.last_mut() {
            *last |= 0x80;
        }
        header.push((rest & 0x7f) as u8);
        rest >>= 7;
    }
    header
}

/// A small object whole, in one block that is not compressed: two bytes of zlib's header, the block's own five, the
/// content and its checksum.
fn plain(kind: Kind, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).unwrap_or(u16::MAX);
    let mut out = header(kind, content.len() as u64);
    out.reserve_exact(content.len() + 11);
    out.extend_from_slice(&[0x78, 0x01, 0x01]);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&(!length).to_le_bytes());
    out.extend_from_slice(content);
    out.extend_from_slice(&adler32(content).to_be_bytes());
    out
}

/// The checksum of RFC 1950, for content that is short enough to be summed without dividing in between.
fn adler32(content: &[u8]) -> u32 {
    const BASE: u32 = 65_521;
    let (mut low, mut high) = (1u32, 0u32);
    for part in content.chunks(5552) {
        for &byte in part {
            low += u32::from(byte);
            high += low;
        }
        (low, high) = (low % BASE, high % BASE);
    }
    high << 16 | low
}

type Push<'a> = dyn FnMut(&[u8]) -> io::Result<()> + 'a;

/// Collects the new objects of one snapshot.
pub(crate) struct PackWriter {
    spool: Spool,
    objects: Vec<(Oid, u64, u32)>,
    offsets: HashMap<Oid, u64>,
    /// The trees among them, which may be asked for before they are in the store.
    trees: HashMap<Oid, Vec<u8>>,
    packer: Packer,
}

impl PackWriter {
    /// A writer whose pack will stand in `folder`.
    pub(crate) fn new(folder: &Path) -> Self {
        let spool =
            Spool { memory: vec![0; HEADER], file: None, folder: folder.to_owned(), length: HEADER as u64 };
        Self {
            spool,
            objects: Vec::new(),
            offsets: HashMap::new(),
            trees: HashMap::new(),
            packer: Packer::default(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    pub(crate) fn contains(&self, id: &Oid) -> bool {
        self.offsets.contains_key(id)
    }

    /// Adds an object whose id is known.
    pub(crate) fn put(&mut self, kind: Kind, id: Oid, content: &[u8]) -> io::Result<()> {
        if self.contains(&id) {
            return Ok(());
        }
        let object = self.packer.object(kind, content)?;
        if kind == Kind::Tree {
            self.trees.insert(id, content.to_vec());
        }
        self.put_object(id, &object)
    }

    /// The content of a tree that was put here.
    pub(crate) fn tree(&self, id: &Oid) -> Option<&[u8]> {
        self.trees.get(id).map(Vec::as_slice)
    }

    /// Adds a blob of `size` bytes from `source` without holding it in memory. `None` when the source had
    /// another size: it was changed while being read.
    pub(crate) fn put_stream(&mut self, mut source: impl Read, size: u64) -> io::Result<Option<Oid>> {
        let at = self.spool.length;
        let mut crc = Crc::new();
        let mut hash = Kind::Blob.hasher(size);
        let mut seen = 0;
        {
            let Self { spool, packer, .. } = self;
            let mut push = |bytes: &[u8]| {
                crc.update(bytes);
                spool.push(bytes)
            };
            packer.start(Kind::Blob, size, &mut push)?;
            let mut chunk = vec![0; CHUNK];
            while seen <= size {
                let got = source.read(&mut chunk)?;
                if got == 0 {
                    break;
                }
                seen += got as u64;
                hash.update(&chunk[..got]);
                packer.squeeze(&chunk[..got], FlushCompress::None, &mut push)?;
            }
            packer.squeeze(&[], FlushCompress::Finish, &mut push)?;
        }
        if seen != size {
            self.spool.truncate(at)?;
            return Ok(None);
        }
        let id = Oid(hash.finalize().into());
        if self.contains(&id) {
            self.spool.truncate(at)?;
        } else {
            self.record(id, at, crc.sum());
        }
        Ok(Some(id))
    }

    /// Adds an object that was made elsewhere.
    pub(crate) fn put_object(&mut self, id: Oid, object: &Object) -> io::Result<()> {
        if self.contains(&id) {
            return Ok(());
        }
        let at = self.spool.length;
        self.spool.push(&object.bytes)?;
        self.record(id, at, object.crc);
        Ok(())
    }

    fn record(&mut self, id: Oid, at: u64, crc: u32) {
        self.objects.push((id, at, crc));
        self.offsets.insert(id, at);
    }

    /// Writes pack and index aside. What they are is not on disk yet, and nobody sees them before they are published.
    pub(crate) fn write(mut self) -> io::Result<Written> {
        let count = u32::try_from(self.objects.len()).map_err(io::Error::other)?;
        let mut header = *b"PACK\0\0\0\x02\0\0\0\0";
        header[8..].copy_from_slice(&count.to_be_bytes());
        let folder = self.spool.folder.clone();
        let (pack, content, trailer) = if self.spool.file.is_none() {
            self.spool.memory[..HEADER].copy_from_slice(&header);
            let trailer: [u8; 20] = Sha1::digest(&self.spool.memory).into();
            self.spool.memory.extend_from_slice(&trailer);
            (None, self.spool.memory, trailer)
        } else {
            self.spool.flush()?;
            let mut pack = self.spool.file.take().ok_or_else(|| io::Error::other("no pack file"))?;
            pack.as_file().write_all_at(&header, 0)?;
            pack.seek(SeekFrom::Start(0))?;
            let trailer = digest(&mut pack)?;
            pack.write_all(&trailer)?;
            (Some(pack), Vec::new(), trailer)
        };
        self.objects.sort_unstable_by_key(|object| object.0);
        let objects = self.objects.iter().map(|(id, at, _)| (*id, *at)).collect();
        let place = folder.join(format!("pack-{}.pack", Oid(trailer)));
        let index = encode_index(&self.objects, &trailer);
        let index = Part::new(&folder, place.with_extension("idx"), index);
        Ok(Written {
            pack: Part { aside: pack, content, ..Part::new(&folder, place, Vec::new()) },
            index,
            objects,
        })
    }
}

/// A file of the store in the making: in memory, or written aside.
pub(super) struct Part {
    content: Vec<u8>,
    aside: Option<NamedTempFile>,
    /// Where it is written aside.
    folder: PathBuf,
    pub(super) place: PathBuf,
}

impl Part {
    pub(super) fn new(folder: &Path, place: PathBuf, content: Vec<u8>) -> Self {
        Self { content, aside: None, folder: folder.to_owned(), place }
    }

    /// What is in memory of it.
    pub(super) fn content(&self) -> Option<&[u8]> {
        self.aside.is_none().then_some(&self.content)
    }

    /// A file of its content, which has no place yet.
    pub(super) fn write(&self) -> io::Result<NamedTempFile> {
        let mut file = temporary(&self.folder)?;
        file.write_all(&self.content)?;
        Ok(file)
    }

    /// Writes it aside, when it is not.
    pub(super) fn put_aside(&mut self) -> io::Result<()> {
        if self.aside.is_none() {
            self.aside = Some(self.write()?);
            self.content = Vec::new();
        }
        Ok(())
    }

    /// Where it was written aside.
    pub(super) fn aside(&self) -> Option<&NamedTempFile> {
        self.aside.as_ref()
    }

    /// Puts it in its place.
    pub(super) fn persist(mut self) -> io::Result<File> {
        self.put_aside()?;
        let aside = self.aside.ok_or_else(|| io::Error::other("nothing was written"))?;
        Ok(aside.persist(self.place)?)
    }
}

/// A pack that is written but has no name yet.
pub(crate) struct Written {
    pub(super) pack: Part,
    pub(super) index: Part,
    pub(super) objects: Vec<(Oid, u64)>,
}

/// The SHA-1 of everything that can be read.
fn digest(mut source: impl Read) -> io::Result<[u8; 20]> {
    let mut hash = Sha1::new();
    let mut chunk = vec![0; CHUNK];
    loop {
        let got = source.read(&mut chunk)?;
        if got == 0 {
            return Ok(hash.finalize().into());
        }
        hash.update(&chunk[..got]);
    }
}

/// Whether a pack and its index are what was written, to the last byte.
pub(super) fn is_sound(index: &Path) -> bool {
    let read = || -> io::Result<bool> {
        let index_bytes = fs::read(index)?;
        let mut pack = File::open(index.with_extension("pack"))?;
        let length = pack.metadata()?.len();
        let (Some((start, end)), Some(content)) =
            (index_bytes.split_last_chunk::<20>(), length.checked_sub(20))
        else {
            return Ok(false);
        };
        let sum = digest((&mut pack).take(content))?;
        let mut trailer = [0; 20];
        pack.read_exact(&mut trailer)?;
        Ok(sum == trailer && digest(start)? == *end && start.ends_with(&trailer))
    };
    read().unwrap_or(false)
}

/// What may not be on disk yet.
#[derive(Clone, Copy)]
pub(super) enum Unsynced<'f> {
    /// A file, or the names in a folder.
    File(&'f File),
    /// Everything on the file system that this lies on.
    System(&'f File),
}

impl Unsynced<'_> {
    /// Has its content on its way without waiting for it.
    fn begin(self) {
        if let Self::File(file) = self {
            // What is not needed in memory the kernel begins to write. If it does not, the wait is longer.
            let _ = rustix::fs::fadvise(file, 0, None, Advice::DontNeed);
        }
    }

    fn wait(self) -> io::Result<()> {
        match self {
            Self::File(file) => file.sync_all(),
            Self::System(file) => Ok(rustix::fs::syncfs(file)?),
        }
    }
}

/// Waits until all of these are on disk. Together: the disk's journal takes what comes at once in one go, if all of it
/// is there when it begins.
pub(super) fn sync_all(files: &[Unsynced<'_>]) -> io::Result<()> {
    const AT_ONCE: usize = 8;
    files.iter().for_each(|file| file.begin());
    let sync = |part: &[Unsynced<'_>]| part.iter().try_for_each(|file| file.wait());
    let Some((first, rest)) = files.split_first() else { return Ok(()) };
    let died = || Err(io::Error::other("a thread that waited for the disk died"));
    std::thread::scope(|scope| {
        let share = rest.len().div_ceil(AT_ONCE - 1).max(1);
        let running: Vec<_> = rest.chunks(share).map(|part| scope.spawn(move || sync(part))).collect();
        let done = first.wait();
        running.into_iter().map(|thread| thread.join().unwrap_or_else(|_| died())).fold(done, io::Result::and)
    })
}

fn encode_index(objects: &[(Oid, u64, u32)], pack: &[u8; 20]) -> Vec<u8> {
    let mut out = b"\xfftOc\0\0\0\x02".to_vec();
    let mut upto = 0;
    for first in 0..=255u8 {
        while objects.get(upto).is_some_and(|object| object.0.0[0] <= first) {
            upto += 1;
        }
        out.extend_from_slice(&u32::try_from(upto).unwrap_or(u32::MAX).to_be_bytes());
    }
    objects.iter().for_each(|(id, _, _)| out.extend_from_slice(&id.0));
    objects.iter().for_each(|(_, _, crc)| out.extend_from_slice(&crc.to_be_bytes()));
    let mut large = Vec::new();
    for (_, at, _) in objects {
        let word = match u32::try_from(*at) {
            Ok(small) if small < 1 << 31 => small,
            _ => {
                large.extend_from_slice(&at.to_be_bytes());
                u32::try_from(large.len() / 8 - 1).unwrap_or(0) | 1 << 31
            }
        };
        out.extend_from_slice(&word.to_be_bytes());
    }
    out.extend_from_slice(&large);
    out.extend_from_slice(pack);
    let trailer: [u8; 20] = Sha1::digest(&out).into();
    out.extend_from_slice(&trailer);
    out
}

#[cfg(test)]
mod tests {
    use super::super::packed::{Inflater, Pack, decode_index};
    use super::*;

    #[test]
    fn objects_come_back_from_a_pack() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = PackWriter::new(folder.path());
        let big: Vec<u8> = (0..300_000u32).flat_map(|n| (n / 7 * 31).to_le_bytes()).collect();
        let contents: [&[u8]; 4] = [b"", b"one\n", &[0xff; 70_000], &big];
        for content in contents {
            writer.put(Kind::Blob, Kind::Blob.id(content), content).unwrap();
        }
        let streamed = writer.put_stream(&b"streamed"[..], 8).unwrap().unwrap();
        assert_eq!(streamed, Kind::Blob.id(b"streamed"));
        assert_eq!(writer.put_stream(&b"shrunk"[..], 8).unwrap(), None);
        assert_eq!(writer.put_stream(&b"grown beyond"[..], 8).unwrap(), None);
        let Written { pack, index, objects } = writer.write().unwrap();
        let place = pack.place.clone();
        pack.persist().unwrap();
        index.persist().unwrap();
        let pack = Pack::new(place, objects).unwrap();
        let again = Pack::open(&pack.path.with_extension("idx")).unwrap();
        assert_eq!(again.objects(), pack.objects());
        assert!(is_sound(&pack.path.with_extension("idx")));
        for content in contents.into_iter().chain([&b"streamed"[..]]) {
            let mut out = Vec::new();
            let at = again.objects()[again.find(&Kind::Blob.id(content)).unwrap()].1;
            assert_eq!(
                again.copy(at, &mut Inflater::new(), &mut out).unwrap(),
                (Kind::Blob, content.len() as u64)
            );
            assert!(out == content);
        }
    }

    #[test]
    fn every_object_is_found_and_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pack-x.pack");
        fs::write(&path, [0; 20]).unwrap();
        let spread = |n: u64| Kind::Blob.id(&n.to_le_bytes());
        // Also where ids are anything but spread evenly.
        let crowded = |n: u64| Oid(std::array::from_fn(|at| if at == 19 { n as u8 } else { 7 }));
        let steps = |n: u64| Oid(std::array::from_fn(|at| if at == 0 { (n % 256) as u8 } else { 0 }));
        let kinds: [&dyn Fn(u64) -> Oid; 3] = [&spread, &crowded, &steps];
        for make in kinds {
            for count in [0, 1, 2, 3, 50, 200] {
                let mut objects: Vec<(Oid, u64)> = (0..count).map(|n| (make(n), n)).collect();
                objects.sort_unstable();
                let pack = Pack::new(path.clone(), objects).unwrap();
                for n in 0..count + 20 {
                    let found = pack.find(&make(n)).map(|at| pack.objects()[at].1);
                    assert_eq!(found, (n < count).then_some(n), "{count} {n}");
                }
            }
        }
    }

    #[test]
    fn damage_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = PackWriter::new(folder.path());
        writer.put(Kind::Blob, Kind::Blob.id(b"one"), b"one").unwrap();
        let Written { pack, index, .. } = writer.write().unwrap();
        let [(pack, whole), (index, names)] = [pack, index].map(|part| {
            let place = part.place.clone();
            part.persist().unwrap();
            (place.clone(), fs::read(place).unwrap())
        });
        assert!(is_sound(&index));
        for (path, bytes) in [(&pack, &whole), (&index, &names)] {
            for length in [0, 10, 20, bytes.len() - 1] {
                fs::write(path, &bytes[..length]).unwrap();
                assert!(!is_sound(&index), "{path:?} {length}");
            }
            for at in 0..bytes.len() {
                let mut other = bytes.clone();
                other[at] ^= 1;
                fs::write(path, other).unwrap();
                assert!(!is_sound(&index), "{path:?} {at}");
            }
            fs::write(path, bytes).unwrap();
        }
        assert!(is_sound(&index));
        fs::remove_file(pack).unwrap();
        assert!(!is_sound(&index));
    }

    #[test]
    fn a_damaged_index_is_an_error() {
        let objects = [(Kind::Blob.id(b"a"), 12, 1), (Kind::Blob.id(b"b"), 5 << 32, 2)];
        let bytes = encode_index(&objects, &[7; 20]);
        assert_eq!(
            decode_index(&bytes).unwrap(),
            [(Kind::Blob.id(b"a"), 12), (Kind::Blob.id(b"b"), 5 << 32)].to_vec()
        );
        for cut in 0..bytes.len() - 48 {
            assert!(decode_index(&bytes[..cut]).is_none());
        }
    }
}
