//! Commits without a checkout: applies actions to a tree in memory, stores the objects, then moves the branch.

mod apply;
mod batch;
mod cruft_packs;
mod objects;
mod tree;

use bytes::Bytes;

use super::{ActionError, Error, Oid, Repository, Result, Signature, TreePath, WriteGuard};
use super::{branches, check_branch_name, commit, refs};
use apply::TreeStep;
pub(super) use batch::ObjectBatch;
use tree::MemoryTree;

/// Maximum number of actions in a commit.
const MAX_ACTIONS: usize = 10_000;

/// Contents of at least this total size in bytes are stored before the repository is locked.
const STORED_AHEAD: usize = 1 << 20;

/// A change of a commit. Paths are normalized and checked by [`TreePath`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileAction {
    /// Adds a file at an unused path.
    Create {
        /// The path of the file.
        path: String,
        /// The content.
        content: Bytes,
    },
    /// Replaces the content of a file and preserves its mode.
    Update {
        /// The path of the file.
        path: String,
        /// The new content.
        content: Bytes,
        /// The last commit that changed the file, as known to the caller.
        last_commit_id: Option<String>,
    },
    /// Moves a file and preserves its mode.
    Move {
        /// The new path, which must not be a file.
        path: String,
        /// The old path.
        previous_path: String,
        /// New content; none preserves the old.
        content: Option<Bytes>,
        /// The last commit that changed the file at its old path, as known to the caller.
        last_commit_id: Option<String>,
    },
    /// Removes a file and the directories that become empty.
    Delete {
        /// The path of the file.
        path: String,
        /// The last commit that changed the file, as known to the caller.
        last_commit_id: Option<String>,
    },
    /// Sets or clears the executable bit of a file.
    Chmod {
        /// The path of the file.
        path: String,
        /// Whether the file becomes executable.
        executable: bool,
    },
}

/// Start point of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BranchStart {
    /// The target branch, which must exist unless the repository is empty.
    Head,
    /// Another branch. The target branch must not exist unless forced. The same branch is equivalent to
    /// [`BranchStart::Head`].
    Branch(String),
    /// A commit. The target branch must not exist unless forced.
    Sha(Oid),
}

/// Parameters of a commit.
#[derive(Debug, Clone)]
pub struct CommitRequest {
    /// The target branch.
    pub branch: String,
    /// The start point.
    pub start: BranchStart,
    /// Whether an existing branch may be reset to a commit with another start point.
    pub force: bool,
    /// Whether a commit without changes is created instead of rejected.
    pub allow_empty: bool,
    /// The message, stored unchanged except for NUL.
    pub message: String,
    /// The author.
    pub author: Signature,
    /// The committer.
    pub committer: Signature,
    /// The changes, applied in order; the first failure fails the commit.
    pub actions: Vec<FileAction>,
}

/// Result of a write to a branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitResult {
    /// The new commit.
    pub commit: Oid,
    /// Whether the branch was created.
    pub branch_created: bool,
    /// The previous commit of the branch.
    pub old: Option<Oid>,
}

impl Repository {
    /// Creates a commit from actions and moves the branch to it. Everything is durable when this returns.
    ///
    /// # Errors
    /// As [`Self::prepare_commit`] and [`PreparedCommit::publish`].
    pub async fn commit_actions(&self, request: CommitRequest) -> Result<CommitResult> {
        self.prepare_commit(request).await?.publish().await
    }

