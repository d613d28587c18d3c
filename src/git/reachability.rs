//! Which commits another one has among its ancestors, with the help of the commit-graph where there is one.

use std::collections::{BinaryHeap, HashSet};
use std::path::Path;

use gix::ObjectId;

use super::{Error, Oid, Repository, Result};

/// The generation of a commit that the commit-graph does not know (yet): above all it knows.
const UNKNOWN: u32 = u32::MAX;

impl Repository {
    /// Those of `tips` that are `base` or among its ancestors: one walk for all, and each answer is remembered.
    ///
    /// # Errors
    /// [`Error::Gix`] when an id is no commit's or history is broken.
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
                let found = reachable(opened.path(), base, &open)?;
                for tip in open {
                    answers.insert((tip, base), found.contains(&tip));
                }
                Ok(found)
            })
            .await?;
        merged.extend(found);
        Ok(merged)
    }
}

/// Those of `tips` that a walk from `base` meets.
///
/// A commit cannot reach one of its own or a higher generation, so with a commit-graph the walk ends where the
/// generations fall below those still sought.
pub(super) fn reachable(path: &Path, base: Oid, tips: &[Oid]) -> Result<HashSet<Oid>> {
    let repository = gix::open_opts(path, gix::open::Options::isolated()).map_err(gix_error)?;
    let cache = repository.commit_graph_if_enabled().map_err(gix_error)?;
    let mut graph = repository.revision_graph::<()>(cache.as_ref());

    let mut sought = std::collections::HashMap::new();
    for tip in tips {
        let id = object_id(*tip)?;
        let generation = graph
            .lookup(&id)
            .map_err(gix_error)?
            .generation()
            .unwrap_or(UNKNOWN);
        sought.insert(id, (*tip, generation));
    }
    let mut lowest = sought
        .values()
        .map(|(_, generation)| *generation)
        .min()
        .unwrap_or(UNKNOWN);

    let mut found = HashSet::new();
    let mut seen = HashSet::new();
    let mut queue = BinaryHeap::new();
    let base = object_id(base)?;
    let start = graph
        .lookup(&base)
        .map_err(gix_error)?
        .generation_and_timestamp()
        .map_err(gix_error)?;
    queue.push((start.0.unwrap_or(UNKNOWN), start.1, base));
    seen.insert(base);
    while let Some((generation, _, id)) = queue.pop() {
        if let Some((tip, _)) = sought.remove(&id) {
            found.insert(tip);
            if sought.is_empty() {
                break;
            }
            lowest = sought
                .values()
                .map(|(_, generation)| *generation)
                .min()
                .unwrap_or(UNKNOWN);
        }
        if generation != UNKNOWN && generation <= lowest {
            continue;
        }
        let parents: Vec<ObjectId> = graph
            .lookup(&id)
            .map_err(gix_error)?
            .iter_parents()
            .collect::<std::result::Result<_, _>>()
            .map_err(gix_error)?;
        for parent in parents {
            if seen.insert(parent) {
                let (generation, time) = graph
                    .lookup(&parent)
                    .map_err(gix_error)?
                    .generation_and_timestamp()
                    .map_err(gix_error)?;
                queue.push((generation.unwrap_or(UNKNOWN), time, parent));
            }
        }
    }
    Ok(found)
}

fn object_id(id: Oid) -> Result<ObjectId> {
    ObjectId::try_from(id.as_bytes()).map_err(gix_error)
}

fn gix_error(error: impl std::fmt::Display) -> Error {
    Error::Gix(error.to_string())
}

#[cfg(test)]
mod tests {
    use crate::git::Oid;
    use crate::git::testing::{self, Fixture};

    #[tokio::test]
    async fn agrees_with_git_with_and_without_commit_graph() {
        let fixture = Fixture::new("main").await;
        let repository = &fixture.repository;
        let mut commits = Vec::new();
        for round in 0..6 {
            commits.push(testing::commit(repository, "main", &[("a", &round.to_string())]).await);
            if round % 2 == 0 {
                let side = format!("side{round}");
                fixture.git(&["branch", &side, "main"]);
                commits.push(testing::commit(repository, &side, &[("b", &round.to_string())]).await);
            }
        }
        let side = fixture.git(&["rev-parse", "side2"]);
        let merge = fixture.git(&[
            "commit-tree",
            "-m",
            "merge",
            "-p",
            "main",
            "-p",
            side.trim(),
            "main^{tree}",
        ]);
        commits.push(Oid::from_str(merge.trim()).unwrap());
        fixture.git(&["commit-graph", "write", "--reachable"]);
        commits.push(testing::commit(repository, "main", &[("a", "after the graph")]).await);
        for base in &commits {
            let merged = repository.merged_into(*base, commits.clone()).await.unwrap();
            for tip in &commits {
                let arguments = ["merge-base", "--is-ancestor", &tip.to_string(), &base.to_string()];
                let expected = fixture.command(&arguments).status().unwrap().success();
                assert_eq!(merged.contains(tip), expected);
                assert_eq!(repository.is_ancestor(*tip, *base).await.unwrap(), expected);
            }
        }
    }
}
