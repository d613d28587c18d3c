//! Commits made without a checkout: actions on a tree in memory, then objects, then the branch.

mod apply;
mod batch;
mod objects;
mod tree;

use bytes::Bytes;

use super::{ActionError, Error, Oid, Repository, Result, Signature, TreePath, WriteGuard};
use super::{branches, check_branch_name, commit, refs};
use apply::Step;
pub(super) use batch::ObjectBatch;
use tree::MemoryTree;

/// How many actions one commit may have.
const MOST_ACTIONS: usize = 10_000;

/// Contents of this many bytes together are stored before the repository is locked.
const STORED_AHEAD: usize = 1 << 20;

/// One change of a commit (specification 4.2). Paths are normalised and checked as [`TreePath`] says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Adds a file where none is.
    Create {
        /// The path of the file.
        path: String,
        /// Its bytes.
        content: Bytes,
    },
    /// Replaces a file's bytes and keeps its mode.
    Update {
        /// The path of the file.
        path: String,
        /// Its new bytes.
        content: Bytes,
        /// The last commit that touched the file, as far as the caller knows.
        last_commit_id: Option<String>,
    },
    /// Moves a file and keeps its mode.
    Move {
        /// The path to move to, where no file may be.
        path: String,
        /// The path to move from.
        previous_path: String,
        /// New bytes; none to keep the old.
        content: Option<Bytes>,
        /// The last commit that touched the file at its old path, as far as the caller knows.
        last_commit_id: Option<String>,
    },
    /// Removes a file, and the directories it leaves empty.
    Delete {
        /// The path of the file.
        path: String,
        /// The last commit that touched the file, as far as the caller knows.
        last_commit_id: Option<String>,
    },
    /// Makes a file executable or not.
    Chmod {
        /// The path of the file.
        path: String,
        /// Whether it shall be executable.
        executable: bool,
    },
}

/// Where a commit starts from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// From the branch it goes to, which must exist unless the repository is empty.
    Head,
    /// From another branch; the one it goes to must not exist, or be forced. The same branch is [`Start::Head`].
    Branch(String),
    /// From a commit; the branch it goes to must not exist, or be forced.
    Sha(Oid),
}

/// What to commit, and where.
#[derive(Debug, Clone)]
pub struct CommitRequest {
    /// The branch that gets the commit.
    pub branch: String,
    /// Where the commit starts from.
    pub start: Start,
    /// Whether an existing branch may be moved to a commit that starts elsewhere.
    pub force: bool,
    /// Whether a commit without any change is made rather than refused.
    pub allow_empty: bool,
    /// The message, stored as it is but for NUL.
    pub message: String,
    /// Who made the change.
    pub author: Signature,
    /// Who makes the commit.
    pub committer: Signature,
    /// The changes, applied in order; the first that fails fails all.
    pub actions: Vec<Action>,
}

/// What a write did to a branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitResult {
    /// The new commit.
    pub commit: Oid,
    /// Whether the branch is new.
    pub branch_created: bool,
    /// Where the branch stood before.
    pub old: Option<Oid>,
}

impl Repository {
    /// Makes one commit of some actions and moves the branch to it. Everything is durable when this returns.
    ///
    /// # Errors
    /// As [`Self::prepare_commit`] and [`PreparedCommit::publish`].
    pub async fn commit_actions(&self, request: CommitRequest) -> Result<CommitResult> {
        self.prepare_commit(request).await?.publish().await
    }