    /// Stores the objects of a commit durably and locks the repository until the commit is published or
    /// dropped. No reference leads to the objects yet.
    ///
    /// # Errors
    /// [`Error::Action`] for an action that cannot be applied; [`Error::InvalidReferenceName`];
    /// [`Error::BranchNotFound`] if the start branch is missing; [`Error::RevisionNotFound`] if the start
    /// commit is missing; [`Error::ReferenceExists`] if the branch exists but the commit starts elsewhere
    /// without force; [`Error::EmptyChange`]; [`Error::LimitExceeded`] for too many actions.
    pub async fn prepare_commit(&self, request: CommitRequest) -> Result<PreparedCommit> {
        check_branch_name(&request.branch)?;
        if request.actions.len() > MAX_ACTIONS {
            return Err(Error::LimitExceeded("the commit has too many actions"));
        }
        let (request, steps, expected, batch) = self
            .git2(move |repository| {
                let expected = expectations(&request.actions)?;
                let mut batch = ObjectBatch::default();
                let (actions, request) = split(request);
                let steps = apply::prepare(actions, &mut batch)?;
                // Large contents are stored before the repository is locked; if the commit fails, nothing
                // refers to them. Small contents are stored with the trees, which needs only one sync.
                if batch.bytes() >= STORED_AHEAD {
                    batch.flush(repository)?;
                }
                Ok((request, steps, expected, batch))
            })
            .await?;

        let guard = self.write_lock().await?;
        let (request, base) = self
            .git2(move |repository| {
                let base = Base::find(repository, &request)?;
                Ok((request, base))
            })
            .await?;
        if let Some(parent) = base.parent {
            self.check_unchanged(parent, expected).await?;
        }
        let discards_commits = match (base.old, base.parent) {
            (Some(old), Some(parent)) if old != parent => !self.is_ancestor(old, parent).await?,
            _ => false,
        };
        let repository = self.clone();
        self.git2(move |git| {
            let mut batch = batch;
            let commit = build(git, &request, &base, &steps, &mut batch)?;
            batch.flush(git)?;
            Ok(PreparedCommit {
                repository,
                branch: request.branch,
                base,
                commit,
                discards_commits,
                guard,
            })
        })
        .await
    }

    /// Compares the expected last commits of some paths with the history. A path without history counts as
    /// unchanged.
    async fn check_unchanged(&self, tip: Oid, expected: Vec<(TreePath, String)>) -> Result<()> {
        if expected.is_empty() {
            return Ok(());
        }
        let paths = expected
            .iter()
            .map(|(path, _)| path.as_str().to_owned())
            .collect();
        let found = self.last_commits_of(tip, paths).await?;
        for ((path, expected), found) in expected.into_iter().zip(found) {
            if found.is_some_and(|found| !found.to_string().eq_ignore_ascii_case(&expected)) {
                return Err(ActionError::FileChanged(path.as_str().to_owned()).into());
            }
        }
        Ok(())
    }
}

/// A commit whose objects are stored and whose branch has not moved yet. It locks the repository for other
/// writers.
pub struct PreparedCommit {
    repository: Repository,
    branch: String,
    base: Base,
    commit: Oid,
    discards_commits: bool,
    guard: WriteGuard,
}

impl PreparedCommit {
    /// Returns a stored commit whose parent is the current commit of the branch.
    pub(super) fn on_tip(
        repository: Repository,
        branch: String,
        tip: Oid,
        commit: Oid,
        guard: WriteGuard,
    ) -> Self {
        let base = Base {
            parent: Some(tip),
            old: Some(tip),
        };
        Self {
            repository,
            branch,
            base,
            commit,
            discards_commits: false,
            guard,
        }
    }

    /// Returns the ID of the commit.
    #[must_use]
    pub fn id(&self) -> Oid {
        self.commit
    }

    /// Returns whether the branch loses commits, as by a forced push: the commit does not descend from the current one.
    #[must_use]
    pub fn discards_commits(&self) -> bool {
        self.discards_commits
    }

    /// Moves the branch; the move is durable when this returns.
    ///
    /// In an empty repository any branch becomes the default branch, and `HEAD` points to it.
    ///
    /// # Errors
    /// [`Error::StaleReference`] if a push moved the branch first.
    pub async fn publish(self) -> Result<CommitResult> {
        let Self {
            repository,
            branch,
            base,
            commit,
            guard,
            ..
        } = self;
        repository
            .git2(move |git| {
                let _guard = guard;
                publish(git, &branch, base.old, base.parent, commit)
            })
            .await
    }
}

