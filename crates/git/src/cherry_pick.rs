//! Cherry-pick and revert: a three-way merge by the `git` program without a checkout, and a commit of the
//! result. The change of a merge commit is relative to its first parent, that of a root commit to the empty
//! tree.

use super::commit::OriginalCommit;
use super::merge::EMPTY_TREE;
use super::write::ObjectBatch;
use super::{Commit, CommitResult, Error, Oid, PreparedCommit, Repository, Result, Signature};
use super::{branches, check_branch_name, commit};

/// Direction in which a commit's change is applied.
#[derive(Clone, Copy)]
enum ApplyMode {
    Pick,
    Revert,
}

/// Trees of a three-way merge and other data of the new commit.
struct Plan {
    change: OriginalCommit,
    tip: Oid,
    base: Oid,
    ours: Oid,
    theirs: Oid,
}

impl Repository {
    /// Applies the change of `commit` on top of a branch and preserves its author.
    ///
    /// # Errors
    /// [`Error::InvalidReferenceName`], [`Error::BranchNotFound`], [`Error::RevisionNotFound`] if the commit
    /// does not exist, [`Error::Conflict`], [`Error::EmptyChange`], [`Error::StaleReference`].
    pub async fn cherry_pick(&self, commit: Oid, branch: &str, committer: Signature) -> Result<CommitResult> {
        let prepared = self.prepare_cherry_pick(commit, branch, committer);
        prepared.await?.publish().await
    }

    /// Stores the commit of [`Self::cherry_pick`] and locks the repository until it is published or dropped.
    ///
    /// # Errors
    /// As [`Self::cherry_pick`], except [`Error::StaleReference`].
    pub async fn prepare_cherry_pick(
        &self,
        commit: Oid,
        branch: &str,
        committer: Signature,
    ) -> Result<PreparedCommit> {
        self.apply_commit(commit, branch, committer, ApplyMode::Pick)
            .await
    }

    /// Reverts the change of `commit` on top of a branch; `committer` is also the author.
    ///
    /// # Errors
    /// As [`Self::cherry_pick`].
    pub async fn revert(&self, commit: Oid, branch: &str, committer: Signature) -> Result<CommitResult> {
        let prepared = self.prepare_revert(commit, branch, committer);
        prepared.await?.publish().await
    }

    /// Stores the commit of [`Self::revert`] and locks the repository until it is published or dropped.
    ///
    /// # Errors
    /// As [`Self::prepare_cherry_pick`].
    pub async fn prepare_revert(
        &self,
        commit: Oid,
        branch: &str,
        committer: Signature,
    ) -> Result<PreparedCommit> {
        self.apply_commit(commit, branch, committer, ApplyMode::Revert)
            .await
    }

    async fn apply_commit(
        &self,
        change: Oid,
        branch: &str,
        committer: Signature,
        mode: ApplyMode,
    ) -> Result<PreparedCommit> {
        check_branch_name(branch)?;
        let branch = branch.to_owned();
        let guard = self.write_lock().await?;
        let (branch, plan) = self
            .git2(move |repository| {
                let plan = plan(repository, change, &branch, mode)?;
                Ok((branch, plan))
            })
            .await?;
        let merged = self.merge_trees(plan.base, plan.ours, plan.theirs).await?;
        if merged == plan.ours {
            return Err(Error::EmptyChange);
        }
        let handle = self.clone();
        self.git2(move |repository| {
            let data = match mode {
                ApplyMode::Pick => {
                    let note = format!("\n\n(cherry picked from commit {})", plan.change.commit.id);
                    plan.change.copy(merged, plan.tip, Some(&note), &committer)
                }
                ApplyMode::Revert => {
                    let message = revert_message(&plan.change.commit);
                    commit::serialize(merged, &[plan.tip], &message, &committer, &committer)
                }
            };
            let mut batch = ObjectBatch::default();
            let commit = batch.add(git2::ObjectType::Commit, data)?;
            batch.flush(repository)?;
            Ok(PreparedCommit::on_tip(handle, branch, plan.tip, commit, guard))
        })
        .await
    }
}

