//! Questions about history: which commits, in which order, which touched a path, who descends from whom.
//!
//! Answers equal those of `git log` and its relatives. They come from the commit-graph ([`graph`]) with its
//! changed-path filters ([`bloom`]) where a commit is in it, else from the object database. What depends only
//! on ids is kept.

mod ancestry;
mod arrivals;
mod bloom;
mod commits;
mod graph;
mod paths;
mod range;
mod walk;

use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use commits::{Commits, gix_error};
use graph::Graph;

use super::diff::Stats;
use super::{Error, Located, Oid, Repository, Result};

/// How many answers of each kind one repository keeps.
const KEPT_ANSWERS: u64 = 4096;
/// How long one question may take; only those without a commit-graph come near it.
const WALK_TIME_LIMIT: Duration = Duration::from_secs(30);

/// Which commits a listing is about (specification 4.2).
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Selection {
    /// The commits to start from; these and all their ancestors are selected.
    pub tips: Vec<Oid>,
    /// Commits that are left out with all their ancestors: `a` of the range `a..b`.
    pub hidden: Vec<Oid>,
    /// The oldest committer date, inclusive, in seconds since the epoch. As in `git log`, the walk does not
    /// look behind an older commit.
    pub since: Option<i64>,
    /// The newest committer date, inclusive, in seconds since the epoch.
    pub until: Option<i64>,
    /// A literal path; only commits that changed something there, by Git's simplified history. The empty path
    /// selects everything.
    pub path: Option<String>,
    /// Follow only the first parent of merges.
    pub first_parent: bool,
    /// The order of the answer.
    pub order: Order,
}

/// The order of a listing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Order {
    /// Newest committer date first.
    #[default]
    Default,
    /// No parent before its children, and no two lines of history mixed.
    Topo,
}

/// One page of a [`Selection`].
#[derive(Debug, Clone)]
pub struct ListCommits {
    /// Which commits.
    pub selection: Selection,
    /// How many of them to pass over.
    pub offset: usize,
    /// How many to answer at most.
    pub limit: usize,
}

/// The branches and tags a commit is part of, as short names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Containing {
    /// Branches, by name.
    pub branches: Vec<String>,
    /// Tags, by name.
    pub tags: Vec<String>,
}

/// What one open repository holds for questions about history.
pub(super) struct History {
    objects: Mutex<Option<Objects>>,
    graph: Mutex<Arc<Graph>>,
    last_commits: moka::sync::Cache<(Oid, String), Option<Oid>>,
    counts: moka::sync::Cache<(Selection, usize), usize>,
    /// What stands at a path; as with what follows, it depends on ids alone.
    pub(super) located: moka::sync::Cache<(Oid, String), Located>,
    /// Changed lines by commit.
    pub(super) stats: moka::sync::Cache<Oid, Stats>,
}

/// An open object database, and when its directory of packs had last changed.
struct Objects {
    packed: Option<SystemTime>,
    repository: gix::ThreadSafeRepository,
}

impl Default for History {
    fn default() -> Self {
        Self {
            objects: Mutex::default(),
            graph: Mutex::default(),
            last_commits: moka::sync::Cache::new(KEPT_ANSWERS),
            counts: moka::sync::Cache::new(KEPT_ANSWERS),
            located: moka::sync::Cache::new(KEPT_ANSWERS),
            stats: moka::sync::Cache::new(KEPT_ANSWERS),
        }
    }
}

impl History {
    /// The commits of the repository at `path`, as it is now.
    fn commits(&self, path: &Path) -> Result<Commits> {
        self.commits_within(path, WALK_TIME_LIMIT)
    }

    /// As [`Self::commits`], for a question that may take longer than most.
    fn commits_within(&self, path: &Path, time_limit: Duration) -> Result<Commits> {
        let mut graph = self.graph.lock().unwrap_or_else(PoisonError::into_inner);
        *graph = Graph::load(path, &graph);
        let snapshot = Arc::clone(&graph);
        drop(graph);
        Ok(Commits::new(snapshot, self.objects(path)?, time_limit))
    }

