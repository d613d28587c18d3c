//! Reader of Git's commit-graph, a single file or a chain, with changed-path filters.
//!
//! The format is Git's `gitformat-commit-graph`. libgit2 rejects the files that Git writes by default, and gix
//! does not read the filters. Both are needed here, on one snapshot of the chain.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use super::bloom::{BloomFilters, PathKeys};
use crate::{Oid, Result};

/// Maximum size of a file in bytes. Larger files are ignored, because files are loaded into memory.
const FILE_LIMIT: u64 = 1 << 30;
/// Maximum length of a chain.
const CHAIN_LIMIT: usize = 256;
/// The size of a SHA-1 id in bytes.
const ID: usize = 20;
/// The size of one record of the commit data chunk: tree, two parents, generation and date.
const RECORD: usize = ID + 16;
const NO_PARENT: u32 = 0x7000_0000;
const MORE_PARENTS: u32 = 0x8000_0000;

/// Position of a commit in a graph; positions continue across the files of a chain, base first.
pub(super) type Position = u32;

/// Consistent snapshot of a repository's commit-graph; empty if the repository has none.
#[derive(Default)]
pub(super) struct Graph {
    files: Vec<Arc<File>>,
    /// Position of the first commit of each file.
    starts: Vec<Position>,
    len: Position,
    stamp: Stamp,
}

/// Sizes and times that show whether the files on disk changed since they were read.
#[derive(Default, Clone, PartialEq, Eq)]
struct Stamp(Vec<Option<(u64, SystemTime)>>);

/// Data of a commit in the graph.
pub(super) struct CommitRecord {
    pub(super) tree: Oid,
    /// Committer date in seconds since the epoch.
    pub(super) date: i64,
    /// The topological level: 1 for a root, else one more than the maximum of the parents.
    pub(super) generation: u32,
}

impl Graph {
    /// Reads the graph below `repository` and reuses unchanged files of `previous`.
    ///
    /// Unreadable files count as absent, because the graph only saves time.
    pub(super) fn load(repository: &Path, previous: &Arc<Self>) -> Arc<Self> {
        let info = repository.join("objects/info");
        let single = info.join("commit-graph");
        let chain = info.join("commit-graphs/commit-graph-chain");
        let stamp = Stamp([&single, &chain].map(|path| stamp_of(path)).to_vec());
        if stamp == previous.stamp {
            return Arc::clone(previous);
        }
        let mut graph = Self {
            stamp,
            ..Self::default()
        };
        if let Some(file) = File::read(&single, String::new()) {
            graph.push(Arc::new(file));
        } else if let Ok(names) = std::fs::read_to_string(&chain) {
            let known: HashMap<_, _> = previous
                .files
                .iter()
                .map(|file| (file.name.as_str(), file))
                .collect();
            for name in names.lines().take(CHAIN_LIMIT) {
                if Oid::from_str(name).is_err() {
                    break;
                }
                let file = match known.get(name) {
                    Some(file) => Some(Arc::clone(file)),
                    None => File::read(
                        &info.join(format!("commit-graphs/graph-{name}.graph")),
                        name.to_owned(),
                    )
                    .map(Arc::new),
                };
                // A file after a missing one refers to positions that do not exist.
                let Some(file) = file else { break };
                graph.push(file);
            }
        }
        Arc::new(graph)
    }

    fn push(&mut self, file: Arc<File>) {
        self.starts.push(self.len);
        self.len = self.len.saturating_add(file.len);
        self.files.push(file);
    }

    /// Returns the number of commits.
    pub(super) fn len(&self) -> Position {
        self.len
    }

    /// Returns the position of a commit if the graph contains it.
    pub(super) fn find(&self, id: Oid) -> Option<Position> {
        self.files
            .iter()
            .zip(&self.starts)
            .rev()
            .find_map(|(file, start)| Some(start + file.find(id)?))
    }

    fn file(&self, position: Position) -> Option<(&File, u32)> {
        let at = self
            .starts
            .partition_point(|start| *start <= position)
            .checked_sub(1)?;
        Some((self.files.get(at)?, position - self.starts.get(at)?))
    }

    /// Returns the ID of a commit.
    pub(super) fn id(&self, position: Position) -> Option<Oid> {
        let (file, index) = self.file(position)?;
        file.id(index)
    }

    /// Returns tree, date and generation of a commit.
    pub(super) fn record(&self, position: Position) -> Option<CommitRecord> {
        let (file, index) = self.file(position)?;
        let record = file.record(index)?;
        let (high, low) = (be32(record, ID + 8)?, be32(record, ID + 12)?);
        Some(CommitRecord {
            tree: Oid::from_bytes(record.get(..ID)?).ok()?,
            date: (i64::from(high & 3) << 32) | i64::from(low),
            generation: high >> 2,
        })
    }

    /// Appends the positions of a commit's parents in order. Returns `None` if the file is damaged.
    pub(super) fn parents(&self, position: Position, into: &mut Vec<Position>) -> Option<()> {
        let (file, index) = self.file(position)?;
        let record = file.record(index)?;
        let (first, second) = (be32(record, ID)?, be32(record, ID + 4)?);
        if first == NO_PARENT {
            return Some(());
        }
        into.push(self.checked(first)?);
        if second == NO_PARENT {
            return Some(());
        }
        if second & MORE_PARENTS == 0 {
            into.push(self.checked(second)?);
            return Some(());
        }
        let mut at = (second & !MORE_PARENTS) as usize * 4;
        loop {
            let parent = be32(file.chunk(Chunk::Edges)?, at)?;
            into.push(self.checked(parent & !MORE_PARENTS)?);
            if parent & MORE_PARENTS != 0 {
                return Some(());
            }
            at += 4;
        }
    }