fn plan(repository: &git2::Repository, change: Oid, branch: &str, mode: ApplyMode) -> Result<Plan> {
    let tip = branches::tip(repository, branch)?.ok_or(Error::BranchNotFound)?;
    let ours = commit::read(repository, tip)?.tree;
    let change = commit::read_original(repository, change).map_err(|error| match error {
        Error::ObjectNotFound => Error::RevisionNotFound,
        other => other,
    })?;
    let before = match change.commit.parents.first() {
        Some(parent) => commit::read(repository, *parent)?.tree,
        None => Oid::from_str(EMPTY_TREE)?,
    };
    let after = change.commit.tree;
    let (base, theirs) = match mode {
        ApplyMode::Pick => (before, after),
        ApplyMode::Revert => (after, before),
    };
    Ok(Plan {
        change,
        tip,
        base,
        ours,
        theirs,
    })
}

/// Returns the message of a commit that reverts another one.
fn revert_message(change: &Commit) -> String {
    format!(
        "Revert \"{}\"\n\nThis reverts commit {}",
        change.title(),
        change.id
    )
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::testing::{self, Fixture, signature};
    use crate::{Error, Oid};

    /// A clone with a checkout in which `git` runs the same operation, on a branch to compare with.
    struct Clone {
        directory: tempfile::TempDir,
    }

    impl Clone {
        fn of(fixture: &Fixture) -> Self {
            let directory = tempfile::tempdir().unwrap();
            let origin = fixture.path();
            let origin = origin.to_str().unwrap();
            testing::run(
                testing::command(directory.path(), &["clone", "--quiet", origin, "."]),
                b"",
            );
            Self { directory }
        }

        fn tree_after(&self, branch: &str, arguments: &[&str]) -> String {
            let git = |arguments: &[&str]| testing::run(testing::command(self.path(), arguments), b"");
            git(&["checkout", "--quiet", "--detach", &format!("origin/{branch}")]);
            git(arguments);
            git(&["rev-parse", "HEAD^{tree}"]).trim().to_owned()
        }

        fn path(&self) -> &Path {
            self.directory.path()
        }
    }

    fn lines(changed: usize, to: &str) -> String {
        (0..20)
            .map(|line| {
                if line == changed {
                    format!("{to}\n")
                } else {
                    format!("line {line}\n")
                }
            })
            .collect()
    }

    #[tokio::test]
    async fn cherry_pick_and_revert_match_git() {
        let fixture = Fixture::new("main").await;
        let repository = &fixture.repository;
        testing::commit(repository, "main", &[("f", &lines(99, "")), ("other", "1")]).await;
        repository.create_branch("side", "main").await.unwrap();
        testing::commit(repository, "main", &[("f", &lines(2, "early"))]).await;
        let change = testing::commit(repository, "side", &[("f", &lines(17, "late")), ("new", "n")]).await;
        let clone = Clone::of(&fixture);
        let expected = clone.tree_after("main", &["cherry-pick", &change.to_string()]);
        let before = repository.branch("main").await.unwrap().commit;
        let picked = repository.cherry_pick(change, "main", signature()).await.unwrap();
        assert_eq!((picked.branch_created, picked.old), (false, Some(before)));
        let new_commit = repository.commit(picked.commit).await.unwrap();
        let original = repository.commit(change).await.unwrap();
        assert_eq!(new_commit.tree.to_string(), expected);
        assert_eq!(
            (&new_commit.author, &new_commit.committer),
            (&original.author, &signature())
        );
        assert_eq!(
            new_commit.message,
            format!("Change side\n\n(cherry picked from commit {change})")
        );
        assert_eq!(new_commit.parents, [before]);

        testing::commit(repository, "main", &[("other", "2")]).await;
        let clone = Clone::of(&fixture);
        let expected = clone.tree_after("main", &["revert", "--no-edit", &picked.commit.to_string()]);
        let reverted = repository
            .revert(picked.commit, "main", signature())
            .await
            .unwrap();
        let new_commit = repository.commit(reverted.commit).await.unwrap();
        assert_eq!(new_commit.tree.to_string(), expected);
        assert_eq!(
            new_commit.message,
            format!("Revert \"Change side\"\n\nThis reverts commit {}", picked.commit)
        );
        assert_eq!(
            (&new_commit.author, &new_commit.committer),
            (&signature(), &signature())
        );
        fixture.fsck();
    }

    #[tokio::test]
    async fn cherry_pick_follows_rename() {
        let fixture = Fixture::new("main").await;
        let repository = &fixture.repository;
        testing::commit(repository, "main", &[("old", &lines(99, ""))]).await;
        repository.create_branch("side", "main").await.unwrap();
        let change = testing::commit(repository, "side", &[("old", &lines(5, "new"))]).await;
        let blob = fixture.git(&["rev-parse", "main:old"]);
        let tree = fixture.git_stdin(
            &["mktree"],
            format!("100644 blob {}\tmoved\n", blob.trim()).as_bytes(),
        );
        let renamed = fixture.git(&["commit-tree", "-m", "rename", "-p", "main", tree.trim()]);
        fixture.git(&["update-ref", "refs/heads/main", renamed.trim()]);
        repository.cherry_pick(change, "main", signature()).await.unwrap();
        assert_eq!(fixture.git(&["show", "main:moved"]), lines(5, "new"));
        assert_eq!(fixture.git(&["ls-tree", "--name-only", "main"]), "moved\n");
    }

    #[tokio::test]
    async fn cherry_pick_and_revert_distinguish_conflict_from_empty_change() {
        let fixture = Fixture::new("main").await;
        let repository = &fixture.repository;
        let root = testing::commit(repository, "main", &[("f", "1\n")]).await;
        repository.create_branch("side", "main").await.unwrap();
        let tip = testing::commit(repository, "main", &[("f", "2\n")]).await;
        let same = testing::commit(repository, "side", &[("f", "2\n")]).await;
        let other = testing::commit(repository, "side", &[("f", "3\n")]).await;
        testing::commit(repository, "side", &[("g", "4\n")]).await;
        let picked = repository.cherry_pick(same, "main", signature()).await;
        assert!(matches!(picked, Err(Error::EmptyChange)), "{picked:?}");
        let picked = repository.cherry_pick(root, "main", signature()).await;
        assert!(matches!(picked, Err(Error::Conflict)), "{picked:?}");
        let reverted = repository.revert(other, "main", signature()).await;
        assert!(matches!(reverted, Err(Error::EmptyChange)), "{reverted:?}");
        let reverted = repository.revert(same, "side", signature()).await;
        assert!(matches!(reverted, Err(Error::Conflict)), "{reverted:?}");
        assert_eq!(fixture.git(&["rev-parse", "main"]).trim(), tip.to_string());
        fixture.fsck();
    }

    #[tokio::test]
    async fn cherry_pick_and_revert_accept_merge_and_root_commits() {
        let fixture = Fixture::new("main").await;
        let repository = &fixture.repository;
        let root = testing::commit(repository, "main", &[("f", "1\n")]).await;
        for branch in ["side", "target"] {
            repository.create_branch(branch, "main").await.unwrap();
        }
        testing::commit(repository, "side", &[("s", "side\n")]).await;
        testing::commit(repository, "main", &[("m", "main\n")]).await;
        let tree = fixture.git(&["merge-tree", "--write-tree", "main", "side"]);
        let merge = fixture.git(&[
            "commit-tree",
            "-m",
            "merge",
            "-p",
            "main",
            "-p",
            "side",
            tree.trim(),
        ]);
        let merge = Oid::from_str(merge.trim()).unwrap();
        fixture.git(&["update-ref", "refs/heads/main", &merge.to_string()]);
        repository
            .cherry_pick(merge, "target", signature())
            .await
            .unwrap();
        assert_eq!(fixture.git(&["ls-tree", "--name-only", "target"]), "f\ns\n");
        repository.revert(merge, "main", signature()).await.unwrap();
        assert_eq!(fixture.git(&["ls-tree", "--name-only", "main"]), "f\nm\n");
        repository.revert(root, "target", signature()).await.unwrap();
        assert_eq!(fixture.git(&["ls-tree", "--name-only", "target"]), "s\n");
        repository.cherry_pick(root, "target", signature()).await.unwrap();
        assert_eq!(fixture.git(&["ls-tree", "--name-only", "target"]), "f\ns\n");
        fixture.fsck();
    }

    #[tokio::test]
    async fn cherry_pick_and_revert_reject_missing_branch_and_commit() {
        let fixture = Fixture::new("main").await;
        let repository = &fixture.repository;
        let commit = testing::commit(repository, "main", &[("f", "1\n")]).await;
        let tree = repository.commit(commit).await.unwrap().tree;
        let missing = repository.cherry_pick(commit, "nope", signature()).await;
        assert!(matches!(missing, Err(Error::BranchNotFound)));
        let invalid = repository.revert(commit, "no pe", signature()).await;
        assert!(matches!(invalid, Err(Error::InvalidReferenceName)));
        for id in [Oid::ZERO_SHA1, tree] {
            let missing = repository.revert(id, "main", signature()).await;
            assert!(matches!(missing, Err(Error::RevisionNotFound)));
        }
    }
}
