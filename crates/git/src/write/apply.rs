//! Rules of the actions of a commit.

use git2::ObjectType;

use parsers::gitmodules::check_gitmodules;

use super::super::error::absent;
use super::super::path::{is_gitmodules, may_be_symlink};
use super::super::{ActionError, Error, Oid, Result, TreePath, object_memory};
use super::tree::{FoundEntry, MemoryTree};
use super::{FileAction, ObjectBatch};

/// The mode of a new file.
const REGULAR: i32 = 0o100_644;

/// The mode of an executable file.
const EXECUTABLE: i32 = 0o100_755;

/// Bits of a mode that distinguish a file from a link or a submodule.
const TYPE_BITS: i32 = 0o170_000;

/// Type bits of a regular file, with any permissions.
const REGULAR_TYPE: i32 = 0o100_000;

/// The mode of a symbolic link.
const SYMLINK: i32 = 0o120_000;

/// The mode of a submodule.
const SUBMODULE: i32 = 0o160_000;

/// An action with checked paths and with its content in a batch.
pub(super) enum TreeStep {
    Create {
        path: TreePath,
        id: Oid,
    },
    Update {
        path: TreePath,
        id: Oid,
    },
    Move {
        from: TreePath,
        to: TreePath,
        id: Option<Oid>,
    },
    Delete {
        path: TreePath,
    },
    Chmod {
        path: TreePath,
        executable: bool,
    },
}

/// Checks all paths and moves the contents into a batch.
pub(super) fn prepare(actions: Vec<FileAction>, batch: &mut ObjectBatch) -> Result<Vec<TreeStep>> {
    let paths: Vec<(TreePath, Option<TreePath>)> = actions.iter().map(paths).collect::<Result<_>>()?;
    let mut blob = |content| batch.add(ObjectType::Blob, content);
    let mut steps = Vec::with_capacity(actions.len());
    for (action, (path, previous)) in actions.into_iter().zip(paths) {
        steps.push(match action {
            FileAction::Create { content, .. } => TreeStep::Create {
                path,
                id: blob(content)?,
            },
            FileAction::Update { content, .. } => TreeStep::Update {
                path,
                id: blob(content)?,
            },
            FileAction::Move { content, .. } => {
                let id = content.map(&mut blob).transpose()?;
                TreeStep::Move {
                    from: previous.ok_or(ActionError::PathEmpty)?,
                    to: path,
                    id,
                }
            }
            FileAction::Delete { .. } => TreeStep::Delete { path },
            FileAction::Chmod { executable, .. } => TreeStep::Chmod { path, executable },
        });
    }
    Ok(steps)
}

fn paths(action: &FileAction) -> Result<(TreePath, Option<TreePath>)> {
    match action {
        FileAction::Move {
            path, previous_path, ..
        } => Ok((TreePath::parse(path)?, Some(TreePath::parse(previous_path)?))),
        FileAction::Create { path, .. }
        | FileAction::Update { path, .. }
        | FileAction::Delete { path, .. }
        | FileAction::Chmod { path, .. } => Ok((TreePath::parse(path)?, None)),
    }
}

/// Applies one step to the tree.
pub(super) fn apply(tree: &mut MemoryTree<'_>, step: &TreeStep) -> Result<()> {
    match step {
        TreeStep::Create { path, id } => {
            vacant(tree, path)?;
            tree.insert(path, REGULAR, *id)
        }
        TreeStep::Update { path, id } => {
            let (mode, _) = file(tree, path)?;
            tree.insert(path, mode, *id)
        }
        TreeStep::Move { from, to, id } => {
            let (mode, old) = file(tree, from)?;
            // The source is removed first, so that `a` can move to `a/b`; a move onto itself is rejected.
            if let FoundEntry::Leaf { .. } = tree.find(to)? {
                return Err(ActionError::FileExists.into());
            }
            if mode == SYMLINK && !may_be_symlink(to.file_name()) {
                return Err(ActionError::PathInvalid(to.as_str().to_owned()).into());
            }
            tree.remove(from)?;
            tree.insert(to, mode, id.unwrap_or(old))
        }
        TreeStep::Delete { path } => match tree.find(path)? {
            FoundEntry::Leaf { .. } => tree.remove(path),
            _ => Err(ActionError::FileMissing.into()),
        },
        TreeStep::Chmod { path, executable } => {
            let (mode, id) = file(tree, path)?;
            if mode & TYPE_BITS != REGULAR_TYPE {
                return Err(ActionError::FileMissing.into());
            }
            tree.insert(path, if *executable { EXECUTABLE } else { REGULAR }, id)
        }
    }
}

/// Checks the new files with submodules, after all steps, as Git checks them in pushes.
///
/// # Errors
/// [`ActionError::SubmodulesInvalid`].
pub(super) fn check_submodules(
    repository: &git2::Repository,
    tree: &mut MemoryTree<'_>,
    steps: &[TreeStep],
    batch: &ObjectBatch,
) -> Result<()> {
    let written = steps.iter().filter_map(|step| match step {
        TreeStep::Create { path, .. } | TreeStep::Update { path, .. } | TreeStep::Move { to: path, .. } => {
            Some(path)
        }
        TreeStep::Delete { .. } | TreeStep::Chmod { .. } => None,
    });
    for path in written.filter(|path| is_gitmodules(path.file_name())) {
        // A later step may have moved or removed the file.
        let FoundEntry::Leaf { mode, id } = tree.find(path)? else {
            continue;
        };
        if mode & TYPE_BITS != REGULAR_TYPE {
            continue;
        }
        let checked = match batch.content(id) {
            Some(content) => check_gitmodules(content),
            None => {
                object_memory::check(repository, id)?;
                let odb = repository.odb()?;
                let object = odb.read(id).map_err(absent)?;
                check_gitmodules(object.data())
            }
        };
        checked
            .map_err(|rule| Error::Action(ActionError::SubmodulesInvalid(path.as_str().to_owned(), rule)))?;
    }
    Ok(())
}

/// Returns mode and ID of the file or link at a path; a submodule has no content to change.
fn file(tree: &mut MemoryTree<'_>, path: &TreePath) -> Result<(i32, Oid)> {
    match tree.find(path)? {
        FoundEntry::Leaf { mode, id } if mode != SUBMODULE => Ok((mode, id)),
        _ => Err(ActionError::FileMissing.into()),
    }
}

fn vacant(tree: &mut MemoryTree<'_>, path: &TreePath) -> Result<()> {
    match tree.find(path)? {
        FoundEntry::Nothing => Ok(()),
        FoundEntry::Leaf { .. } => Err(ActionError::FileExists.into()),
        FoundEntry::Directory | FoundEntry::Blocked => {
            Err(ActionError::PathOccupied(path.as_str().to_owned()).into())
        }
    }
}