/// Returns the paths with an expected last commit, and that commit.
fn expectations(actions: &[FileAction]) -> Result<Vec<(TreePath, String)>> {
    let mut expected = Vec::new();
    for action in actions {
        let (path, last) = match action {
            FileAction::Update {
                path, last_commit_id, ..
            }
            | FileAction::Delete { path, last_commit_id } => (path, last_commit_id),
            FileAction::Move {
                previous_path,
                last_commit_id,
                ..
            } => (previous_path, last_commit_id),
            FileAction::Create { .. } | FileAction::Chmod { .. } => continue,
        };
        if let Some(last) = last {
            expected.push((TreePath::parse(path)?, last.clone()));
        }
    }
    Ok(expected)
}

/// The parent commit, and the current commit of the branch.
struct Base {
    parent: Option<Oid>,
    old: Option<Oid>,
}

impl Base {
    fn find(repository: &git2::Repository, request: &CommitRequest) -> Result<Self> {
        let old = branches::tip(repository, &request.branch)?;
        let parent = match &request.start {
            BranchStart::Branch(name) if *name != request.branch => {
                Some(branches::tip(repository, name)?.ok_or(Error::BranchNotFound)?)
            }
            BranchStart::Sha(id) => {
                commit::read(repository, *id).map_err(|error| match error {
                    Error::ObjectNotFound => Error::RevisionNotFound,
                    other => other,
                })?;
                Some(*id)
            }
            BranchStart::Head | BranchStart::Branch(_) => {
                if old.is_none() && branches::has_branches(repository)? {
                    return Err(Error::BranchNotFound);
                }
                return Ok(Self { parent: old, old });
            }
        };
        if old.is_some() && !request.force {
            return Err(Error::ReferenceExists);
        }
        Ok(Self { parent, old })
    }
}

/// Splits the actions from a request.
fn split(mut request: CommitRequest) -> (Vec<FileAction>, CommitRequest) {
    (std::mem::take(&mut request.actions), request)
}

/// Adds the trees and the commit to a batch and returns the ID of the commit.
fn build(
    repository: &git2::Repository,
    request: &CommitRequest,
    base: &Base,
    steps: &[TreeStep],
    batch: &mut ObjectBatch,
) -> Result<Oid> {
    let before = match base.parent {
        Some(parent) => Some(commit::read(repository, parent)?.tree),
        None => None,
    };
    let mut tree = MemoryTree::new(repository, before);
    for step in steps {
        apply::apply(&mut tree, step)?;
    }
    apply::check_submodules(repository, &mut tree, steps, batch)?;
    let after = tree.write(batch)?;
    let unchanged = before.map_or(tree.is_empty()?, |before| before == after);
    if unchanged && !request.allow_empty {
        return Err(Error::EmptyChange);
    }
    let parents: Vec<Oid> = base.parent.into_iter().collect();
    let data = commit::serialize(
        after,
        &parents,
        &request.message,
        &request.author,
        &request.committer,
    );
    batch.add(git2::ObjectType::Commit, data)
}

/// Moves a branch from `old` to a new commit, or creates it.
fn publish(
    repository: &git2::Repository,
    branch: &str,
    old: Option<Oid>,
    parent: Option<Oid>,
    commit: Oid,
) -> Result<CommitResult> {
    let name = format!("{}{branch}", branches::PREFIX);
    match (old, parent) {
        (Some(old), _) => refs::advance(repository, &name, old, commit)?,
        (None, Some(_)) => refs::create(repository, &name, commit)?,
        (None, None) => {
            // `HEAD` first: a crash in between leaves an empty repository, not one without a default branch.
            branches::point_head(repository, branch)?;
            refs::create(repository, &name, commit).map_err(|error| match error {
                Error::ReferenceExists => Error::StaleReference,
                other => other,
            })?;
        }
    }
    Ok(CommitResult {
        commit,
        branch_created: old.is_none(),
        old,
    })
}

#[cfg(test)]
mod tests;
