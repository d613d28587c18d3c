//! Memory that reading an object takes, known before it is read.
//!
//! A pack stores most objects as a delta of another object. To read one, Git and the libraries need the whole base, the
//! delta and the result at once. A delta of a few bytes can have a result of gigabytes, and a small object a large base. The
//! sizes are declared at the start of each delta, so they cost a few inflated bytes (`docs/adr/0035-bound-the-memory-of-git.md`).

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use cache::IdleCache;
use flate2::{Decompress, FlushDecompress};
use gix::odb::pack;
use gix::odb::pack::data::entry::Header;
use parsers::delta::{DeltaSizes, MAX_SIZES_LENGTH};

use super::error::absent;
use super::{Error, OBJECT_TOO_LARGE, Oid, Result};

/// Maximum memory for reading an object in this process, in bytes. Larger objects are read by a program with a limit.
pub(super) const MAX_IN_PROCESS_BYTES: u64 = 12 << 20;

/// Maximum number of deltas between an object and its base. Git creates at most 4,095.
const MAX_DEPTH: usize = 10_000;
/// Number of compressed bytes that contain the declared sizes of a delta, with room for large Huffman tables.
const COMPRESSED_BYTES: u64 = 1024;
/// Size in bytes from which programs that read many objects stream a file (`core.bigFileThreshold`).
pub(super) const STREAMED_BYTES: u64 = 1 << 20;
/// Number of repositories whose packs stay open.
const OPEN_REPOSITORIES: u32 = 128;
/// Time after which the packs of an unused repository are closed.
const IDLE: Duration = Duration::from_secs(300);

/// The open packs of repositories.
static OPENED: LazyLock<IdleCache<PathBuf, Arc<ObjectMemory>>> =
    LazyLock::new(|| IdleCache::new(OPEN_REPOSITORIES, IDLE));

/// Checks that reading an object in this process takes little memory.
///
/// # Errors
/// [`Error::LimitExceeded`], [`Error::ObjectNotFound`].
pub(super) fn check(repository: &git2::Repository, id: Oid) -> Result<()> {
    if needed(repository, id)?.bytes > MAX_IN_PROCESS_BYTES {
        return Err(Error::LimitExceeded(OBJECT_TOO_LARGE));
    }
    Ok(())
}

/// Memory that reading an object takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ObjectNeed {
    /// Number of bytes, at least the size of the object.
    pub(super) bytes: u64,
    /// Whether the object is stored as a delta. Git can stream other objects.
    pub(super) is_delta: bool,
}

/// Returns the memory that reading an object takes.
///
/// # Errors
/// [`Error::ObjectNotFound`], and [`Error::LimitExceeded`] for an object behind too many deltas.
pub(super) fn needed(repository: &git2::Repository, id: Oid) -> Result<ObjectNeed> {
    let packs = of(repository.path());
    if let Some(need) = packs.needed(id)? {
        return Ok(need);
    }
    // A file of its own, or in a pack that was added since the packs were listed.
    let (size, _) = repository.odb()?.read_header(id).map_err(absent)?;
    let whole = ObjectNeed {
        bytes: size as u64,
        is_delta: false,
    };
    if loose_path(repository.path(), id).is_file() {
        return Ok(whole);
    }
    packs.list()?;
    Ok(packs.needed(id)?.unwrap_or(whole))
}

/// Returns the path of an object that is stored in a file of its own.
fn loose_path(repository: &Path, id: Oid) -> PathBuf {
    let hex = id.to_string();
    let (directory, name) = hex.split_at(2);
    repository.join("objects").join(directory).join(name)
}

/// Size of the packs of a repository, and the memory that reading their objects takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct PackProfile {
    /// Number of objects.
    pub(super) objects: u64,
    /// Size of all objects that Git does not stream, in bytes.
    pub(super) small_bytes: u64,
    /// Memory for the object that takes most and that Git does not stream, in bytes.
    pub(super) max_bytes: u64,
}

/// Returns the profile of all packs of a repository. The first call after a pack was added reads the start of each of its
/// deltas.
///
/// # Errors
/// An I/O error.
pub(super) fn profile(repository: &Path) -> Result<PackProfile> {
    let packs = of(repository);
    packs.list()?;
    let mut profile = PackProfile::default();
    for pack in packs.current().iter() {
        let found = pack.profile();
        profile.objects += found.objects;
        profile.small_bytes = profile.small_bytes.saturating_add(found.small_bytes);
        profile.max_bytes = profile.max_bytes.max(found.max_bytes);
    }
    Ok(profile)
}