    /// Stores the objects of one commit of some actions, durably, and keeps the right to write until it is published
    /// or dropped. Nothing refers to them yet.
    ///
    /// # Errors
    /// [`Error::Action`] for an action that cannot be applied; [`Error::InvalidReferenceName`];
    /// [`Error::BranchNotFound`] when the branch to start from is missing; [`Error::RevisionNotFound`] when the
    /// commit to start from is; [`Error::ReferenceExists`] when the branch exists but the commit starts
    /// elsewhere without force; [`Error::EmptyChange`]; [`Error::LimitExceeded`] for too many actions.
    pub async fn prepare_commit(&self, request: CommitRequest) -> Result<PreparedCommit> {
        check_branch_name(&request.branch)?;
        if request.actions.len() > MOST_ACTIONS {
            return Err(Error::LimitExceeded("the commit has too many actions"));
        }
        let (request, steps, expected, batch) = self
            .git2(move |repository| {
                let expected = expectations(&request.actions)?;
                let mut batch = ObjectBatch::default();
                let (actions, request) = split(request);
                let steps = apply::prepare(actions, &mut batch)?;
                // Large contents are stored before the lock is taken: should the rest fail, nothing refers to them.
                // Small ones are stored with the trees, which syncs but once.
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
                guard,
            })
        })
        .await
    }

    /// Compares the last commits that a caller expects at some paths with those in history. A path without
    /// history cannot have changed.
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

/// A commit whose objects are stored and whose branch has not moved yet. While it is held, nobody else writes to the
/// repository.
pub struct PreparedCommit {
    repository: Repository,
    branch: String,
    base: Base,
    commit: Oid,
    guard: WriteGuard,
}

impl PreparedCommit {
    /// Moves the branch. It has moved, durably, when this returns.
    ///
    /// In an empty repository any branch becomes the first one, and HEAD follows it.
    ///
    /// # Errors
    /// [`Error::StaleReference`] when a push was faster.
    pub async fn publish(self) -> Result<CommitResult> {
        let Self {
            repository,
            branch,
            base,
            commit,
            guard,
        } = self;
        repository
            .git2(move |git| {
                let _guard = guard;
                publish(git, &branch, base.old, base.parent, commit)
            })
            .await
    }
}

/// The paths whose last commit a caller names, with that name.
fn expectations(actions: &[Action]) -> Result<Vec<(TreePath, String)>> {
    let mut expected = Vec::new();
    for action in actions {
        let (path, last) = match action {
            Action::Update {
                path, last_commit_id, ..
            }
            | Action::Delete { path, last_commit_id } => (path, last_commit_id),
            Action::Move {
                previous_path,
                last_commit_id,
                ..
            } => (previous_path, last_commit_id),
            Action::Create { .. } | Action::Chmod { .. } => continue,
        };
        if let Some(last) = last {
            expected.push((TreePath::parse(path)?, last.clone()));
        }
    }
    Ok(expected)
}

/// The commit to build on, and what the branch points at now.
struct Base {
    parent: Option<Oid>,
    old: Option<Oid>,
}

impl Base {
    fn find(repository: &git2::Repository, request: &CommitRequest) -> Result<Self> {
        let old = branches::tip(repository, &request.branch)?;
        let parent = match &request.start {
            Start::Branch(name) if *name != request.branch => {
                Some(branches::tip(repository, name)?.ok_or(Error::BranchNotFound)?)
            }
            Start::Sha(id) => {
                commit::read(repository, *id).map_err(|error| match error {
                    Error::ObjectNotFound => Error::RevisionNotFound,
                    other => other,
                })?;
                Some(*id)
            }
            Start::Head | Start::Branch(_) => {
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

/// Takes the actions out of a request.
fn split(mut request: CommitRequest) -> (Vec<Action>, CommitRequest) {
    (std::mem::take(&mut request.actions), request)
}

/// Builds the trees and the commit into a batch and answers the commit's id.
fn build(
    repository: &git2::Repository,
    request: &CommitRequest,
    base: &Base,
    steps: &[Step],
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
    let after = tree.write(batch)?;
    let unchanged = before.map_or(tree.is_empty()?, |before| before == after);
    if unchanged && !request.allow_empty {
        return Err(Error::EmptyChange);
    }
    let parents: Vec<Oid> = base.parent.into_iter().collect();
    let data = commit::serialise(
        after,
        &parents,
        &request.message,
        &request.author,
        &request.committer,
    );
    batch.add(git2::ObjectType::Commit, data)
}

/// Moves a branch from `old` to a new commit, or creates it there.
pub(super) fn publish(
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
            // HEAD first: a crash in between leaves an empty repository, not one without a default branch.
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
