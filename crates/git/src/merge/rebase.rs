//! Rebases a branch like `git rebase`: commit by commit, oldest first, without merges and without changes that
//! the target already contains. Commits without a change remain.

use super::{EMPTY_TREE, PreparedMove};
use crate::history::{CommitOrder, CommitQuery, CommitSelection};
use crate::write::ObjectBatch;
use crate::{Error, Oid, Repository, Result, Signature, branches, check_branch_name};

/// Maximum number of rebased commits.
const MAX_COMMITS: usize = 1_000;

impl Repository {
    /// Stores the rebased commits of a branch on top of `onto` durably and locks the repository until the
    /// move is published or dropped. Authors and messages are preserved; `committer` becomes the committer.
    ///
    /// # Errors
    /// [`Error::BranchNotFound`]; [`Error::ObjectNotFound`] for `onto`; [`Error::EmptyChange`] if the branch
    /// already follows it; [`Error::Conflict`]; [`Error::LimitExceeded`] for more than 1,000 commits.
    pub async fn prepare_rebase(
        &self,
        branch: &str,
        onto: Oid,
        committer: Signature,
    ) -> Result<PreparedMove> {
        check_branch_name(branch)?;
        let guard = self.write_lock().await?;
        let name = branch.to_owned();
        let old = self
            .git2(move |repository| branches::tip(repository, &name)?.ok_or(Error::BranchNotFound))
            .await?;
        if self.is_ancestor(onto, old).await? {
            return Err(Error::EmptyChange);
        }
        let selection = CommitSelection {
            tips: vec![old],
            hidden: vec![onto],
            order: CommitOrder::Topo,
            ..CommitSelection::default()
        };
        let mut commits = self
            .list_commits(CommitQuery {
                selection,
                offset: 0,
                limit: MAX_COMMITS + 1,
            })
            .await?;
        if commits.len() > MAX_COMMITS {
            return Err(Error::LimitExceeded("too many commits to rebase"));
        }
        commits.reverse();
        let new = self.replay(commits, onto, committer).await?;
        Ok(PreparedMove {
            repository: self.clone(),
            branch: branch.to_owned(),
            old,
            new,
            guard,
        })
    }

    /// Applies each change on top of a commit and returns the last new commit.
    async fn replay(&self, commits: Vec<Oid>, onto: Oid, committer: Signature) -> Result<Oid> {
        let (mut tip, mut tree) = (onto, self.commit(onto).await?.tree);
        let mut batch = ObjectBatch::default();
        for change in self.original_commits(commits).await? {
            let before = match change.commit.parents.as_slice() {
                [] => Oid::from_str(EMPTY_TREE)?,
                [parent] => self.commit(*parent).await?.tree,
                _ => continue,
            };
            let after = self.merge_trees(before, tree, change.commit.tree).await?;
            // As in `git rebase`, only commits that become empty are dropped.
            if after == tree && before != change.commit.tree {
                continue;
            }
            let data = change.copy(after, tip, None, &committer);
            (tip, tree) = (batch.add(git2::ObjectType::Commit, data)?, after);
        }
        self.git2(move |repository| batch.flush(repository)).await?;
        Ok(tip)
    }
}
