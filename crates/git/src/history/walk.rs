//! History walk equal to `git log`: by date or topology, with bounds, along a path.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::ops::ControlFlow;

use super::ancestry::mark_hidden;
use super::commits::{Commits, Marks, Node};
use super::paths::PathFilter;
use super::{CommitOrder, CommitSelection};
use crate::Result;

/// The commit was queued.
const SEEN: u8 = 1;
/// The commit is reachable from a hidden commit.
pub(super) const HIDDEN: u8 = 2;
/// The commit is itself one of the hidden commits; parents are still compared with it.
const BOTTOM: u8 = 4;

/// A walk in progress; yields nodes newest first.
pub(super) struct Walk<'a> {
    commits: &'a mut Commits,
    path: Option<PathFilter>,
    since: i64,
    until: i64,
    first_parent: bool,
    marks: Marks,
    queue: BinaryHeap<(i64, Reverse<u32>, Node)>,
    queued: u32,
}

/// A visited commit.
struct Step {
    node: Node,
    /// Whether the result includes the commit.
    shown: bool,
    /// The parents that the walk continues with.
    parents: Vec<Node>,
}

impl<'a> Walk<'a> {
    /// Starts a walk over the commits of `selection`; [`nodes`] applies the order.
    fn new(commits: &'a mut Commits, selection: &CommitSelection) -> Result<Self> {
        let mut marks = Marks::default();
        let tips = selection
            .tips
            .iter()
            .map(|id| commits.node(*id))
            .collect::<Result<Vec<_>>>()?;
        if !selection.hidden.is_empty() {
            let hidden = selection
                .hidden
                .iter()
                .map(|id| commits.node(*id))
                .collect::<Result<Vec<_>>>()?;
            mark_hidden(commits, &tips, &hidden, &mut marks)?;
            for node in hidden {
                marks.add(node, BOTTOM);
            }
        }
        let mut walk = Self {
            commits,
            path: selection.path.as_deref().and_then(PathFilter::new),
            since: selection.since.unwrap_or(i64::MIN),
            until: selection.until.unwrap_or(i64::MAX),
            first_parent: selection.first_parent,
            marks,
            queue: BinaryHeap::new(),
            queued: 0,
        };
        for tip in tips {
            walk.push(tip)?;
        }
        Ok(walk)
    }

    /// Queues a commit that is not hidden and was not queued before. Equal dates retain their queue order.
    fn push(&mut self, node: Node) -> Result<()> {
        if self.marks.get(node) & HIDDEN == 0 && self.marks.add(node, SEEN) {
            self.queue
                .push((self.commits.date(node)?, Reverse(self.queued), node));
            self.queued += 1;
        }
        Ok(())
    }

    /// Returns the next commit by date, included in the result or not.
    fn step(&mut self) -> Result<Option<Step>> {
        while let Some((date, _, node)) = self.queue.pop() {
            if date < self.since {
                continue;
            }
            let (changed, parents) = self.simplify(node)?;
            for parent in &parents {
                self.push(*parent)?;
            }
            return Ok(Some(Step {
                node,
                shown: changed && date <= self.until,
                parents,
            }));
        }
        Ok(None)
    }

    /// Returns the next commit of the result.
    fn next(&mut self) -> Result<Option<Node>> {
        while let Some(step) = self.step()? {
            if step.shown {
                return Ok(Some(step.node));
            }
        }
        Ok(None)
    }

    /// Returns whether the commit changes the path, and the parents to follow. These are all parents, or the
    /// one that alone explains the path (simplified history in `git log`).
    fn simplify(&mut self, node: Node) -> Result<(bool, Vec<Node>)> {
        let mut parents = self.commits.parents(node)?;
        if self.first_parent {
            parents.truncate(1);
        }
        let Some(path) = &self.path else {
            return Ok((true, parents));
        };
        if parents.is_empty() {
            return Ok((!path.is_absent(self.commits, node)?, parents));
        }
        let (mut relevant, mut relevant_change, mut other_change) = (false, false, false);
        for (index, parent) in parents.iter().enumerate() {
            let counts = self.marks.get(*parent) & (HIDDEN | BOTTOM) != HIDDEN;
            relevant |= counts;
            if path.is_unchanged(self.commits, node, *parent, index == 0)? {
                if counts {
                    return Ok((false, vec![*parent]));
                }
            } else if counts {
                relevant_change = true;
            } else {
                other_change = true;
            }
        }
        Ok((if relevant { relevant_change } else { other_change }, parents))
    }
}

/// Returns the commits of `selection` from `offset` on, at most `limit`.
pub(super) fn nodes(
    commits: &mut Commits,
    selection: &CommitSelection,
    offset: usize,
    limit: usize,
) -> Result<Vec<Node>> {
    let mut walk = Walk::new(commits, selection)?;
    let mut page = Vec::new();
    if selection.order == CommitOrder::Topo {
        let ordered = topological(&mut walk)?;
        return Ok(ordered.into_iter().skip(offset).take(limit).collect());
    }
    let mut passed = 0;
    while page.len() < limit {
        match walk.next()? {
            Some(_) if passed < offset => passed += 1,
            Some(node) => page.push(node),
            None => break,
        }
    }
    Ok(page)
}

/// Visits the commits of `selection`, newest first, until `visit` breaks.
pub(super) fn each(
    commits: &mut Commits,
    selection: &CommitSelection,
    mut visit: impl FnMut(&mut Commits, Node) -> Result<ControlFlow<()>>,
) -> Result<()> {
    let mut walk = Walk::new(commits, selection)?;
    while let Some(node) = walk.next()? {
        if visit(walk.commits, node)?.is_break() {
            break;
        }
    }
    Ok(())
}

/// Returns the number of commits in `selection`, at most `cap`.
pub(super) fn count(commits: &mut Commits, selection: &CommitSelection, cap: usize) -> Result<usize> {
    let mut walk = Walk::new(commits, selection)?;
    let mut counted = 0;
    while counted < cap && walk.next()?.is_some() {
        counted += 1;
    }
    Ok(counted)
}

/// Returns all commits of a walk with children before parents and without interleaving lines of history.
fn topological(walk: &mut Walk<'_>) -> Result<Vec<Node>> {
    let mut steps = Vec::new();
    let mut positions = HashMap::new();
    let mut children: HashMap<Node, u32> = HashMap::new();
    while let Some(step) = walk.step()? {
        for parent in &step.parents {
            *children.entry(*parent).or_default() += 1;
        }
        positions.insert(step.node, steps.len());
        steps.push(step);
    }
    let mut ready: Vec<_> = steps
        .iter()
        .map(|step| step.node)
        .filter(|node| !children.contains_key(node))
        .collect();
    ready.reverse();
    let mut ordered = Vec::with_capacity(steps.len());
    while let Some(node) = ready.pop() {
        // A hidden or too old parent is counted but was never walked.
        let Some(step) = positions.get(&node).and_then(|index| steps.get(*index)) else {
            continue;
        };
        if step.shown {
            ordered.push(node);
        }
        for parent in &step.parents {
            if let Some(waiting) = children.get_mut(parent) {
                *waiting -= 1;
                if *waiting == 0 {
                    ready.push(*parent);
                }
            }
        }
    }
    Ok(ordered)
}