    fn checked(&self, position: Position) -> Option<Position> {
        (position < self.len).then_some(position)
    }

    /// Returns whether a commit may differ from its first parent (or from the empty tree) at a path; `true`
    /// if unknown.
    pub(super) fn may_change(&self, position: Position, keys: &PathKeys) -> bool {
        self.file(position).is_none_or(|(file, index)| {
            let index_chunk = file.chunk(Chunk::BloomIndex);
            let data = file.chunk(Chunk::BloomData);
            BloomFilters::new(index_chunk, data).is_none_or(|filters| filters.may_contain(index, keys))
        })
    }
}

fn stamp_of(path: &Path) -> Option<(u64, SystemTime)> {
    let metadata = path.metadata().ok()?;
    Some((metadata.len(), metadata.modified().ok()?))
}

/// Chunks of a file that are read, in the order of their ranges in [`File`].
#[derive(Clone, Copy)]
enum Chunk {
    Fanout,
    Ids,
    Data,
    Edges,
    BloomIndex,
    BloomData,
}

const CHUNK_NAMES: [&[u8; 4]; 6] = [b"OIDF", b"OIDL", b"CDAT", b"EDGE", b"BIDX", b"BDAT"];

/// A commit-graph file whose chunks have valid sizes.
struct File {
    /// Its name in the chain; empty for a graph of one file.
    name: String,
    bytes: Vec<u8>,
    chunks: [Option<(usize, usize)>; 6],
    len: u32,
}

impl File {
    fn read(path: &Path, name: String) -> Option<Self> {
        if path.metadata().ok()?.len() > FILE_LIMIT {
            return None;
        }
        Self::parse(std::fs::read(path).ok()?, name)
    }

    fn parse(bytes: Vec<u8>, name: String) -> Option<Self> {
        let [b'C', b'G', b'P', b'H', 1, 1, chunk_count, _] = *bytes.first_chunk::<8>()? else {
            return None;
        };
        let mut chunks = [None; 6];
        for entry in 0..usize::from(chunk_count) {
            let at = 8 + entry * 12;
            let chunk = bytes.get(at..at + 4)?;
            let (from, to) = (be64(&bytes, at + 4)?, be64(&bytes, at + 16)?);
            bytes.get(from..to)?;
            if let Some(known) = CHUNK_NAMES.iter().position(|name| name.as_slice() == chunk) {
                *chunks.get_mut(known)? = Some((from, to));
            }
        }
        let mut file = Self {
            name,
            bytes,
            chunks,
            len: 0,
        };
        file.len = be32(file.chunk(Chunk::Fanout)?, 255 * 4)?;
        let len = file.len as usize;
        let sizes_fit = file.chunk(Chunk::Fanout)?.len() == 256 * 4
            && file.chunk(Chunk::Ids)?.len() == len * ID
            && file.chunk(Chunk::Data)?.len() == len * RECORD;
        // Very old versions of Git wrote no generations, which all results here depend on.
        let has_generations = len == 0 || be32(file.record(0)?, ID + 8)? >> 2 != 0;
        (sizes_fit && has_generations).then_some(file)
    }

    fn chunk(&self, chunk: Chunk) -> Option<&[u8]> {
        let (from, to) = (*self.chunks.get(chunk as usize)?)?;
        self.bytes.get(from..to)
    }

    fn id(&self, index: u32) -> Option<Oid> {
        let at = index as usize * ID;
        Oid::from_bytes(self.chunk(Chunk::Ids)?.get(at..at + ID)?).ok()
    }

    fn record(&self, index: u32) -> Option<&[u8]> {
        let at = index as usize * RECORD;
        self.chunk(Chunk::Data)?.get(at..at + RECORD)
    }

    fn find(&self, id: Oid) -> Option<u32> {
        let fanout = self.chunk(Chunk::Fanout)?;
        let ids = self.chunk(Chunk::Ids)?;
        let first = usize::from(*id.as_bytes().first()?);
        let mut low = if first == 0 {
            0
        } else {
            be32(fanout, (first - 1) * 4)?
        };
        let mut high = be32(fanout, first * 4)?;
        while low < high {
            let middle = low + (high - low) / 2;
            let at = middle as usize * ID;
            match ids.get(at..at + ID)?.cmp(id.as_bytes()) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return Some(middle),
            }
        }
        None
    }
}

/// Reads a big-endian number of four bytes at `at`.
pub(super) fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn be64(bytes: &[u8], at: usize) -> Option<usize> {
    usize::try_from(u64::from_be_bytes(*bytes.get(at..)?.first_chunk()?)).ok()
}

/// Returns an error if the graph refers to a position outside of it.
pub(super) fn or_damaged<T>(found: Option<T>) -> Result<T> {
    found.ok_or_else(|| crate::Error::Gix("the commit-graph is damaged".to_owned()))
}
