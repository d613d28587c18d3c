//! Commits as small integers, read from the commit-graph or, outside of it, from the object database.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gix::objs::{CommitRefIter, Find};

use super::graph::{Graph, or_damaged};
use crate::object_memory::MAX_IN_PROCESS_BYTES;
use crate::{Error, OBJECT_TOO_LARGE, Oid, Result};

/// Text of gix for an object in a pack that needs a larger object than `gitoxide.objects.allocLimit`.
const TOO_LARGE_TEXT: &str = "too large to fit in memory";

/// Maximum number of parents of visited commits, without the first two parents of each commit. A small compressed
/// commit can have the same parent 200,000 times.
const MAX_FURTHER_PARENTS: usize = 1_000_000;
/// Number of visited commits between two checks of the time.
const TIME_CHECK_INTERVAL: u32 = 256;

/// A commit in one [`Commits`]: its position in the graph, or an index into `loaded` above the length of the
/// graph.
pub(super) type Node = u32;

/// Commits that one operation visited.
pub(super) struct Commits {
    graph: Arc<Graph>,
    objects: gix::Repository,
    loaded: Vec<LoadedCommit>,
    nodes: HashMap<Oid, Node>,
    buffer: Vec<u8>,
    deadline: Instant,
    visited: u32,
    further_parents: usize,
}

/// A commit outside the graph.
struct LoadedCommit {
    id: Oid,
    tree: Oid,
    date: i64,
    parents: Vec<Oid>,
    /// 0 until [`Commits::prepare_generations`] has visited it.
    generation: u32,
}

impl Commits {
    /// Returns the commits of a repository for an operation with a time limit.
    pub(super) fn new(graph: Arc<Graph>, objects: gix::Repository, time_limit: Duration) -> Self {
        let deadline = Instant::now() + time_limit;
        Self {
            graph,
            objects,
            loaded: Vec::new(),
            nodes: HashMap::new(),
            buffer: Vec::new(),
            deadline,
            visited: 0,
            further_parents: 0,
        }
    }

    /// Fails if the operation exceeds its time limit; called before each object is read, and after some commits of the
    /// commit-graph.
    pub(super) fn check_time(&self) -> Result<()> {
        if Instant::now() < self.deadline {
            Ok(())
        } else {
            Err(Error::Timeout)
        }
    }

    /// Returns the commit-graph.
    pub(super) fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Returns the object database.
    pub(super) fn objects(&self) -> &gix::Repository {
        &self.objects
    }

    /// Returns the node of a commit.
    ///
    /// # Errors
    /// [`Error::ObjectNotFound`] if the commit does not exist.
    pub(super) fn node(&mut self, id: Oid) -> Result<Node> {
        if let Some(position) = self.graph.find(id) {
            return Ok(position);
        }
        if let Some(node) = self.nodes.get(&id) {
            return Ok(*node);
        }
        let loaded = self.load(id)?;
        let node = u32::try_from(self.loaded.len())
            .ok()
            .and_then(|position| position.checked_add(self.graph.len()));
        let node = node.ok_or(Error::LimitExceeded("the history has too many commits"))?;
        self.loaded.push(loaded);
        self.nodes.insert(id, node);
        Ok(node)
    }

    /// Returns the bytes of a commit, as Git stores them.
    ///
    /// # Errors
    /// [`Error::ObjectNotFound`] if the commit does not exist, [`Error::LimitExceeded`], [`Error::Timeout`] if the
    /// operation exceeds its time limit.
    pub(super) fn data(&mut self, id: Oid) -> Result<&[u8]> {
        self.check_time()?;
        let id = object_id(id)?;
        let objects = &self.objects;
        let found = objects.objects.try_find(&id, &mut self.buffer);
        let data = found.map_err(|error| read_error(objects, &id, error))?;
        let data = data.filter(|data| data.kind == gix::objs::Kind::Commit);
        Ok(data.ok_or(Error::ObjectNotFound)?.data)
    }

    fn load(&mut self, id: Oid) -> Result<LoadedCommit> {
        let data = self.data(id)?;
        let mut commit = CommitRefIter::from_bytes(data, gix::hash::Kind::Sha1);
        let tree = oid(&commit.tree_id().map_err(gix_error)?)?;
        let date = commit.committer().map_err(gix_error)?.seconds().max(0);
        let commit = CommitRefIter::from_bytes(data, gix::hash::Kind::Sha1);
        let parents = commit
            .parent_ids()
            .map(|parent| oid(&parent))
            .collect::<Result<Vec<_>>>()?;
        self.count_parents(parents.len())?;
        Ok(LoadedCommit {
            id,
            tree,
            date,
            parents,
            generation: 0,
        })
    }

    /// Counts the parents of a visited commit.
    fn count_parents(&mut self, parents: usize) -> Result<()> {
        self.further_parents = self.further_parents.saturating_add(parents.saturating_sub(2));
        if self.further_parents > MAX_FURTHER_PARENTS {
            return Err(Error::LimitExceeded("the commits have too many parents"));
        }
        Ok(())
    }

