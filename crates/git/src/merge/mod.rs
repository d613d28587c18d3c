//! Merges and rebases without a checkout, with the engine of `git merge`
//! (`docs/adr/0020-merge-with-git-merge-tree.md`).

mod rebase;
mod request_refs;
#[cfg(test)]
mod tests;

pub use request_refs::TestMerge;

use super::memory_budget::MemoryNeed;
use super::process::Program;
use super::write::ObjectBatch;
use super::{Error, Oid, Repository, Result, Signature, WriteGuard};
use super::{branches, check_branch_name, commit, refs};

/// ID of the empty tree, which exists in every repository.
pub(super) const EMPTY_TREE: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

/// How a merge request is merged into its target branch (`merge_method` of a project).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MergeMethod {
    /// Creates a merge commit.
    Merge,
    /// Creates a merge commit, only if a fast-forward is possible.
    RebaseMerge,
    /// Fast-forwards without a merge commit, only if possible.
    FastForward,
}

/// A single commit that replaces all commits of the head.
#[derive(Debug, Clone)]
pub struct SquashCommit {
    /// The message.
    pub message: String,
    /// The author.
    pub author: Signature,
}

/// Parameters of a merge.
#[derive(Debug, Clone)]
pub struct MergeOptions {
    /// The target branch.
    pub branch: String,
    /// The commit to merge, which must be in the repository.
    pub head: Oid,
    /// The merge method.
    pub method: MergeMethod,
    /// The message of the merge commit, if one is created.
    pub message: String,
    /// If set, all changes become one commit.
    pub squash: Option<SquashCommit>,
    /// The user who merges.
    pub committer: Signature,
}

/// A pending branch update whose objects are all stored. While this value exists, only pushes can write to
/// the repository.
pub struct PreparedMove {
    repository: Repository,
    branch: String,
    old: Oid,
    new: Oid,
    guard: WriteGuard,
}

/// A merge whose objects are stored and whose branch has not moved yet.
pub struct PreparedMerge {
    /// The pending branch update.
    pub target: PreparedMove,
    /// The merge base; none if the histories are unrelated.
    pub base: Option<Oid>,
    /// The merge commit, if one was created.
    pub merge_commit: Option<Oid>,
    /// The squash commit, if requested.
    pub squash_commit: Option<Oid>,
}

impl PreparedMove {
    /// Returns the current commit of the branch.
    #[must_use]
    pub fn before(&self) -> Oid {
        self.old
    }

    /// Returns the new commit of the branch.
    #[must_use]
    pub fn after(&self) -> Oid {
        self.new
    }

    /// Moves the branch; the move is durable when this returns. The repository stays locked for writing until
    /// the guard is dropped.
    ///
    /// # Errors
    /// [`Error::StaleReference`] if a push moved the branch first.
    pub async fn publish(self) -> Result<WriteGuard> {
        let Self {
            repository,
            branch,
            old,
            new,
            guard,
        } = self;
        repository
            .git2(move |git| {
                refs::advance(git, &format!("{}{branch}", branches::PREFIX), old, new)?;
                Ok(guard)
            })
            .await
    }
}

