//! Imports objects from another repository of the store: for forks, and for commits that start in another
//! project (`start_project`).

use std::path::Path;
use std::time::Duration;

use super::memory_budget::MemoryNeed;
use super::process::Program;
use super::{Error, Oid, Repository, Result, commit};

/// Time limit for copying.
const TIME_LIMIT: Duration = Duration::from_secs(15 * 60);

/// Options of every fetch here. The objects were checked on arrival, by rules that allow faults of old
/// histories; a second check would reject those.
fn fetch(source: &Path) -> Program {
    Program::new("fetch")
        .memory(MemoryNeed::Repository)
        .writes()
        .copies(source)
        .config("fetch.fsckObjects", "false")
        // The memory of Git programs is computed from packs: a large object in a file of its own would exceed it.
        .config("fetch.unpackLimit", "1")
        .flags(&[
            "--quiet",
            "--no-tags",
            "--no-write-fetch-head",
            "--no-auto-maintenance",
        ])
        .flags(&["--no-recurse-submodules", "--no-show-forced-updates"])
        .time_limit(TIME_LIMIT)
}

impl Repository {
    /// Imports a commit of another repository with all its history. No reference leads to it yet, so a commit
    /// that builds on it should follow soon.
    ///
    /// # Errors
    /// [`Error::RevisionNotFound`] if the other repository does not have the commit, [`Error::Timeout`].
    pub async fn import_commit(&self, source: &Self, id: Oid) -> Result<()> {
        source.commit(id).await.map_err(|error| match error {
            Error::ObjectNotFound => Error::RevisionNotFound,
            other => other,
        })?;
        // An object without a reference may lack its history, so its presence is not sufficient.
        if self.is_reachable(id).await? {
            return Ok(());
        }
        self.run(fetch(&source.path()).path(source.path()).path(id.to_string()))
            .await?;
        self.sync_packs().await
    }

    /// Returns whether a branch or tag contains the commit.
    async fn is_reachable(&self, id: Oid) -> Result<bool> {
        let present = self
            .git2(move |repository| Ok(commit::read(repository, id).is_ok()))
            .await?;
        if !present {
            return Ok(false);
        }
        let containing = self.containing(id).await?;
        Ok(!containing.branches.is_empty() || !containing.tags.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{self, Fixture};
    use crate::{Error, Oid, RepositoryId};

    #[tokio::test]
    async fn import_commit_copies_its_history() {
        let fixture = Fixture::new("main").await;
        let source = &fixture.repository;
        let first = testing::commit(source, "main", &[("a", "1")]).await;
        let second = testing::commit(source, "main", &[("a", "2")]).await;
        testing::commit(source, "main", &[("a", "3")]).await;
        let target = fixture
            .store
            .create(&RepositoryId::of_project(8), "main")
            .await
            .unwrap();
        for _ in 0..2 {
            target.import_commit(source, second).await.unwrap();
        }
        let loose = testing::run(testing::command(&target.path(), &["count-objects"]), b"");
        assert!(loose.starts_with("0 objects"), "{loose}");
        target
            .create_branch("from-there", &second.to_string())
            .await
            .unwrap();
        assert!(target.is_reachable(first).await.unwrap());
        target.import_commit(source, first).await.unwrap();
        testing::run(testing::command(&target.path(), &["fsck", "--strict"]), b"");
        let missing = target.import_commit(source, Oid::ZERO_SHA1).await;
        assert!(matches!(missing, Err(Error::RevisionNotFound)));
    }
}
