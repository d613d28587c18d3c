//! History queries: lists of commits, changes of a path, and ancestry.
//!
//! Results equal those of `git log` and related commands. They are read from the commit-graph ([`graph`]) with
//! its changed-path filters ([`bloom`]), and from the object database for other commits. Results that depend
//! only on IDs are cached.

mod ancestry;
mod bloom;
mod commits;
mod graph;
mod introduced_commits;
mod paths;
mod range;
mod walk;

use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use commits::{Commits, gix_error};
use graph::Graph;

use super::caches::{Caches, OpeningId};
use super::object_memory::MAX_IN_PROCESS_BYTES;
use super::{Error, Oid, Repository, Result, revision};

/// Time limit of one query; only queries without a commit-graph come close to it.
const WALK_TIME_LIMIT: Duration = Duration::from_secs(30);

/// Selection of commits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct CommitSelection {
    /// Commits to start from; they and all their ancestors are selected.
    pub tips: Vec<Oid>,
    /// Commits that are excluded with all their ancestors: `a` of the range `a..b`.
    pub hidden: Vec<Oid>,
    /// The oldest committer date, inclusive, in seconds since the epoch. As in `git log`, the walk stops at
    /// an older commit.
    pub since: Option<i64>,
    /// The newest committer date, inclusive, in seconds since the epoch.
    pub until: Option<i64>,
    /// Literal path: only commits that changed a file there, by Git's simplified history. The empty path
    /// selects all commits.
    pub path: Option<String>,
    /// Whether to follow only the first parent of merges.
    pub first_parent: bool,
    /// The order of the commits.
    pub order: CommitOrder,
}

/// Order of a list of commits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum CommitOrder {
    /// Newest committer date first.
    #[default]
    Default,
    /// Children before their parents, without interleaving lines of history.
    Topo,
}

/// One page of a [`CommitSelection`].
#[derive(Debug, Clone)]
pub struct CommitQuery {
    /// The selection.
    pub selection: CommitSelection,
    /// Number of commits to skip.
    pub offset: usize,
    /// Maximum number of commits to return.
    pub limit: usize,
}

/// Branches and tags that contain a commit, as short names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContainingRefs {
    /// Branches, ordered by name.
    pub branches: Vec<String>,
    /// Tags, ordered by name.
    pub tags: Vec<String>,
}

/// State of one open repository for history queries.
pub(super) struct History {
    objects: Mutex<Option<Objects>>,
    graph: Mutex<Arc<Graph>>,
    /// Part of the keys of the caches.
    pub(super) opening: OpeningId,
    /// Caches of all repositories.
    pub(super) caches: Arc<Caches>,
}

/// An open object database, and the modification time of its pack directory.
struct Objects {
    packed: Option<SystemTime>,
    repository: gix::ThreadSafeRepository,
}

impl History {
    /// Returns the state of a repository that was not read yet.
    pub(super) fn new(caches: Arc<Caches>) -> Self {
        Self {
            objects: Mutex::default(),
            graph: Mutex::default(),
            opening: OpeningId::next(),
            caches,
        }
    }

    /// Returns the commits of the repository at `path` in its current state.
    fn commits(&self, path: &Path) -> Result<Commits> {
        self.commits_within(path, WALK_TIME_LIMIT)
    }

    /// As [`Self::commits`], with another time limit.
    fn commits_within(&self, path: &Path, time_limit: Duration) -> Result<Commits> {
        let mut graph = self.graph.lock().unwrap_or_else(PoisonError::into_inner);
        *graph = Graph::load(path, &graph);
        let snapshot = Arc::clone(&graph);
        drop(graph);
        Ok(Commits::new(snapshot, self.objects(path)?, time_limit))
    }

    /// Returns the commits of `tips` that are `base` or one of its ancestors.
    ///
    /// # Errors
    /// [`Error::ObjectNotFound`] if one of them is not a commit, [`Error::Timeout`] after half a minute.
    pub(super) fn merged(&self, path: &Path, base: Oid, tips: &[Oid]) -> Result<HashSet<Oid>> {
        let mut commits = self.commits(path)?;
        let target = commits.node(base)?;
        let nodes = tips
            .iter()
            .map(|tip| commits.node(*tip))
            .collect::<Result<Vec<_>>>()?;
        let reached = ancestry::merged_into(&mut commits, target, &nodes)?;
        let merged = tips.iter().zip(reached).filter(|(_, reached)| *reached);
        Ok(merged.map(|(tip, _)| *tip).collect())
    }

    /// Returns a handle on the object database. It is reopened when packs are added or removed, because gix
    /// reserves only a few more slots than there were packs.
    fn objects(&self, path: &Path) -> Result<gix::Repository> {
        let packed = path
            .join("objects/pack")
            .metadata()
            .and_then(|metadata| metadata.modified())
            .ok();
        let mut cached = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(objects) = cached.as_ref().filter(|objects| objects.packed == packed) {
            return Ok(objects.repository.to_thread_local());
        }
        let options = gix::open::Options::isolated()
            .open_path_as_is(true)
            // The base and the result of a delta together; files are not read here.
            .config_overrides([format!("gitoxide.objects.allocLimit={MAX_IN_PROCESS_BYTES}")])
            .with(gix::sec::Trust::Full);
        let repository = gix::ThreadSafeRepository::open_opts(path, options).map_err(gix_error)?;
        let local = repository.to_thread_local();
        *cached = Some(Objects { packed, repository });
        Ok(local)
    }
}

