//! Objects that are written together: few as loose files, many as one pack.

use std::collections::HashSet;

use bytes::Bytes;
use git2::{ObjectType, OdbLookupFlags};

use super::super::{Oid, Result};
use super::cruft_packs::CruftPacks;
use super::objects::{NewObject, store_loose, store_pack};

/// Number of new objects from which a pack is written. A pack has a fixed number of files, but each pack
/// slows down readers.
const PACKED_FROM: usize = 32;

/// Objects with known IDs that are not stored yet.
#[derive(Default)]
pub(crate) struct ObjectBatch {
    objects: Vec<NewObject>,
    ids: HashSet<Oid>,
    bytes: usize,
}

impl ObjectBatch {
    /// Adds an object and returns its ID.
    pub(crate) fn add(&mut self, kind: ObjectType, data: impl Into<Bytes>) -> Result<Oid> {
        let data = data.into();
        let id = Oid::hash_object(kind, &data)?;
        if self.ids.insert(id) {
            self.bytes += data.len();
            self.objects.push(NewObject { id, kind, data });
        }
        Ok(id)
    }

    /// Returns the content of an object that is not stored yet.
    pub(super) fn content(&self, id: Oid) -> Option<&[u8]> {
        let object = self.objects.iter().find(|object| object.id == id);
        object.map(|object| object.data.as_ref())
    }

    /// Returns the total size of the objects in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Stores the objects; they are durable when this returns. Objects that already exist are touched, so
    /// that housekeeping does not remove them before a reference leads to them. Objects of cruft packs are
    /// stored again, because touching such a pack protects none of its objects.
    pub(crate) fn flush(&mut self, repository: &git2::Repository) -> Result<()> {
        let odb = repository.odb()?;
        self.ids.clear();
        self.bytes = 0;
        let directory = repository.path().join("objects");
        let cruft_packs = CruftPacks::open(&directory)?;
        let mut fresh = Vec::with_capacity(self.objects.len());
        for object in self.objects.drain(..) {
            // Do not list the pack directory again for each object: storing an object twice is harmless.
            let exists = odb.exists_ext(object.id, OdbLookupFlags::NO_REFRESH);
            if exists && !cruft_packs.may_contain(object.id) {
                odb.write(object.kind, &object.data)?;
            } else {
                fresh.push(object);
            }
        }
        match fresh.len() {
            0 => Ok(()),
            few if few < PACKED_FROM => store_loose(&directory, &fresh),
            _ => store_pack(&directory, &fresh),
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use git2::ObjectType;

    use super::{ObjectBatch, PACKED_FROM};
    use crate::Oid;
    use crate::testing::{self, Fixture};

    #[tokio::test]
    async fn batch_stores_few_objects_loose_and_many_in_one_pack() {
        let fixture = Fixture::new("main").await;
        let repository = &fixture.repository;
        for count in [PACKED_FROM - 1, PACKED_FROM, 300] {
            // Lengths around the boundaries of the header's groups.
            let contents: Vec<Bytes> = (0..count)
                .map(|n| Bytes::from(format!("{count}/{n}").repeat(1 << (n % 15))))
                .collect();
            let expected = contents.clone();
            let ids = repository
                .git2(move |git| {
                    let mut batch = ObjectBatch::default();
                    let ids: Vec<_> = contents
                        .iter()
                        .map(|data| batch.add(ObjectType::Blob, data.clone()).unwrap())
                        .collect();
                    assert_eq!(batch.add(ObjectType::Blob, contents[0].clone()).unwrap(), ids[0]);
                    assert_eq!(batch.objects.len(), count);
                    batch.flush(git)?;
                    assert_eq!((batch.objects.len(), batch.bytes()), (0, 0));
                    Ok(ids)
                })
                .await
                .unwrap();
            for (id, content) in ids.into_iter().zip(expected) {
                assert_eq!(repository.blob(id, u64::MAX).await.unwrap().data, content);
            }
        }
        let packs = fixture.git(&["count-objects", "-v"]);
        assert!(packs.contains("packs: 2\n"), "{packs}");
        assert!(
            packs.starts_with(&format!("count: {}\n", PACKED_FROM - 1)),
            "{packs}"
        );
        fixture.fsck();
        let entries = std::fs::read_dir(fixture.path().join("objects")).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        assert_eq!(names.filter(|name| name.starts_with("tmp")).count(), 0);
    }

    #[tokio::test]
    async fn batch_does_not_store_existing_objects() {
        let fixture = Fixture::new("main").await;
        for _ in 0..2 {
            fixture
                .repository
                .git2(|git| {
                    let mut batch = ObjectBatch::default();
                    for number in 0..PACKED_FROM {
                        batch.add(ObjectType::Blob, number.to_string())?;
                    }
                    batch.flush(git)
                })
                .await
                .unwrap();
        }
        let counted = fixture.git(&["count-objects", "-v"]);
        assert!(
            counted.starts_with("count: 0\n") && counted.contains("packs: 1\n"),
            "{counted}"
        );
    }

    #[tokio::test]
    async fn batch_stores_objects_of_cruft_packs_again() {
        let fixture = Fixture::new("main").await;
        testing::commit(&fixture.repository, "main", &[("a", "1")]).await;
        let unreachable = fixture.git_stdin(&["hash-object", "-w", "--stdin"], b"unreachable");
        let id = Oid::from_str(unreachable.trim()).unwrap();
        let (first, rest) = unreachable.trim().split_at(2);
        let loose = fixture.path().join("objects").join(first).join(rest);
        fixture.git(&["repack", "--cruft", "-d", "-q"]);
        assert!(!loose.exists(), "the object is in a cruft pack");
        fixture
            .repository
            .git2(move |git| {
                assert!(git.odb()?.exists(id));
                let mut batch = ObjectBatch::default();
                assert_eq!(batch.add(ObjectType::Blob, &b"unreachable"[..])?, id);
                batch.flush(git)
            })
            .await
            .unwrap();
        assert!(loose.is_file());
        fixture.fsck();
    }
}
