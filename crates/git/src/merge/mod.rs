//! Merging one line of history into a branch, and moving one on top of another: without a checkout, by the engine that
//! `git merge` itself has (`docs/adr/0020-merge-with-git-merge-tree.md`).

mod rebase;
#[cfg(test)]
mod tests;

use super::process::Program;
use super::write::ObjectBatch;
use super::{Error, Oid, Repository, Result, Signature, WriteGuard};
use super::{branches, check_branch_name, commit, refs};

/// The tree without entries, which every repository has.
pub(super) const EMPTY_TREE: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

/// How a branch gets commits (specification 2.0, `merge_method`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MergeMethod {
    /// By a merge commit.
    Merge,
    /// By a merge commit, only where the branch could be fast-forwarded.
    RebaseMerge,
    /// Without a merge commit, only where the branch can be fast-forwarded.
    FastForward,
}

/// One commit in place of many.
#[derive(Debug, Clone)]
pub struct Squash {
    /// Its message.
    pub message: String,
    /// Who made the changes.
    pub author: Signature,
}

/// What to merge, and how.
#[derive(Debug, Clone)]
pub struct Merge {
    /// The branch that gets the commits.
    pub branch: String,
    /// The commit to merge, which must be in the repository.
    pub head: Oid,
    /// How the branch gets it.
    pub method: MergeMethod,
    /// The message of the merge commit, where there is one.
    pub message: String,
    /// Makes one commit of all.
    pub squash: Option<Squash>,
    /// Who merges.
    pub committer: Signature,
}

/// A branch that is about to move, with all objects that it needs stored. While it is held, nobody else writes to the
/// repository but by a push.
pub struct PreparedMove {
    repository: Repository,
    branch: String,
    old: Oid,
    new: Oid,
    guard: WriteGuard,
}

/// A merge whose objects are stored and whose branch has not moved yet.
pub struct PreparedMerge {
    /// The branch that is about to move.
    pub target: PreparedMove,
    /// Where the histories part; none where they have nothing in common.
    pub base: Option<Oid>,
    /// The merge commit, if there is one.
    pub merge_commit: Option<Oid>,
    /// The one commit in place of many, if that was asked for.
    pub squash_commit: Option<Oid>,
}

impl PreparedMove {
    /// Where the branch stands.
    #[must_use]
    pub fn before(&self) -> Oid {
        self.old
    }

    /// Where it is going to stand.
    #[must_use]
    pub fn after(&self) -> Oid {
        self.new
    }

    /// Moves the branch; it has moved, durably, when this returns. Nobody else writes to the repository until the guard is
    /// dropped.
    ///
    /// # Errors
    /// [`Error::StaleReference`] when a push was faster.
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
    /// Whether a commit can be merged into another without conflicts.
    ///
    /// # Errors
    /// [`Error::ObjectNotFound`] when either is no commit, [`Error::Timeout`].
    pub async fn merges_cleanly(&self, into: Oid, head: Oid) -> Result<bool> {
        let bases = self.merge_bases(vec![into, head]).await?;
        match self.merged_tree(into, head, &bases).await {
            Ok(_) => Ok(true),
            Err(Error::Conflict) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Stores the objects of a merge, durably, and keeps the right to write until it is published or dropped. Nothing
    /// refers to them yet.
    ///
    /// # Errors
    /// [`Error::BranchNotFound`], [`Error::ObjectNotFound`] for the commit; [`Error::EmptyChange`] when the branch has all of
    /// it already; [`Error::Diverged`] when the method asks for a fast-forward that is not possible; [`Error::Conflict`].
    pub async fn prepare_merge(&self, merge: Merge) -> Result<PreparedMerge> {
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
                    let data = commit::serialise(tree, &[old, what], message, who, who);
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

    /// Sets the reference under which the head of a merge request is kept and fetched, whatever becomes of its branch.
    ///
    /// # Errors
    /// [`Error::ObjectNotFound`] when the commit is not in the repository.
    pub async fn keep_merge_request(&self, iid: i64, head: Oid) -> Result<()> {
        let guard = self.write_lock().await?;
        self.git2(move |repository| {
            let _guard = guard;
            commit::read(repository, head)?;
            let name = kept(iid);
            match refs::target(repository, &name)? {
                None => refs::create(repository, &name, head),
                Some(old) if old == head => Ok(()),
                Some(old) => refs::advance(repository, &name, old, head),
            }
        })
        .await
    }

    /// Where that reference leads, if it is there.
    ///
    /// # Errors
    /// Failures of the repository.
    pub async fn kept_merge_request(&self, iid: i64) -> Result<Option<Oid>> {
        self.git2(move |repository| refs::target(repository, &kept(iid)))
            .await
    }

    /// Removes that reference, if it is there.
    ///
    /// # Errors
    /// Failures of the repository.
    pub async fn forget_merge_request(&self, iid: i64) -> Result<()> {
        let guard = self.write_lock().await?;
        self.git2(move |repository| {
            let _guard = guard;
            let name = kept(iid);
            match refs::target(repository, &name)? {
                Some(old) => refs::delete(repository, &name, old),
                None => Ok(()),
            }
        })
        .await
    }

    /// The tree of a merge of two commits with these merge bases, which is stored.
    async fn merged_tree(&self, ours: Oid, theirs: Oid, bases: &[Oid]) -> Result<Oid> {
        let only = match bases {
            [base] if *base == ours => Some(theirs),
            [base] if *base == theirs => Some(ours),
            _ => None,
        };
        if let Some(only) = only {
            return Ok(self.commit(only).await?.tree);
        }
        // Histories that cross have several bases, which the program merges first; those without any begin with nothing.
        let program = merge_tree()
            .flag("--allow-unrelated-histories")
            .id(ours)
            .id(theirs);
        self.merge(program).await
    }

    /// Merges two trees that come from a common one and answers the id of the stored result.
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
            .valued("--merge-base=", &base.to_string())
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
        .accept(&[0, 1])
}

fn kept(iid: i64) -> String {
    format!("refs/merge-requests/{iid}/head")
}

/// The commit that brings all changes of the head since the base at once.
fn squashed(
    repository: &git2::Repository,
    merge: &Merge,
    squash: &Squash,
    base: Option<&Oid>,
    batch: &mut ObjectBatch,
) -> Result<Oid> {
    let tree = commit::read(repository, merge.head)?.tree;
    let parents: Vec<Oid> = base.copied().into_iter().collect();
    let (message, author) = (&squash.message, &squash.author);
    let data = commit::serialise(tree, &parents, message, author, &merge.committer);
    batch.add(git2::ObjectType::Commit, data)
}