impl Repository {
    /// Runs `work` on the repository's commits and caches.
    async fn history<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Commits, &History) -> Result<T> + Send + 'static,
    {
        self.blocking(move |opened| work(&mut opened.history.commits(opened.path())?, &opened.history))
            .await
    }

    /// Looks up a cached result without a call to the blocking pool.
    pub(super) fn cached<T>(&self, look_up: impl FnOnce(&History) -> Option<T>) -> Option<T> {
        let opened = self.shared().open_handles(self.id())?;
        look_up(&opened.history)
    }

    /// Returns a page of commits.
    ///
    /// # Errors
    /// [`Error::ObjectNotFound`] if a tip or hidden ID is not a commit, [`Error::Timeout`] after half a
    /// minute.
    pub async fn list_commits(&self, page: CommitQuery) -> Result<Vec<Oid>> {
        self.history(move |commits, _| {
            let nodes = walk::nodes(commits, &page.selection, page.offset, page.limit)?;
            nodes.into_iter().map(|node| commits.id(node)).collect()
        })
        .await
    }

    /// Returns the number of selected commits, at most `cap`.
    ///
    /// # Errors
    /// As [`Self::list_commits`].
    pub async fn count_commits(&self, selection: CommitSelection, cap: usize) -> Result<usize> {
        let known = |history: &History| {
            let key = (history.opening, selection.clone(), cap);
            history.caches.counts.get(&key)
        };
        if let Some(count) = self.cached(known) {
            return Ok(count);
        }
        self.history(move |commits, history| {
            let count = walk::count(commits, &selection, cap)?;
            history
                .caches
                .counts
                .insert((history.opening, selection, cap), count);
            Ok(count)
        })
        .await
    }

    /// Returns the newest ancestor of `tip`, or `tip` itself, that changed the entry at `path`, as `git log
    /// -1 -- path`.
    ///
    /// # Errors
    /// [`Error::ObjectNotFound`] if `tip` is not a commit.
    pub async fn last_commit_of(&self, tip: Oid, path: &str) -> Result<Option<Oid>> {
        Ok(self
            .last_commits_of(tip, vec![path.to_owned()])
            .await?
            .into_iter()
            .next()
            .flatten())
    }

    /// As [`Self::last_commit_of`] for many paths, in the given order.
    ///
    /// # Errors
    /// As [`Self::last_commit_of`].
    pub async fn last_commits_of(&self, tip: Oid, paths: Vec<String>) -> Result<Vec<Option<Oid>>> {
        let known = |history: &History| {
            let keys = paths.iter().map(|path| (history.opening, tip, path.clone()));
            keys.map(|key| history.caches.last_commits.get(&key)).collect()
        };
        if let Some(known) = self.cached(known) {
            return Ok(known);
        }
        self.history(move |commits, history| {
            let mut last = Vec::with_capacity(paths.len());
            for path in paths {
                let key = (history.opening, tip, path);
                if let Some(known) = history.caches.last_commits.get(&key) {
                    last.push(known);
                    continue;
                }
                let selection = CommitSelection {
                    tips: vec![tip],
                    path: Some(key.2.clone()),
                    ..CommitSelection::default()
                };
                let node = walk::nodes(commits, &selection, 0, 1)?.pop();
                let id = node.map(|node| commits.id(node)).transpose()?;
                history.caches.last_commits.insert(key, id);
                last.push(id);
            }
            Ok(last)
        })
        .await
    }

    /// Returns the branches and tags that contain `commit`.
    ///
    /// # Errors
    /// [`Error::ObjectNotFound`] if `commit` is not a commit.
    pub async fn containing(&self, commit: Oid) -> Result<ContainingRefs> {
        let references = self.git2(peeled_references).await?;
        self.history(move |commits, _| {
            let target = commits.node(commit)?;
            let tips = references
                .iter()
                .map(|(_, id)| commits.node(*id))
                .collect::<Result<Vec<_>>>()?;
            let answers = ancestry::containing(commits, target, &tips)?;
            let mut containing = ContainingRefs::default();
            for ((name, _), contains) in references.into_iter().zip(answers) {
                if !contains {
                    continue;
                }
                if let Some(branch) = name.strip_prefix("refs/heads/") {
                    containing.branches.push(branch.to_owned());
                } else if let Some(tag) = name.strip_prefix("refs/tags/") {
                    containing.tags.push(tag.to_owned());
                }
            }
            containing.branches.sort_unstable();
            containing.tags.sort_unstable();
            Ok(containing)
        })
        .await
    }

    /// Returns whether `descendant` is `ancestor` or descends from it.
    ///
    /// # Errors
    /// [`Error::ObjectNotFound`] if either is not a commit.
    pub async fn is_ancestor(&self, ancestor: Oid, descendant: Oid) -> Result<bool> {
        self.history(move |commits, _| {
            let target = commits.node(ancestor)?;
            let tip = commits.node(descendant)?;
            Ok(ancestry::containing(commits, target, &[tip])?.contains(&true))
        })
        .await
    }

    /// Returns the commits of `tips` that are `base` or one of its ancestors, with a single walk. Each result
    /// is cached.
    ///
    /// # Errors
    /// [`Error::ObjectNotFound`] if one of them is not a commit, [`Error::Timeout`] after half a minute.
    pub async fn merged_into(&self, base: Oid, tips: Vec<Oid>) -> Result<HashSet<Oid>> {
        let caches = Arc::clone(&self.shared().caches);
        let mut merged = HashSet::new();
        let mut open = Vec::new();
        for tip in tips {
            match caches.ancestry.get(&(tip, base)) {
                Some(true) => drop(merged.insert(tip)),
                Some(false) => {}
                None => open.push(tip),
            }
        }
        if open.is_empty() {
            return Ok(merged);
        }
        let found = self
            .blocking(move |opened| {
                let found = opened.history.merged(opened.path(), base, &open)?;
                for tip in open {
                    caches.ancestry.insert((tip, base), found.contains(&tip));
                }
                Ok(found)
            })
            .await?;
        merged.extend(found);
        Ok(merged)
    }

    /// Returns the merge bases of the first commit and any of the others, newest first.
    ///
    /// # Errors
    /// [`Error::ObjectNotFound`] if one of them is not a commit.
    pub async fn merge_bases(&self, ids: Vec<Oid>) -> Result<Vec<Oid>> {
        self.history(move |commits, _| {
            let nodes = ids
                .iter()
                .map(|id| commits.node(*id))
                .collect::<Result<Vec<_>>>()?;
            let Some((one, others)) = nodes.split_first() else {
                return Ok(Vec::new());
            };
            let others = if others.is_empty() { &nodes } else { others };
            let mut bases = Vec::new();
            for node in ancestry::merge_bases(commits, *one, others)? {
                bases.push((commits.date(node)?, commits.id(node)?));
            }
            bases.sort_by_key(|(date, _)| std::cmp::Reverse(*date));
            Ok(bases.into_iter().map(|(_, id)| id).collect())
        })
        .await
    }

    /// Returns the newest of [`Self::merge_bases`].
    ///
    /// # Errors
    /// As [`Self::merge_bases`].
    pub async fn merge_base(&self, ids: Vec<Oid>) -> Result<Option<Oid>> {
        Ok(self.merge_bases(ids).await?.into_iter().next())
    }

    /// Returns the distinct commits that branches, tags and all other references lead to.
    ///
    /// # Errors
    /// If the references cannot be read.
    pub async fn all_tips(&self) -> Result<Vec<Oid>> {
        let mut tips: Vec<_> = self
            .git2(peeled_references)
            .await?
            .into_iter()
            .map(|(_, id)| id)
            .collect();
        tips.sort_unstable();
        tips.dedup();
        Ok(tips)
    }

    /// Returns the parents of each commit, in the given order.
    ///
    /// # Errors
    /// [`Error::ObjectNotFound`] if one is not a commit.
    pub(super) async fn parents_of(&self, ids: Vec<Oid>) -> Result<Vec<Vec<Oid>>> {
        self.history(move |commits, _| {
            ids.into_iter()
                .map(|id| {
                    let node = commits.node(id)?;
                    let parents = commits.parents(node)?;
                    parents.into_iter().map(|parent| commits.id(parent)).collect()
                })
                .collect()
        })
        .await
    }

    /// Returns `true` if a literal path of a commit is a file and `false` if it is another entry.
    ///
    /// # Errors
    /// [`Error::ObjectNotFound`] if the commit or the path does not exist.
    pub(super) async fn is_file(&self, commit: Oid, path: &str) -> Result<bool> {
        let path = path.to_owned();
        self.history(move |commits, _| {
            let node = commits.node(commit)?;
            paths::kind_at(commits, node, &path)?.ok_or(Error::ObjectNotFound)
        })
        .await
    }
}

/// Returns all references that lead to a commit, as full name and commit.
fn peeled_references(repository: &git2::Repository) -> Result<Vec<(String, Oid)>> {
    let mut peeled = Vec::new();
    for reference in repository.references()? {
        let reference = reference?;
        // A reference may point to a tree or a blob, where no list of commits can start.
        let target = reference.resolve().ok().and_then(|direct| direct.target());
        if let (Ok(name), Some(target)) = (reference.name(), target)
            && let Ok(commit) = revision::peel(repository, target)
        {
            peeled.push((name.to_owned(), commit));
        }
    }
    Ok(peeled)
}

#[cfg(test)]
mod tests;
