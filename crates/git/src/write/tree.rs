//! A tree in memory: directories are read on first access, and only changed directories are written.

use std::collections::BTreeMap;

use super::super::trees::{self, EntryKind};
use super::super::{ActionError, Error, Oid, Result, TreePath};
use super::ObjectBatch;

/// The mode of a directory as trees store it.
const DIRECTORY_MODE: i32 = 0o040_000;

/// A tree that can be modified.
pub(crate) struct MemoryTree<'r> {
    repository: &'r git2::Repository,
    root: Directory,
}

/// The entry at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FoundEntry {
    /// A file, symbolic link or submodule.
    Leaf {
        /// The stored mode.
        mode: i32,
        /// The object ID.
        id: Oid,
    },
    /// A directory.
    Directory,
    /// The path leads through a file.
    Blocked,
    /// Nothing.
    Nothing,
}

enum Entry {
    Leaf { mode: i32, id: Oid },
    Directory(Directory),
}

#[derive(Default)]
struct Directory {
    /// The ID of the stored tree; `None` after a change.
    id: Option<Oid>,
    /// The entries by name, once read.
    entries: Option<BTreeMap<Vec<u8>, Entry>>,
}

impl<'r> MemoryTree<'r> {
    /// Returns the tree of an ID, or an empty tree.
    pub(crate) fn new(repository: &'r git2::Repository, id: Option<Oid>) -> Self {
        Self {
            repository,
            root: Directory { id, entries: None },
        }
    }

    /// Returns the entry at a path.
    pub(crate) fn find(&mut self, path: &TreePath) -> Result<FoundEntry> {
        let mut directory = &mut self.root;
        let mut components = path.components().peekable();
        while let Some(component) = components.next() {
            let is_last = components.peek().is_none();
            match directory.read(self.repository)?.get_mut(component.as_bytes()) {
                None => return Ok(FoundEntry::Nothing),
                Some(Entry::Leaf { mode, id }) if is_last => {
                    return Ok(FoundEntry::Leaf { mode: *mode, id: *id });
                }
                Some(Entry::Leaf { .. }) => return Ok(FoundEntry::Blocked),
                Some(Entry::Directory(_)) if is_last => return Ok(FoundEntry::Directory),
                Some(Entry::Directory(next)) => directory = next,
            }
        }
        Ok(FoundEntry::Directory)
    }

    /// Inserts or replaces a leaf at a path, and creates its parent directories.
    ///
    /// # Errors
    /// [`ActionError::PathOccupied`] if a directory is at the path, or the path leads through a file.
    pub(crate) fn insert(&mut self, path: &TreePath, mode: i32, id: Oid) -> Result<()> {
        let occupied = || Error::Action(ActionError::PathOccupied(path.as_str().to_owned()));
        let mut directory = &mut self.root;
        let mut components = path.components().peekable();
        while let Some(component) = components.next() {
            directory.read(self.repository)?;
            directory.id = None;
            let entries = directory.entries.get_or_insert_default();
            let name = component.as_bytes().to_vec();
            if components.peek().is_none() {
                if let Some(Entry::Directory(_)) = entries.get(&name) {
                    return Err(occupied());
                }
                entries.insert(name, Entry::Leaf { mode, id });
                return Ok(());
            }
            match entries
                .entry(name)
                .or_insert_with(|| Entry::Directory(Directory::default()))
            {
                Entry::Directory(next) => directory = next,
                Entry::Leaf { .. } => return Err(occupied()),
            }
        }
        Ok(())
    }

    /// Removes the leaf at a path and the directories that become empty. A missing leaf is not an error.
    pub(crate) fn remove(&mut self, path: &TreePath) -> Result<()> {
        let components: Vec<&str> = path.components().collect();
        self.root.remove(self.repository, &components)
    }

    /// Returns whether the tree has no entries.
    pub(crate) fn is_empty(&mut self) -> Result<bool> {
        Ok(self.root.read(self.repository)?.is_empty())
    }

    /// Adds the changes to a batch and returns the ID of the root.
    pub(crate) fn write(&mut self, batch: &mut ObjectBatch) -> Result<Oid> {
        self.root.write(batch)
    }
}

impl Directory {
    fn read(&mut self, repository: &git2::Repository) -> Result<&mut BTreeMap<Vec<u8>, Entry>> {
        if let (None, Some(id)) = (&self.entries, self.id) {
            let tree = trees::find(repository, id)?;
            let entries = tree.iter().map(|entry| {
                let (mode, id) = (entry.filemode_raw(), entry.id());
                let below = match trees::kind(mode) {
                    EntryKind::Tree => Entry::Directory(Self {
                        id: Some(id),
                        entries: None,
                    }),
                    EntryKind::Blob | EntryKind::Commit => Entry::Leaf { mode, id },
                };
                (entry.name_bytes().to_vec(), below)
            });
            self.entries = Some(entries.collect());
        }
        Ok(self.entries.get_or_insert_default())
    }

    fn remove(&mut self, repository: &git2::Repository, path: &[&str]) -> Result<()> {
        let Some((first, rest)) = path.split_first() else {
            return Ok(());
        };
        let name = first.as_bytes();
        let removes_entry = match self.read(repository)?.get_mut(name) {
            None => return Ok(()),
            Some(Entry::Leaf { .. }) => rest.is_empty(),
            Some(Entry::Directory(below)) => {
                below.remove(repository, rest)?;
                !rest.is_empty() && below.id.is_none() && below.read(repository)?.is_empty()
            }
        };
        self.id = None;
        if removes_entry && let Some(entries) = &mut self.entries {
            entries.remove(name);
        }
        Ok(())
    }

    fn write(&mut self, batch: &mut ObjectBatch) -> Result<Oid> {
        if let Some(id) = self.id {
            return Ok(id);
        }
        let mut stored = Vec::new();
        for (name, entry) in self.entries.get_or_insert_default() {
            match entry {
                Entry::Leaf { mode, id } => stored.push((name.clone(), name, *mode, *id)),
                Entry::Directory(below) => {
                    // Git sorts a directory as if its name ended in a slash.
                    let mut key = name.clone();
                    key.push(b'/');
                    stored.push((key, name, DIRECTORY_MODE, below.write(batch)?));
                }
            }
        }
        stored.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let mut data = Vec::with_capacity(stored.len() * 40);
        for (_, name, mode, id) in stored {
            data.extend_from_slice(format!("{mode:o} ").as_bytes());
            data.extend_from_slice(name);
            data.push(0);
            data.extend_from_slice(id.as_bytes());
        }
        let id = batch.add(git2::ObjectType::Tree, data)?;
        self.id = Some(id);
        Ok(id)
    }
}
