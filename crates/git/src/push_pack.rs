//! The references and packs that are sent to another repository. A program writes the pack; this server sends it, so the
//! program needs no network.

use std::fmt::Write as _;

use bytes::Bytes;
use tokio::io::AsyncWriteExt;

use super::memory_budget::MemoryNeed;
use super::process::Program;
use super::refs::{NameFilter, with_prefix};
use super::stream::{self, ByteStream};
use super::transport::TIME_LIMIT;
use super::{Oid, Repository, Result};

/// Content of a pack for another repository.
#[derive(Debug, Clone, Default)]
pub struct PackRequest {
    /// Objects that the other repository needs, with all objects that they lead to.
    pub wanted: Vec<Oid>,
    /// Objects that the other repository has, with all objects that they lead to. This repository must have them too.
    pub present: Vec<Oid>,
    /// Whether the other repository can read deltas that refer to their base by its position.
    pub offset_deltas: bool,
}

impl Repository {
    /// Returns the branches and tags by full name. The target of an annotated tag is the tag. Names that are not UTF-8 are
    /// omitted.
    ///
    /// # Errors
    /// [`super::Error::RepositoryMissing`] and failures of the repository.
    pub async fn branches_and_tags(&self) -> Result<Vec<(String, Oid)>> {
        self.git2(|repository| {
            let mut found = Vec::new();
            for prefix in ["refs/heads/", "refs/tags/"] {
                let names = with_prefix(repository, prefix, &NameFilter::new(None))?;
                found.extend(
                    names
                        .into_iter()
                        .map(|(name, id)| (format!("{prefix}{name}"), id)),
                );
            }
            Ok(found)
        })
        .await
    }

    /// Returns the objects that the repository has.
    ///
    /// # Errors
    /// As [`Self::branches_and_tags`].
    pub async fn existing_objects(&self, mut ids: Vec<Oid>) -> Result<Vec<Oid>> {
        self.git2(move |repository| {
            let objects = repository.odb()?;
            ids.retain(|id| objects.exists(*id));
            Ok(ids)
        })
        .await
    }

    /// Streams a pack for another repository. It is thin: its deltas can refer to objects that the other repository has.
    ///
    /// # Errors
    /// [`super::Error::Busy`] if too many transfers are running. The stream ends in an error if the program fails.
    pub async fn pack(&self, request: PackRequest) -> Result<ByteStream> {
        let mut program = Program::new("pack-objects")
            .flags(&["--revs", "--stdout", "--thin", "-q"])
            .memory(MemoryNeed::Repository)
            .time_limit(TIME_LIMIT)
            .in_background();
        if request.offset_deltas {
            program = program.flag("--delta-base-offset");
        }
        let mut running = self.start_transfer(program).await?;
        let (stdin, input) = (running.take_stdin(), revisions(&request));
        // The task ends with the program, which closes the pipe.
        tokio::spawn(async move {
            if let Some(mut stdin) = stdin {
                let _ = stdin.write_all(input.as_bytes()).await;
                let _ = stdin.shutdown().await;
            }
        });
        Ok(stream::output(self, running, Bytes::new()))
    }
}

/// Returns the input of `git pack-objects --revs`.
fn revisions(request: &PackRequest) -> String {
    let mut input = String::new();
    for (prefix, ids) in [("", &request.wanted), ("^", &request.present)] {
        for id in ids {
            // Writing to a string cannot fail.
            let _ = writeln!(input, "{prefix}{id}");
        }
    }
    input
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_repository::TestRepository;

    /// Returns the number of objects in the head of a pack.
    fn object_count(pack: &[u8]) -> u32 {
        assert_eq!(&pack[..8], b"PACK\0\0\0\x02");
        u32::from_be_bytes(pack[8..12].try_into().unwrap())
    }

    #[tokio::test]
    async fn pack_contains_wanted_objects_without_present_ones() {
        let sample = TestRepository::with_history();
        let pack = async |wanted: &str, present: &[&str]| {
            let request = PackRequest {
                wanted: vec![sample.id(wanted)],
                present: present.iter().map(|name| sample.id(name)).collect(),
                offset_deltas: true,
            };
            let stream = sample.repository.pack(request).await.unwrap();
            object_count(&stream.collect(1 << 24).await.unwrap())
        };
        let objects = sample.git(&["rev-list", "--objects", "main"]);
        assert_eq!(pack("main", &[]).await as usize, objects.lines().count());
        assert_eq!(pack("main", &["main"]).await, 0);
        assert!((1..20).contains(&pack("main", &["main~1"]).await));
    }

    #[tokio::test]
    async fn branches_tags_and_existing_objects_are_listed() {
        let sample = TestRepository::with_history();
        sample.git(&["tag", "-a", "-m", "x", "annotated", "main"]);
        let found = sample.repository.branches_and_tags().await.unwrap();
        let format = "--format=%(refname) %(objectname)";
        let expected = sample.git(&["for-each-ref", format, "refs/heads", "refs/tags"]);
        let lines: Vec<String> = found.iter().map(|(name, id)| format!("{name} {id}")).collect();
        assert_eq!(lines.join("\n"), expected.trim_end());
        let main = sample.id("main");
        let unknown = "1234567890123456789012345678901234567890".parse().unwrap();
        let existing = sample.repository.existing_objects(vec![unknown, main]).await;
        assert_eq!(existing.unwrap(), [main]);
    }
}
