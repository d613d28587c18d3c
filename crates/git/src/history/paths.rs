//! Whether two commits hold the same thing at a path.

use gix::objs::tree::EntryKind;
use gix::objs::{Find, TreeRefIter};

use super::bloom::PathKeys;
use super::commits::{Commits, Node, gix_error, object_id};
use crate::{Oid, Result};

/// A literal path to follow through history.
pub(super) struct PathFilter {
    components: Vec<Vec<u8>>,
    /// A path that ends in a slash names a directory (or submodule) only.
    directory: bool,
    keys: PathKeys,
}

/// What stands at a path: kind and id. The kind counts, for a mode can change alone.
type Entry = (EntryKind, gix::ObjectId);

impl PathFilter {
    /// The filter of a path; `None` for the root, which everything is below.
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

    /// Whether `node` is the same as `parent` at the path; `first` tells that it is the first parent.
    pub(super) fn same(&self, commits: &Commits, node: Node, parent: Node, first: bool) -> Result<bool> {
        if first && self.surely_untouched(commits, node) {
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

    /// Whether nothing stands at the path in a commit without parents.
    pub(super) fn absent(&self, commits: &Commits, node: Node) -> Result<bool> {
        Ok(self.surely_untouched(commits, node) || self.entry(commits, commits.tree(node)?)?.is_none())
    }

    fn surely_untouched(&self, commits: &Commits, node: Node) -> bool {
        commits.in_graph(node) && !commits.graph().may_change(node, &self.keys)
    }

    /// What stands at the path below a root tree.
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
            let wanted = !(last && self.directory) || matches!(kind, EntryKind::Tree | EntryKind::Commit);
            // Git sees no difference between an empty directory and none.
            wanted && !id.is_empty_tree()
        }))
    }
}

/// The tree that an entry is; `None` for anything else.
fn below(entry: Option<Entry>) -> Result<Option<Oid>> {
    match entry {
        Some((EntryKind::Tree, id)) => Ok(Some(super::commits::oid(&id)?)),
        _ => Ok(None),
    }
}

/// The entry of a tree by its name.
fn entry_of(objects: &gix::Repository, tree: Oid, name: &[u8]) -> Result<Option<Entry>> {
    let mut buffer = Vec::new();
    let Some(data) = objects
        .objects
        .try_find(&object_id(tree)?, &mut buffer)
        .map_err(gix_error)?
    else {
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

/// Whether a literal path of a commit holds anything, and whether that is a file (neither directory nor submodule).
pub(super) fn kind_at(commits: &Commits, node: Node, path: &str) -> Result<Option<bool>> {
    let Some(filter) = PathFilter::new(path) else {
        return Ok(Some(false));
    };
    let entry = filter.entry(commits, commits.tree(node)?)?;
    Ok(entry.map(|(kind, _)| !matches!(kind, EntryKind::Tree | EntryKind::Commit)))
}