impl Repository {
    /// Returns whether a commit can be merged into another without conflicts.
    ///
    /// # Errors
    /// [`Error::ObjectNotFound`] if either is not a commit, [`Error::Timeout`].
    pub async fn merges_cleanly(&self, into: Oid, head: Oid) -> Result<bool> {
        let bases = self.merge_bases(vec![into, head]).await?;
        match self.merged_tree(into, head, &bases).await {
            Ok(_) => Ok(true),
            Err(Error::Conflict) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Stores the objects of a merge durably and locks the repository until the result is published or
    /// dropped. No reference leads to the objects yet.
    ///
    /// # Errors
    /// [`Error::BranchNotFound`]; [`Error::ObjectNotFound`] for the commit; [`Error::EmptyChange`] if the
    /// branch contains the commit; [`Error::Diverged`] if the method requires a fast-forward that is not
    /// possible; [`Error::Conflict`].
    pub async fn prepare_merge(&self, merge: MergeOptions) -> Result<PreparedMerge> {
        check_branch_name(&merge.branch)?;
        let guard = self.write_lock().await?;
        let branch = merge.branch.clone();
        let old = self
            .git2(move |repository| branches::tip(repository, &branch)?.ok_or(Error::BranchNotFound))
            .await?;
        let bases = self.merge_bases(vec![old, merge.head]).await?;
        if bases.contains(&merge.head) {
            return Err(Error::EmptyChange);
        }
        if merge.method != MergeMethod::Merge && bases != [old] {
            return Err(Error::Diverged);
        }
        let tree = self.merged_tree(old, merge.head, &bases).await?;
        let repository = self.clone();
        self.git2(move |git| {
            let mut batch = ObjectBatch::default();
            let squash_commit = match &merge.squash {
                Some(squash) => Some(squashed(git, &merge, squash, bases.first(), &mut batch)?),
                None => None,
            };
            let what = squash_commit.unwrap_or(merge.head);
            let merge_commit = match merge.method {
                MergeMethod::FastForward => None,
                MergeMethod::Merge | MergeMethod::RebaseMerge => {
                    let (message, who) = (&merge.message, &merge.committer);
                    let data = commit::serialize(tree, &[old, what], message, who, who);
                    Some(batch.add(git2::ObjectType::Commit, data)?)
                }
            };
            batch.flush(git)?;
            let target = PreparedMove {
                repository,
                branch: merge.branch,
                old,
                new: merge_commit.unwrap_or(what),
                guard,
            };
            Ok(PreparedMerge {
                target,
                base: bases.first().copied(),
                merge_commit,
                squash_commit,
            })
        })
        .await
    }

    /// Stores the tree of a merge of two commits with these merge bases and returns its ID.
    async fn merged_tree(&self, ours: Oid, theirs: Oid, bases: &[Oid]) -> Result<Oid> {
        let only = match bases {
            [base] if *base == ours => Some(theirs),
            [base] if *base == theirs => Some(ours),
            _ => None,
        };
        if let Some(only) = only {
            return Ok(self.commit(only).await?.tree);
        }
        // Criss-cross histories have several bases, which the program merges first; unrelated histories start
        // from the empty tree.
        let program = merge_tree()
            .flag("--allow-unrelated-histories")
            .id(ours)
            .id(theirs);
        self.merge(program).await
    }

    /// Merges two trees with a common base and returns the ID of the stored result.
    ///
    /// # Errors
    /// [`Error::Conflict`], [`Error::Timeout`].
    pub(super) async fn merge_trees(&self, base: Oid, ours: Oid, theirs: Oid) -> Result<Oid> {
        if base == ours || ours == theirs {
            return Ok(theirs);
        }
        if base == theirs {
            return Ok(ours);
        }
        let program = merge_tree()
            .option("--merge-base=", &base.to_string())
            .id(ours)
            .id(theirs);
        self.merge(program).await
    }

    async fn merge(&self, program: Program) -> Result<Oid> {
        let output = self.run(program).await?;
        if output.code != 0 {
            return Err(Error::Conflict);
        }
        let line = output.stdout.split(|&b| b == b'\n').next().unwrap_or_default();
        commit::parse_id(line).ok_or_else(|| Error::Program {
            command: "merge-tree",
            stderr: "printed no tree".to_owned(),
        })
    }
}

fn merge_tree() -> Program {
    Program::new("merge-tree")
        .flags(&["--write-tree", "--no-messages"])
        .memory(MemoryNeed::Files)
        .writes()
        .accept(&[0, 1])
}

/// Adds a commit with all changes from the base to the head.
fn squashed(
    repository: &git2::Repository,
    merge: &MergeOptions,
    squash: &SquashCommit,
    base: Option<&Oid>,
    batch: &mut ObjectBatch,
) -> Result<Oid> {
    let tree = commit::read(repository, merge.head)?.tree;
    let parents: Vec<Oid> = base.copied().into_iter().collect();
    let (message, author) = (&squash.message, &squash.author);
    let data = commit::serialize(tree, &parents, message, author, &merge.committer);
    batch.add(git2::ObjectType::Commit, data)
}
