//! Durable storage of new objects with few syncs.
//!
//! Syncing one new file makes the file system write all files created before it, and syncing those then costs
//! almost nothing. So all files are written first, then synced, and renamed last. Under its final name an
//! object is always complete and durable, even after a power failure.

use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use git2::{Indexer, ObjectType};
use tempfile::NamedTempFile;

use super::super::{Error, Oid, Result};

/// Prefix of temporary names that housekeeping removes after interrupted writes.
const TEMPORARY: &str = "tmp_obj_";
const TEMPORARY_DIRECTORY: &str = "tmp_objdir-";

/// Mode of stored objects: their owner reads them.
const OBJECT_MODE: u32 = 0o400;

/// An object with a known ID that is not stored yet.
pub(super) struct NewObject {
    pub(super) id: Oid,
    pub(super) kind: ObjectType,
    pub(super) data: Bytes,
}

/// Stores objects as loose files below the `objects` directory of a repository.
pub(super) fn store_loose(directory: &Path, objects: &[NewObject]) -> Result<()> {
    let mut files = Vec::with_capacity(objects.len());
    for object in objects {
        let mut file = tempfile::Builder::new()
            .prefix(TEMPORARY)
            .tempfile_in(directory)?;
        let mut encoder = ZlibEncoder::new(file.as_file_mut(), Compression::fast());
        write!(encoder, "{} {}\0", object.kind.str(), object.data.len())?;
        encoder.write_all(&object.data)?;
        encoder.finish()?;
        file.as_file()
            .set_permissions(Permissions::from_mode(OBJECT_MODE))?;
        files.push((file, object.id.to_string()));
    }
    for (file, _) in &files {
        file.as_file().sync_all()?;
    }
    let mut changed = BTreeSet::new();
    for (file, id) in files {
        let (first, rest) = id.split_at(2);
        let below = directory.join(first);
        if !below.is_dir() {
            // Another writer may create it at the same time.
            fs::create_dir_all(&below)?;
            changed.insert(directory.to_owned());
        }
        name(file, &below.join(rest))?;
        changed.insert(below);
    }
    changed.iter().try_for_each(|directory| sync(directory))
}

fn name(file: NamedTempFile, path: &Path) -> Result<()> {
    file.persist(path).map(drop).map_err(|error| error.error.into())
}

/// Stores objects as one pack with an index below the `objects` directory of a repository.
pub(super) fn store_pack(directory: &Path, objects: &[NewObject]) -> Result<()> {
    let staging = tempfile::Builder::new()
        .prefix(TEMPORARY_DIRECTORY)
        .tempdir_in(directory)?;
    // The pack contains no deltas, so there is nothing to verify.
    let mut indexer = Indexer::new(None, staging.path(), OBJECT_MODE, false)?;
    indexer.write_all(&pack(objects)?)?;
    let hash = indexer.commit()?;
    // Readers look for the index, so it is renamed last.
    let names = ["pack", "idx"].map(|kind| PathBuf::from(format!("pack-{hash}.{kind}")));
    for name in &names {
        File::open(staging.path().join(name))?.sync_all()?;
    }
    let packs = directory.join("pack");
    for name in &names {
        fs::rename(staging.path().join(name), packs.join(name))?;
    }
    sync(&packs)
}

fn sync(directory: &Path) -> Result<()> {
    Ok(File::open(directory)?.sync_all()?)
}

/// Returns a pack (version 2) of undeltified objects.
fn pack(objects: &[NewObject]) -> Result<Vec<u8>> {
    let count = u32::try_from(objects.len()).map_err(|_| Error::LimitExceeded("the commit is too large"))?;
    let mut bytes = b"PACK\0\0\0\x02".to_vec();
    bytes.extend_from_slice(&count.to_be_bytes());
    for object in objects {
        push_header(&mut bytes, type_number(object.kind), object.data.len());
        let mut encoder = ZlibEncoder::new(bytes, Compression::fast());
        encoder.write_all(&object.data)?;
        bytes = encoder.finish()?;
    }
    let mut hasher = gix::hash::hasher(gix::hash::Kind::Sha1);
    hasher.update(&bytes);
    let checksum = hasher
        .try_finalize()
        .map_err(|error| Error::Gix(error.to_string()))?;
    bytes.extend_from_slice(checksum.as_slice());
    Ok(bytes)
}

/// Appends the type in three bits and the length in groups of seven bits, least significant first; the first
/// group has four bits.
fn push_header(bytes: &mut Vec<u8>, kind: u8, length: usize) {
    let mut byte = (kind << 4) | (length & 0x0f) as u8;
    let mut rest = length >> 4;
    while rest > 0 {
        bytes.push(byte | 0x80);
        byte = (rest & 0x7f) as u8;
        rest >>= 7;
    }
    bytes.push(byte);
}

fn type_number(kind: ObjectType) -> u8 {
    match kind {
        ObjectType::Commit => 1,
        ObjectType::Tree => 2,
        ObjectType::Tag => 4,
        _ => 3,
    }
}
