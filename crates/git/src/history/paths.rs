//! Comparison of two commits at a path.

use gix::objs::tree::EntryKind;
use gix::objs::{Find, TreeRefIter};

use super::bloom::PathKeys;
use super::commits::{Commits, Node, gix_error, object_id, read_error};
use crate::{Oid, Result};

/// A literal path to follow through history.
pub(super) struct PathFilter {
    components: Vec<Vec<u8>>,
    /// Whether the path ends in a slash, so that it matches only a directory or submodule.
    directory: bool,
    keys: PathKeys,
}

/// Kind and ID of the entry at a path. The kind matters, because a mode can change alone.
type Entry = (EntryKind, gix::ObjectId);

impl PathFilter {
    /// Returns the filter of a path; `None` for the root, which contains every path.
    pub(super) fn new(path: &str) -> Option<Self> {
        let trimmed = path.trim_matches('/');
        if trimmed.is_empty() {
            return None;
        }
        Some(Self {
            components: trimmed
                .split('/')
                .map(|component| component.as_bytes().to_vec())
                .collect(),
            directory: path.ends_with('/'),
            keys: PathKeys::new(trimmed.as_bytes()),
        })
    }

    /// Returns whether `node` equals `parent` at the path; `first` marks the first parent.
    pub(super) fn is_unchanged(
        &self,
        commits: &Commits,
        node: Node,
        parent: Node,
        first: bool,
    ) -> Result<bool> {
        if first && self.is_surely_unchanged(commits, node) {
            return Ok(true);
        }
        let mut trees = [Some(commits.tree(node)?), Some(commits.tree(parent)?)];
        for (depth, component) in self.components.iter().enumerate() {
            if trees[0] == trees[1] {
                return Ok(true);
            }
            let last = depth + 1 == self.components.len();
            let [ours, theirs] = trees.map(|tree| self.step(commits, tree, component, last));
            let (ours, theirs) = (ours?, theirs?);
            if last {
                return Ok(ours == theirs);
            }
            trees = [below(ours)?, below(theirs)?];
        }
        Ok(false)
    }

    /// Returns whether a commit without parents has no entry at the path.
    pub(super) fn is_absent(&self, commits: &Commits, node: Node) -> Result<bool> {
        Ok(self.is_surely_unchanged(commits, node) || self.entry(commits, commits.tree(node)?)?.is_none())
    }

    fn is_surely_unchanged(&self, commits: &Commits, node: Node) -> bool {
        commits.in_graph(node) && !commits.graph().may_change(node, &self.keys)
    }

    /// Returns the entry at the path below a root tree.
    fn entry(&self, commits: &Commits, root: Oid) -> Result<Option<Entry>> {
        let mut tree = Some(root);
        let mut found = None;
        for (depth, component) in self.components.iter().enumerate() {
            let last = depth + 1 == self.components.len();
            found = self.step(commits, tree, component, last)?;
            tree = below(found)?;
        }
        Ok(found)
    }

    fn step(&self, commits: &Commits, tree: Option<Oid>, name: &[u8], last: bool) -> Result<Option<Entry>> {
        let Some(tree) = tree else { return Ok(None) };
        commits.check_time()?;
        let entry = entry_of(commits.objects(), tree, name)?;
        Ok(entry.filter(|(kind, id)| {
            let matches_kind =
                !(last && self.directory) || matches!(kind, EntryKind::Tree | EntryKind::Commit);
            // Git does not distinguish an empty directory from a missing one.
            matches_kind && !id.is_empty_tree()
        }))
    }
}

/// Returns the tree of an entry; `None` for other entries.
fn below(entry: Option<Entry>) -> Result<Option<Oid>> {
    match entry {
        Some((EntryKind::Tree, id)) => Ok(Some(super::commits::oid(&id)?)),
        _ => Ok(None),
    }
}

/// Returns the entry of a tree by name.
fn entry_of(objects: &gix::Repository, tree: Oid, name: &[u8]) -> Result<Option<Entry>> {
    let mut buffer = Vec::new();
    let id = object_id(tree)?;
    let found = objects.objects.try_find(&id, &mut buffer);
    let Some(data) = found.map_err(|error| read_error(objects, &id, error))? else {
        return Ok(None);
    };
    for entry in TreeRefIter::from_bytes(data.data, gix::hash::Kind::Sha1) {
        let entry = entry.map_err(gix_error)?;
        if entry.filename == name {
            return Ok(Some((entry.mode.kind(), entry.oid.to_owned())));
        }
    }
    Ok(None)
}

/// Returns whether a literal path of a commit is a file rather than a directory or submodule; `None` if it
/// does not exist.
pub(super) fn kind_at(commits: &Commits, node: Node, path: &str) -> Result<Option<bool>> {
    let Some(filter) = PathFilter::new(path) else {
        return Ok(Some(false));
    };
    let entry = filter.entry(commits, commits.tree(node)?)?;
    Ok(entry.map(|(kind, _)| !matches!(kind, EntryKind::Tree | EntryKind::Commit)))
}