fn of(repository: &Path) -> Arc<ObjectMemory> {
    // Two handles of one repository may have different spellings of its path; that only opens its packs twice.
    OPENED.get_or_insert_with(repository, || {
        Arc::new(ObjectMemory {
            directory: repository.join("objects/pack"),
            packs: Mutex::default(),
        })
    })
}

/// The open packs of one repository.
struct ObjectMemory {
    directory: PathBuf,
    packs: Mutex<Arc<Vec<Arc<Pack>>>>,
}

impl ObjectMemory {
    fn current(&self) -> Arc<Vec<Arc<Pack>>> {
        Arc::clone(&self.packs.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Opens the packs that were added and closes those that were removed.
    fn list(&self) -> Result<()> {
        let mut known: HashMap<OsString, Arc<Pack>> = self
            .current()
            .iter()
            .map(|pack| (pack.name.clone(), Arc::clone(pack)))
            .collect();
        let mut packs = Vec::new();
        for entry in std::fs::read_dir(&self.directory)? {
            let name = entry?.file_name();
            if Path::new(&name).extension().is_none_or(|kind| kind != "idx") {
                continue;
            }
            match known.remove(&name) {
                Some(pack) => packs.push(pack),
                // Maintenance may just have removed it.
                None => packs.extend(Pack::open(&self.directory, name).map(Arc::new)),
            }
        }
        *self.packs.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(packs);
        Ok(())
    }

    fn needed(&self, id: Oid) -> Result<Option<ObjectNeed>> {
        let id = gix::ObjectId::try_from(id.as_bytes()).map_err(|_| Error::ObjectNotFound)?;
        for pack in self.current().iter() {
            if let Some(at) = pack.index.lookup(id) {
                let offset = pack.index.pack_offset_at_index(at);
                return pack.needed(offset).map(Some);
            }
        }
        Ok(None)
    }
}

/// An open pack.
struct Pack {
    name: OsString,
    index: pack::index::File,
    data: pack::data::File,
    profile: OnceLock<PackProfile>,
}

impl Pack {
    fn open(directory: &Path, name: OsString) -> Option<Self> {
        let path = directory.join(&name);
        Some(Self {
            index: pack::index::File::at(&path, gix::hash::Kind::Sha1).ok()?,
            data: pack::data::File::at(path.with_extension("pack"), gix::hash::Kind::Sha1).ok()?,
            name,
            profile: OnceLock::new(),
        })
    }

    /// Returns the memory for the object at an offset: the most that one step from its base to the object takes.
    fn needed(&self, offset: u64) -> Result<ObjectNeed> {
        let mut inflater = Decompress::new(true);
        let (mut offset, mut most) = (offset, 0);
        for depth in 0..MAX_DEPTH {
            let entry = self.entry(offset)?;
            most = most.max(self.step(&entry, &mut inflater));
            offset = match entry.header {
                Header::OfsDelta { base_distance } => entry
                    .checked_base_pack_offset(base_distance)
                    .ok_or_else(unreadable)?,
                Header::RefDelta { base_id } => {
                    let at = self.index.lookup(base_id).ok_or_else(unreadable)?;
                    self.index.pack_offset_at_index(at)
                }
                _ => {
                    return Ok(ObjectNeed {
                        bytes: most,
                        is_delta: depth > 0,
                    });
                }
            };
        }
        Err(Error::LimitExceeded(OBJECT_TOO_LARGE))
    }

    /// Returns the memory for an object whose base is known: its size, or the sizes of the base, the delta and the result.
    fn step(&self, entry: &pack::data::Entry, inflater: &mut Decompress) -> u64 {
        if !entry.header.is_delta() {
            return entry.decompressed_size;
        }
        // A delta whose sizes are not found at its start may be readable, and take any amount of memory.
        let Some(sizes) = self.declared_sizes(entry, inflater) else {
            return u64::MAX;
        };
        entry
            .decompressed_size
            .saturating_add(sizes.base)
            .saturating_add(sizes.result)
    }

    fn entry(&self, offset: u64) -> Result<pack::data::Entry> {
        if offset >= self.data.pack_end() as u64 {
            return Err(unreadable());
        }
        self.data
            .entry(offset)
            .map_err(|error| Error::Gix(error.to_string()))
    }

    /// Returns the sizes of the base and the result that a delta declares.
    fn declared_sizes(&self, entry: &pack::data::Entry, inflater: &mut Decompress) -> Option<DeltaSizes> {
        let end = (self.data.pack_end() as u64).min(entry.data_offset + COMPRESSED_BYTES);
        let compressed = self.data.entry_slice(entry.data_offset..end)?;
        let mut start = [0; MAX_SIZES_LENGTH];
        inflater.reset(true);
        inflater
            .decompress(compressed, &mut start, FlushDecompress::None)
            .ok()?;
        DeltaSizes::parse(start.get(..usize::try_from(inflater.total_out()).ok()?)?)
    }

    fn profile(&self) -> PackProfile {
        *self.profile.get_or_init(|| {
            let mut inflater = Decompress::new(true);
            let mut profile = PackProfile {
                objects: u64::from(self.index.num_objects()),
                ..PackProfile::default()
            };
            for offset in self.index.sorted_offsets() {
                let Ok(entry) = self.entry(offset) else { continue };
                let bytes = self.step(&entry, &mut inflater);
                let is_streamed = entry.header == Header::Blob && bytes > STREAMED_BYTES;
                if !is_streamed {
                    profile.max_bytes = profile.max_bytes.max(bytes);
                    profile.small_bytes = profile.small_bytes.saturating_add(bytes);
                }
            }
            profile
        })
    }
}

fn unreadable() -> Error {
    Error::Gix("a pack is damaged".to_owned())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::ZlibEncoder;

    use super::*;
    use crate::test_repository::TestRepository;

    const BASE: usize = 1 << 16;
    const RESULT: usize = 20 << 20;

    fn size(mut size: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        while size > 0x7f {
            bytes.push((size & 0x7f) as u8 | 0x80);
            size >>= 7;
        }
        bytes.push(size as u8);
        bytes
    }

    /// Returns the start of an entry of a pack.
    fn entry(kind: u8, mut size: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut byte = (kind << 4) | (size & 15) as u8;
        size >>= 4;
        while size > 0 {
            bytes.push(byte | 0x80);
            byte = (size & 0x7f) as u8;
            size >>= 7;
        }
        bytes.push(byte);
        bytes
    }

    /// Returns a compressed stream that begins with blocks without content, after its header of two bytes.
    fn padded(content: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(content).unwrap();
        let mut stream = encoder.finish().unwrap();
        stream.splice(2..2, [0, 0, 0, 0xff, 0xff].repeat(COMPRESSED_BYTES as usize));
        stream
    }

    #[test]
    fn delta_whose_sizes_are_not_at_its_start_takes_any_amount_of_memory() {
        let sample = TestRepository::with_history();
        let mut pack = b"PACK\0\0\0\x02\0\0\0\x02".to_vec();
        let base = pack.len();
        pack.extend(entry(3, BASE));
        let mut encoder = ZlibEncoder::new(&mut pack, Compression::best());
        encoder.write_all(&[0; BASE]).unwrap();
        encoder.finish().unwrap();
        let mut delta = [size(BASE), size(RESULT)].concat();
        // Each byte copies the whole base.
        delta.resize(delta.len() + RESULT / BASE, 0x80);
        let distance = pack.len() - base;
        pack.extend(entry(6, delta.len()));
        assert!(distance < 0x80, "{distance}");
        pack.push(distance as u8);
        pack.extend(padded(&delta));
        let sum = gix::hash::Kind::Sha1;
        let mut hasher = gix::hash::hasher(sum);
        hasher.update(&pack);
        pack.extend(hasher.try_finalize().unwrap().as_slice());
        let path = sample.repository.path().join("objects/pack/pack-padded.pack");
        std::fs::write(&path, pack).unwrap();
        sample.git(&["index-pack", path.to_str().unwrap()]);
        let id = Oid::hash_object(git2::ObjectType::Blob, &vec![0; RESULT]).unwrap();
        let repository = git2::Repository::open_bare(sample.repository.path()).unwrap();
        assert_eq!(repository.find_blob(id).unwrap().size(), RESULT);
        assert!(matches!(
            check(&repository, id),
            Err(Error::LimitExceeded(OBJECT_TOO_LARGE))
        ));
    }
}