    /// Those of `tips` that are `base` or among its ancestors.
    ///
    /// # Errors
    /// [`Error::ObjectNotFound`] when one of them is no commit, [`Error::Timeout`] after half a minute.
    pub(super) fn merged(&self, path: &Path, base: Oid, tips: &[Oid]) -> Result<HashSet<Oid>> {
        let mut commits = self.commits(path)?;
        let target = commits.node(base)?;
        let nodes = tips
            .iter()
            .map(|tip| commits.node(*tip))
            .collect::<Result<Vec<_>>>()?;
        let reached = ancestry::reached(&mut commits, target, &nodes)?;
        let merged = tips.iter().zip(reached).filter(|(_, reached)| *reached);
        Ok(merged.map(|(tip, _)| *tip).collect())
    }

    /// A handle on the object database, opened anew when packs have come or gone: gix has room for a few more
    /// than there were when it opened, and fails beyond that.
    fn objects(&self, path: &Path) -> Result<gix::Repository> {
        let packed = path
            .join("objects/pack")
            .metadata()
            .and_then(|metadata| metadata.modified())
            .ok();
        let mut held = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(objects) = held.as_ref().filter(|objects| objects.packed == packed) {
            return Ok(objects.repository.to_thread_local());
        }
        let options = gix::open::Options::isolated()
            .open_path_as_is(true)
            .with(gix::sec::Trust::Full);
        let repository = gix::ThreadSafeRepository::open_opts(path, options).map_err(gix_error)?;
        let local = repository.to_thread_local();
        *held = Some(Objects { packed, repository });
        Ok(local)
    }
}

