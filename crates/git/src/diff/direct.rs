//! Small diffs computed in this process, which for most commits takes a fraction of the time to start a
//! program. Possible renames and large or unusual changes are left to the program. The results equal those of
//! the program; a test compares both over a whole history.

use git2::{DiffFlags, DiffOptions, FileMode, ObjectType, Odb, Patch};

use super::tree_walk::{Side, TreeChange, TreeWalk, kind};
use super::{Diff, DiffEntry, DiffLimits, DiffStats};
use crate::error::absent;
use crate::{Oid, Result, commit, object_memory};

/// Maximum number of files compared here.
const MAX_FILES: usize = 200;
/// Maximum size of a file, in bytes.
const MAX_FILE_BYTES: usize = 512 << 10;
/// Maximum size of all files together, in bytes.
const MAX_TOTAL_BYTES: usize = 4 << 20;
/// Maximum size of the trees that are compared, in bytes.
const MAX_TREE_BYTES: usize = 16 << 20;

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
) -> Result<Option<Vec<TreeChange>>> {
    let mut found = Vec::new();
    let (before, after) = (
        tree_of(repository, odb, before)?,
        tree_of(repository, odb, after)?,
    );
    let mut walk = TreeWalk::new(repository, MAX_TREE_BYTES);
    let complete = walk.compare(before, after, &mut |change| {
        let is_supported = found.len() < MAX_FILES && is_plain(&change);
        if is_supported {
            found.push(change);
        }
        is_supported
    })?;
    if !complete {
        return Ok(None);
    }
    let added = found.iter().any(|change| change.old.is_none());
    let deleted = found.iter().any(|change| change.new.is_none());
    if added && deleted {
        return Ok(None);
    }
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

/// Returns whether a change concerns files or symbolic links, and keeps the type.
fn is_plain(change: &TreeChange) -> bool {
    let sides = || {
        [change.old, change.new]
            .into_iter()
            .flatten()
            .map(|(mode, _)| kind(mode))
    };
    let is_file = |sought| {
        [FileMode::Blob, FileMode::Link]
            .map(|mode| kind(mode.into()))
            .contains(&sought)
    };
    sides().all(is_file) && sides().max() == sides().min()
}

impl TreeChange {
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
    fn read(&mut self, change: &TreeChange) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
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
