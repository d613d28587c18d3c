//! Objects to be written together: few as loose files, many as one pack.
//!
//! Every loose object costs two syncs of its own, which makes a commit of a hundred files wait for two hundred;
//! a pack costs three, however much it holds.

use std::collections::HashSet;
use std::io::Write;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use git2::ObjectType;

use super::super::process::Program;
use super::super::{Error, Oid, Repository, Result};

/// From how many new objects on a pack is written; starting a process costs about as much as this many syncs.
pub(super) const PACKED_FROM: usize = 16;

/// Objects that have their id but are not stored yet.
#[derive(Default)]
pub(in super::super) struct ObjectBatch {
    objects: Vec<(ObjectType, Bytes)>,
    ids: HashSet<Oid>,
}

/// The bytes of a pack that is still to be stored.
pub(super) struct Pack(Vec<u8>);

impl ObjectBatch {
    /// Adds an object and answers the id it will have.
    pub(in super::super) fn add(&mut self, kind: ObjectType, data: impl Into<Bytes>) -> Result<Oid> {
        let data = data.into();
        let id = Oid::hash_object(kind, &data)?;
        if self.ids.insert(id) {
            self.objects.push((kind, data));
        }
        Ok(id)
    }

    /// How many objects it holds.
    pub(super) fn len(&self) -> usize {
        self.objects.len()
    }

    /// Stores the objects, or answers the pack that stores them. What the repository has already is made young
    /// again, so that no housekeeping takes it for garbage before a reference leads to it.
    pub(super) fn flush(&mut self, odb: &git2::Odb<'_>) -> Result<Option<Pack>> {
        self.ids.clear();
        let mut fresh = Vec::with_capacity(self.objects.len());
        for (kind, data) in self.objects.drain(..) {
            if odb.exists(Oid::hash_object(kind, &data)?) {
                odb.write(kind, &data)?;
            } else {
                fresh.push((kind, data));
            }
        }
        if fresh.len() >= PACKED_FROM {
            return Ok(Some(pack(&fresh)?));
        }
        for (kind, data) in fresh {
            odb.write(kind, &data)?;
        }
        Ok(None)
    }
}

impl Repository {
    /// Stores a pack durably. The caller holds no permit.
    pub(super) async fn store_pack(&self, pack: Pack) -> Result<()> {
        self.run(Program::new("index-pack").flag("--stdin").input(pack.0))
            .await
            .map(drop)
    }
}

/// A pack (version 2) of whole objects.
fn pack(objects: &[(ObjectType, Bytes)]) -> Result<Pack> {
    let count = u32::try_from(objects.len()).map_err(|_| Error::LimitExceeded("the commit is too large"))?;
    let mut bytes = b"PACK\0\0\0\x02".to_vec();
    bytes.extend_from_slice(&count.to_be_bytes());
    for (kind, data) in objects {
        push_header(&mut bytes, type_number(*kind), data.len());
        let mut encoder = ZlibEncoder::new(bytes, Compression::default());
        encoder.write_all(data)?;
        bytes = encoder.finish()?;
    }
    let mut hasher = gix::hash::hasher(gix::hash::Kind::Sha1);
    hasher.update(&bytes);
    let checksum = hasher
        .try_finalize()
        .map_err(|error| Error::Gix(error.to_string()))?;
    bytes.extend_from_slice(checksum.as_slice());
    Ok(Pack(bytes))
}

/// The type in three bits and the length in groups of seven, the first of four, the lowest first.
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

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use git2::ObjectType;

    use super::{ObjectBatch, PACKED_FROM};
    use crate::git::testing::Fixture;

    #[tokio::test]
    async fn stores_few_loose_and_many_in_one_pack() {
        let fixture = Fixture::new("main").await;
        let repository = &fixture.repository;
        for count in [PACKED_FROM - 1, PACKED_FROM, 300] {
            // Lengths around the borders of the header's groups.
            let contents: Vec<Bytes> = (0..count)
                .map(|n| Bytes::from(format!("{count}/{n}").repeat(1 << (n % 15))))
                .collect();
            let wanted = contents.clone();
            let (ids, pack) = repository
                .git2(move |git| {
                    let mut batch = ObjectBatch::default();
                    let ids: Vec<_> = contents
                        .iter()
                        .map(|data| batch.add(ObjectType::Blob, data.clone()).unwrap())
                        .collect();
                    assert_eq!(batch.add(ObjectType::Blob, contents[0].clone()).unwrap(), ids[0]);
                    assert_eq!(batch.len(), count);
                    let pack = batch.flush(&git.odb()?)?;
                    assert_eq!(batch.len(), 0);
                    Ok((ids, pack))
                })
                .await
                .unwrap();
            assert_eq!(pack.is_some(), count >= PACKED_FROM);
            if let Some(pack) = pack {
                repository.store_pack(pack).await.unwrap();
            }
            for (id, content) in ids.into_iter().zip(wanted) {
                assert_eq!(repository.blob(id, u64::MAX).await.unwrap().data, content);
            }
        }
        let packs = fixture.git(&["count-objects", "-v"]);
        assert!(packs.contains("packs: 2\n"), "{packs}");
        fixture.fsck();
    }

    #[tokio::test]
    async fn stores_nothing_twice() {
        let fixture = Fixture::new("main").await;
        for _ in 0..2 {
            let pack = fixture
                .repository
                .git2(|git| {
                    let mut batch = ObjectBatch::default();
                    for number in 0..PACKED_FROM {
                        batch.add(ObjectType::Blob, number.to_string())?;
                    }
                    batch.flush(&git.odb()?)
                })
                .await
                .unwrap();
            if let Some(pack) = pack {
                fixture.repository.store_pack(pack).await.unwrap();
            }
        }
        let counted = fixture.git(&["count-objects", "-v"]);
        assert!(
            counted.starts_with("count: 0\n") && counted.contains("packs: 1\n"),
            "{counted}"
        );
    }
}