    fn loaded(&self, node: Node) -> Result<&LoadedCommit> {
        let position = node.checked_sub(self.graph.len()).ok_or(Error::ObjectNotFound)?;
        self.loaded.get(position as usize).ok_or(Error::ObjectNotFound)
    }

    /// Returns whether the commit-graph contains the commit, and therefore all its ancestors.
    pub(super) fn in_graph(&self, node: Node) -> bool {
        node < self.graph.len()
    }

    /// Returns the ID of a commit.
    pub(super) fn id(&self, node: Node) -> Result<Oid> {
        if self.in_graph(node) {
            or_damaged(self.graph.id(node))
        } else {
            Ok(self.loaded(node)?.id)
        }
    }

    /// Returns the committer date in seconds since the epoch.
    pub(super) fn date(&self, node: Node) -> Result<i64> {
        if self.in_graph(node) {
            Ok(or_damaged(self.graph.record(node))?.date)
        } else {
            Ok(self.loaded(node)?.date)
        }
    }

    /// Returns the root tree.
    pub(super) fn tree(&self, node: Node) -> Result<Oid> {
        if self.in_graph(node) {
            Ok(or_damaged(self.graph.record(node))?.tree)
        } else {
            Ok(self.loaded(node)?.tree)
        }
    }

    /// Returns the parents in order.
    ///
    /// # Errors
    /// [`Error::LimitExceeded`] if the visited commits have too many parents, [`Error::Timeout`].
    pub(super) fn parents(&mut self, node: Node) -> Result<Vec<Node>> {
        if self.visited.is_multiple_of(TIME_CHECK_INTERVAL) {
            self.check_time()?;
        }
        self.visited = self.visited.wrapping_add(1);
        if self.in_graph(node) {
            let mut parents = Vec::with_capacity(2);
            or_damaged(self.graph.parents(node, &mut parents))?;
            self.count_parents(parents.len())?;
            return Ok(parents);
        }
        let ids = self.loaded(node)?.parents.clone();
        ids.into_iter().map(|id| self.node(id)).collect()
    }

    /// Returns the topological level of a node that [`Self::prepare_generations`] visited.
    pub(super) fn generation(&self, node: Node) -> Result<u32> {
        if self.in_graph(node) {
            return Ok(or_damaged(self.graph.record(node))?.generation);
        }
        Ok(self.loaded(node)?.generation)
    }

    /// Computes the topological level of every commit outside the graph that is reachable from `tips`.
    pub(super) fn prepare_generations(&mut self, tips: &[Node]) -> Result<()> {
        let mut stack = tips.to_vec();
        while let Some(&node) = stack.last() {
            if self.in_graph(node) || self.generation(node)? != 0 {
                stack.pop();
                continue;
            }
            let mut highest = 0;
            let waiting = stack.len();
            for parent in self.parents(node)? {
                match self.generation(parent)? {
                    0 => stack.push(parent),
                    generation => highest = highest.max(generation),
                }
            }
            if stack.len() == waiting {
                stack.pop();
                let position = (node - self.graph.len()) as usize;
                if let Some(loaded) = self.loaded.get_mut(position) {
                    loaded.generation = highest + 1;
                }
            }
        }
        Ok(())
    }
}

/// Bit sets for nodes; grows with the number of nodes.
#[derive(Default)]
pub(super) struct Marks(Vec<u8>);

impl Marks {
    /// Returns the bits of a node.
    pub(super) fn get(&self, node: Node) -> u8 {
        self.0.get(node as usize).copied().unwrap_or_default()
    }

    /// Adds bits to a node and returns whether any of them is new.
    pub(super) fn add(&mut self, node: Node, bits: u8) -> bool {
        let at = node as usize;
        if at >= self.0.len() {
            self.0.resize((at + 1).max(self.0.len() * 2), 0);
        }
        match self.0.get_mut(at) {
            Some(current) if *current & bits != bits => {
                *current |= bits;
                true
            }
            _ => false,
        }
    }
}

/// Converts an ID to the type of gix.
pub(super) fn object_id(id: Oid) -> Result<gix::ObjectId> {
    gix::ObjectId::try_from(id.as_bytes()).map_err(gix_error)
}

/// Converts an ID of gix.
pub(super) fn oid(id: &gix::oid) -> Result<Oid> {
    Ok(Oid::from_bytes(id.as_bytes())?)
}

/// Converts an error of gix while it reads an object. gix has no type for objects that exceed
/// `gitoxide.objects.allocLimit`.
pub(super) fn read_error(objects: &gix::Repository, id: &gix::oid, error: impl std::fmt::Display) -> Error {
    let text = error.to_string();
    let is_too_large = || {
        let header = objects.find_header(id);
        header.is_ok_and(|header| header.size() > MAX_IN_PROCESS_BYTES)
    };
    match text.contains(TOO_LARGE_TEXT) || is_too_large() {
        true => Error::LimitExceeded(OBJECT_TOO_LARGE),
        false => Error::Gix(text),
    }
}

/// Converts an error of gix.
pub(super) fn gix_error(error: impl std::fmt::Display) -> Error {
    Error::Gix(error.to_string())
}
