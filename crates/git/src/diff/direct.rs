//! Small diffs computed in this process, which for most commits takes a fraction of the time to start a
//! program. Possible renames and large or unusual changes are left to the program. The results equal those of
//! the program; a test compares both over a whole history.

use std::collections::HashMap;

use git2::{DiffFlags, DiffOptions, FileMode, ObjectType, Odb, Patch};

use super::{Diff, DiffEntry, DiffLimits, DiffStats};
use crate::error::absent;
use crate::{Oid, Result, commit, object_memory, trees};

/// Maximum number of files compared here.
const MAX_FILES: usize = 200;
/// Maximum size of a file, in bytes.
const MAX_FILE_BYTES: usize = 512 << 10;
/// Maximum size of all files together, in bytes.
const MAX_TOTAL_BYTES: usize = 4 << 20;
/// Maximum depth of nested trees.
const MAX_DEPTH: usize = 64;
/// Type bits of a file mode, and their values for regular files and symbolic links.
const TYPE_BITS: i32 = 0o170_000;

/// One side of a change: the mode and the blob ID.
type Side = (i32, Oid);

/// An added, changed or deleted file.
struct FileChange {
    path: Vec<u8>,
    old: Option<Side>,
    new: Option<Side>,
}

/// Returns the diff between two commits or trees, or `None` if the program has to compute it.
pub(super) fn diff(
    repository: &git2::Repository,
    before: Oid,
    after: Oid,
    limits: &DiffLimits,
) -> Result<Option<Diff>> {
    let odb = repository.odb()?;
    let Some(changes) = changes(repository, &odb, before, after)? else {
        return Ok(None);
    };
    let mut options = DiffOptions::new();
    options.indent_heuristic(true);
    let mut contents = BlobReader::of(repository, &odb);
    let (mut lines, mut bytes) = (0, 0);
    let mut entries = Vec::with_capacity(changes.len());
    for change in changes {
        let Some((old, new)) = contents.read(&change)? else {
            return Ok(None);
        };
        let text = if old == new {
            String::new()
        } else {
            let mut patch = Patch::from_buffers(&old, None, &new, None, Some(&mut options))?;
            if patch.delta().flags().contains(DiffFlags::BINARY) {
                return Ok(None);
            }
            hunks(&patch.to_buf()?)
        };
        lines += text.bytes().filter(|byte| *byte == b'\n').count();
        bytes += text.len();
        if text.len() >= limits.patch_bytes || lines > limits.lines || bytes > limits.bytes {
            return Ok(None);
        }
        entries.push(change.entry(text));
    }
    Ok(Some(Diff {
        entries,
        truncated: false,
    }))
}

/// Returns the number of added and removed lines, or `None` if the program has to count them.
pub(super) fn stats(repository: &git2::Repository, before: Oid, after: Oid) -> Result<Option<DiffStats>> {
    let odb = repository.odb()?;
    let Some(changes) = changes(repository, &odb, before, after)? else {
        return Ok(None);
    };
    let mut options = DiffOptions::new();
    options.indent_heuristic(true).context_lines(0);
    let mut contents = BlobReader::of(repository, &odb);
    let mut stats = DiffStats::default();
    for change in changes {
        let Some((old, new)) = contents.read(&change)? else {
            return Ok(None);
        };
        if old == new {
            continue;
        }
        let (old, new) = without_common_tail(&old, &new);
        let patch = Patch::from_buffers(old, None, new, None, Some(&mut options))?;
        if patch.delta().flags().contains(DiffFlags::BINARY) {
            return Ok(None);
        }
        let (_, additions, deletions) = patch.line_stats()?;
        stats.additions += additions as u64;
        stats.deletions += deletions as u64;
    }
    Ok(Some(stats))
}

/// Returns the files that differ, by path, or `None` if some may be renamed or are not plain files.
fn changes(
    repository: &git2::Repository,
    odb: &Odb<'_>,
    before: Oid,
    after: Oid,
) -> Result<Option<Vec<FileChange>>> {
    let mut found = Some(Vec::new());
    let (before, after) = (
        tree_of(repository, odb, before)?,
        tree_of(repository, odb, after)?,
    );
    compare(repository, before, after, &[], 0, &mut found)?;
    let Some(mut found) = found else { return Ok(None) };
    let added = found.iter().any(|change| change.old.is_none());
    let deleted = found.iter().any(|change| change.new.is_none());
    if added && deleted {
        return Ok(None);
    }
    found.sort_unstable_by(|one, other| one.path.cmp(&other.path));
    Ok(Some(found))
}

/// Returns the tree of a commit, or the ID itself for a tree. The empty tree may be missing from the
/// repository.
fn tree_of(repository: &git2::Repository, odb: &Odb<'_>, id: Oid) -> Result<Option<Oid>> {
    if id == Oid::hash_object(ObjectType::Tree, b"")? {
        return Ok(None);
    }
    match odb.read_header(id).map_err(absent)? {
        (_, ObjectType::Commit) => Ok(Some(commit::read(repository, id)?.tree)),
        _ => Ok(Some(id)),
    }
}