impl Repository {
    /// Runs work on the repository's commits and what is kept of them.
    async fn history<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Commits, &History) -> Result<T> + Send + 'static,
    {
        self.blocking(move |opened| work(&mut opened.history.commits(opened.path())?, &opened.history))
            .await
    }

    /// What is kept of past answers, looked up without a trip to the blocking pool.
    pub(super) fn remembered<T>(&self, look_up: impl FnOnce(&History) -> Option<T>) -> Option<T> {
        let opened = self.shared().open_handles(self.id())?;
        look_up(&opened.history)
    }

    /// One page of commits.
    ///
    /// # Errors
    /// [`Error::ObjectNotFound`] when a tip or hidden id is no commit, [`Error::Timeout`] after half a minute.
    pub async fn list_commits(&self, page: ListCommits) -> Result<Vec<Oid>> {
        self.history(move |commits, _| {
            let nodes = walk::nodes(commits, &page.selection, page.offset, page.limit)?;
            nodes.into_iter().map(|node| commits.id(node)).collect()
        })
        .await
    }

    /// How many commits are selected, counting no further than `cap`.
    ///
    /// # Errors
    /// As [`Self::list_commits`].
    pub async fn count_commits(&self, selection: Selection, cap: usize) -> Result<usize> {
        let key = (selection, cap);
        if let Some(count) = self.remembered(|history| history.counts.get(&key)) {
            return Ok(count);
        }
        self.history(move |commits, history| {
            let count = walk::count(commits, &key.0, cap)?;
            history.counts.insert(key, count);
            Ok(count)
        })
        .await
    }

    /// The newest commit, from `tip` back, that changed what stands at `path`; what `git log -1 -- path` says.
    ///
    /// # Errors
    /// [`Error::ObjectNotFound`] when `tip` is no commit.
    pub async fn last_commit_of(&self, tip: Oid, path: &str) -> Result<Option<Oid>> {
        Ok(self
            .last_commits_of(tip, vec![path.to_owned()])
            .await?
            .into_iter()
            .next()
            .flatten())
    }

    /// [`Self::last_commit_of`] for many paths at once, in their order.
    ///
    /// # Errors
    /// As [`Self::last_commit_of`].
    pub async fn last_commits_of(&self, tip: Oid, paths: Vec<String>) -> Result<Vec<Option<Oid>>> {
        let keys: Vec<_> = paths.into_iter().map(|path| (tip, path)).collect();
        let known = |history: &History| keys.iter().map(|key| history.last_commits.get(key)).collect();
        if let Some(known) = self.remembered(known) {
            return Ok(known);
        }
        self.history(move |commits, history| {
            let mut last = Vec::with_capacity(keys.len());
            for key in keys {
                if let Some(known) = history.last_commits.get(&key) {
                    last.push(known);
                    continue;
                }
                let selection = Selection {
                    tips: vec![tip],
                    path: Some(key.1.clone()),
                    ..Selection::default()
                };
                let node = walk::nodes(commits, &selection, 0, 1)?.pop();
                let id = node.map(|node| commits.id(node)).transpose()?;
                history.last_commits.insert(key, id);
                last.push(id);
            }
            Ok(last)
        })
        .await
    }

    /// The branches and tags that `commit` is part of.
    ///
    /// # Errors
    /// [`Error::ObjectNotFound`] when `commit` is none.
    pub async fn containing(&self, commit: Oid) -> Result<Containing> {
        let references = self.git2(peeled_references).await?;
        self.history(move |commits, _| {
            let target = commits.node(commit)?;
            let tips = references
                .iter()
                .map(|(_, id)| commits.node(*id))
                .collect::<Result<Vec<_>>>()?;
            let answers = ancestry::containing(commits, target, &tips)?;
            let mut containing = Containing::default();
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

    /// Whether `descendant` is `ancestor` or comes after it.
    ///
    /// # Errors
    /// [`Error::ObjectNotFound`] when either is no commit.
    pub async fn is_ancestor(&self, ancestor: Oid, descendant: Oid) -> Result<bool> {
        self.history(move |commits, _| {
            let target = commits.node(ancestor)?;
            let tip = commits.node(descendant)?;
            Ok(ancestry::containing(commits, target, &[tip])?.contains(&true))
        })
        .await
    }

    /// Those of `tips` that are `base` or among its ancestors: one walk for all, and each answer is kept.
    ///
    /// # Errors
    /// [`Error::ObjectNotFound`] when one of them is no commit, [`Error::Timeout`] after half a minute.
    pub async fn merged_into(&self, base: Oid, tips: Vec<Oid>) -> Result<HashSet<Oid>> {
        let answers = self.shared().ancestry.clone();
        let mut merged = HashSet::new();
        let mut open = Vec::new();
        for tip in tips {
            match answers.get(&(tip, base)) {
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
                    answers.insert((tip, base), found.contains(&tip));
                }
                Ok(found)
            })
            .await?;
        merged.extend(found);
        Ok(merged)
    }

    /// The best common ancestors of the first commit and any of the others, newest first.
    ///
    /// # Errors
    /// [`Error::ObjectNotFound`] when one of them is no commit.
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

    /// The newest of [`Self::merge_bases`].
    ///
    /// # Errors
    /// As [`Self::merge_bases`].
    pub async fn merge_base(&self, ids: Vec<Oid>) -> Result<Option<Oid>> {
        Ok(self.merge_bases(ids).await?.into_iter().next())
    }

    /// The commits that branches, tags and all other references lead to, each once.
    ///
    /// # Errors
    /// When the references cannot be read.
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

    /// The parents of each commit, in their order.
    ///
    /// # Errors
    /// [`Error::ObjectNotFound`] when one is no commit.
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

    /// Whether a file (`true`) or something else stands at a literal path of a commit.
    ///
    /// # Errors
    /// [`Error::ObjectNotFound`] when nothing is there, or when there is no such commit.
    pub(super) async fn is_file(&self, commit: Oid, path: &str) -> Result<bool> {
        let path = path.to_owned();
        self.history(move |commits, _| {
            let node = commits.node(commit)?;
            paths::kind_at(commits, node, &path)?.ok_or(Error::ObjectNotFound)
        })
        .await
    }
}

/// All references that lead to a commit, with full name and that commit.
fn peeled_references(repository: &git2::Repository) -> Result<Vec<(String, Oid)>> {
    let mut peeled = Vec::new();
    for reference in repository.references()? {
        let reference = reference?;
        // A reference may hold a tree or a blob, which no listing of commits can start from.
        if let (Ok(name), Ok(commit)) = (reference.name(), reference.peel_to_commit()) {
            peeled.push((name.to_owned(), commit.id()));
        }
    }
    Ok(peeled)
}

#[cfg(test)]
mod tests;