/// Adds the differences below two directories. Sets `found` to `None` if there are too many or unsupported
/// changes.
fn compare(
    repository: &git2::Repository,
    before: Option<Oid>,
    after: Option<Oid>,
    prefix: &[u8],
    depth: usize,
    found: &mut Option<Vec<FileChange>>,
) -> Result<()> {
    if before == after {
        return Ok(());
    }
    let read = |id: Option<Oid>| id.map(|id| trees::find(repository, id)).transpose();
    let (before, after) = (read(before)?, read(after)?);
    let entries = |tree: &Option<git2::Tree<'_>>| -> HashMap<Vec<u8>, Side> {
        let entries = tree.iter().flat_map(|tree| tree.iter());
        let entry =
            |entry: git2::TreeEntry<'_>| (entry.name_bytes().to_vec(), (entry.filemode_raw(), entry.id()));
        entries.map(entry).collect()
    };
    let mut old = entries(&before);
    let new = entries(&after);
    let mut pairs: Vec<_> = new
        .into_iter()
        .map(|(name, side)| (old.remove(&name), Some(side), name))
        .collect();
    pairs.extend(old.into_iter().map(|(name, side)| (Some(side), None, name)));
    for (old, new, name) in pairs {
        if old == new {
            continue;
        }
        let path = [prefix, &name].concat();
        let directory =
            |side: Option<Side>| side.is_some_and(|(mode, _)| kind(mode) == i32::from(FileMode::Tree));
        match (directory(old), directory(new)) {
            (false, false) => {
                let Some(changes) = found.as_mut() else {
                    return Ok(());
                };
                let plain = [old, new].into_iter().flatten().all(|(mode, _)| is_file(mode));
                let same_kind = old.zip(new).is_none_or(|(old, new)| kind(old.0) == kind(new.0));
                if plain && same_kind && changes.len() < MAX_FILES {
                    changes.push(FileChange { path, old, new });
                } else {
                    *found = None;
                }
            }
            // A file replaced by a directory is deleted while other files are added, which may be renames of
            // it.
            (one, other) if one != other && old.is_some() && new.is_some() => *found = None,
            _ if depth >= MAX_DEPTH => *found = None,
            _ => {
                let below = [path.as_slice(), b"/"].concat();
                let id = |side: Option<Side>| side.map(|(_, id)| id);
                compare(repository, id(old), id(new), &below, depth + 1, found)?;
            }
        }
        if found.is_none() {
            return Ok(());
        }
    }
    Ok(())
}

fn kind(mode: i32) -> i32 {
    mode & TYPE_BITS
}

fn is_file(mode: i32) -> bool {
    [FileMode::Blob, FileMode::Link]
        .map(|mode| kind(mode.into()))
        .contains(&kind(mode))
}

impl FileChange {
    fn entry(self, diff: String) -> DiffEntry {
        let mode = |side: Option<Side>| side.map_or("0".to_owned(), |(mode, _)| format!("{mode:o}"));
        let path = String::from_utf8_lossy(&self.path).into_owned();
        DiffEntry {
            old_path: path.clone(),
            new_path: path,
            a_mode: mode(self.old),
            b_mode: mode(self.new),
            new_file: self.old.is_none(),
            deleted_file: self.new.is_none(),
            diff,
            ..DiffEntry::default()
        }
    }
}

/// Reads blobs until their total size exceeds the limit.
struct BlobReader<'a> {
    repository: &'a git2::Repository,
    odb: &'a Odb<'a>,
    remaining_bytes: usize,
}

impl<'a> BlobReader<'a> {
    fn of(repository: &'a git2::Repository, odb: &'a Odb<'a>) -> Self {
        Self {
            repository,
            odb,
            remaining_bytes: MAX_TOTAL_BYTES,
        }
    }

    /// Returns both contents of a change, or `None` if they are too large.
    fn read(&mut self, change: &FileChange) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        if change.old.map(|side| side.1) == change.new.map(|side| side.1) {
            return Ok(Some((Vec::new(), Vec::new())));
        }
        let Some(old) = self.one(change.old)? else {
            return Ok(None);
        };
        let Some(new) = self.one(change.new)? else {
            return Ok(None);
        };
        Ok(Some((old, new)))
    }

    fn one(&mut self, side: Option<Side>) -> Result<Option<Vec<u8>>> {
        let Some((_, id)) = side else {
            return Ok(Some(Vec::new()));
        };
        let (size, _) = self.odb.read_header(id).map_err(absent)?;
        if size > MAX_FILE_BYTES || size > self.remaining_bytes {
            return Ok(None);
        }
        if object_memory::needed(self.repository, id)?.bytes > object_memory::MAX_IN_PROCESS_BYTES {
            return Ok(None);
        }
        self.remaining_bytes -= size;
        Ok(Some(self.odb.read(id).map_err(absent)?.data().to_vec()))
    }
}

/// Returns the hunks of a patch without the header.
fn hunks(patch: &[u8]) -> String {
    let starts = |at: &usize| patch.get(*at..).is_some_and(|rest| rest.starts_with(b"@@"));
    let after_line_end = patch
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b'\n')
        .map(|(at, _)| at + 1);
    let start = after_line_end.into_iter().find(starts).unwrap_or(patch.len());
    String::from_utf8_lossy(patch.get(start..).unwrap_or_default()).into_owned()
}

/// Returns two texts without their common last lines, which Git skips when it only counts lines. Git goes
/// back block by block while the blocks are equal, and then forward to the next line end.
fn without_common_tail<'a>(old: &'a [u8], new: &'a [u8]) -> (&'a [u8], &'a [u8]) {
    const BLOCK: usize = 1024;
    let blocks = old.rchunks_exact(BLOCK).zip(new.rchunks_exact(BLOCK));
    let equal = blocks.take_while(|(old, new)| old == new).count() * BLOCK;
    let tail = old.get(old.len() - equal..).unwrap_or_default();
    let partial_line = tail
        .iter()
        .position(|byte| *byte == b'\n')
        .map_or(equal, |at| at + 1);
    let trimmed = equal - partial_line;
    let without = |text: &'a [u8]| text.get(..text.len() - trimmed).unwrap_or(text);
    (without(old), without(new))
}
