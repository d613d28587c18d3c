//! The walk over history that `git log` does: by date or topology, within bounds, along a path.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::ops::ControlFlow;

use super::ancestry::hide;
use super::commits::{Commits, Marks, Node};
use super::paths::PathFilter;
use super::{Order, Selection};
use crate::Result;

/// The commit was put into the queue.
const SEEN: u8 = 1;
/// The commit is reachable from a hidden one.
pub(super) const HIDDEN: u8 = 2;
/// The commit was itself named as hidden: still worth comparing with.
const BOTTOM: u8 = 4;

/// A walk under way; yields nodes newest first.
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

/// A commit the walk came by.
struct Step {
    node: Node,
    /// Whether it belongs into the answer; if not, the walk only passes through.
    shown: bool,
    /// The parents the walk goes on to.
    parents: Vec<Node>,
}

impl<'a> Walk<'a> {
    /// A walk over the commits of `selection`, whose order is left to [`nodes`].
    fn new(commits: &'a mut Commits, selection: &Selection) -> Result<Self> {
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
            hide(commits, &tips, &hidden, &mut marks)?;
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

    /// Queues a commit that is neither hidden nor queued before. Equal dates keep the order of their queueing.
    fn push(&mut self, node: Node) -> Result<()> {
        if self.marks.get(node) & HIDDEN == 0 && self.marks.add(node, SEEN) {
            self.queue
                .push((self.commits.date(node)?, Reverse(self.queued), node));
            self.queued += 1;
        }
        Ok(())
    }

    /// The next commit by date, shown or not.
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

    /// The next commit that belongs into the answer.
    fn next(&mut self) -> Result<Option<Node>> {
        while let Some(step) = self.step()? {
            if step.shown {
                return Ok(Some(step.node));
            }
        }
        Ok(None)
    }

    /// Whether the commit changes the path, and the parents to follow: all of them, or the one parent that
    /// explains the path alone (`git log` calls it simplified history).
    fn simplify(&mut self, node: Node) -> Result<(bool, Vec<Node>)> {
        let mut parents = self.commits.parents(node)?;
        if self.first_parent {
            parents.truncate(1);
        }
        let Some(path) = &self.path else {
            return Ok((true, parents));
        };
        if parents.is_empty() {
            return Ok((!path.absent(self.commits, node)?, parents));
        }
        let (mut relevant, mut relevant_change, mut other_change) = (false, false, false);
        for (place, parent) in parents.iter().enumerate() {
            let counts = self.marks.get(*parent) & (HIDDEN | BOTTOM) != HIDDEN;
            relevant |= counts;
            if path.same(self.commits, node, *parent, place == 0)? {
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

/// The commits of `selection` from the `offset`th on, at most `limit` of them.
pub(super) fn nodes(
    commits: &mut Commits,
    selection: &Selection,
    offset: usize,
    limit: usize,
) -> Result<Vec<Node>> {
    let mut walk = Walk::new(commits, selection)?;
    let mut page = Vec::new();
    if selection.order == Order::Topo {
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

/// Shows the commits of `selection` one after the other, newest first, until `visit` has seen enough.
pub(super) fn each(
    commits: &mut Commits,
    selection: &Selection,
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

/// How many commits `selection` has, counting no further than `cap`.
pub(super) fn count(commits: &mut Commits, selection: &Selection, cap: usize) -> Result<usize> {
    let mut walk = Walk::new(commits, selection)?;
    let mut counted = 0;
    while counted < cap && walk.next()?.is_some() {
        counted += 1;
    }
    Ok(counted)
}

/// All commits of a walk so that none comes before its children and no two lines of history mix.
fn topological(walk: &mut Walk<'_>) -> Result<Vec<Node>> {
    let mut steps = Vec::new();
    let mut places = HashMap::new();
    let mut children: HashMap<Node, u32> = HashMap::new();
    while let Some(step) = walk.step()? {
        for parent in &step.parents {
            *children.entry(*parent).or_default() += 1;
        }
        places.insert(step.node, steps.len());
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
        // A parent that is hidden or too old is counted but was never walked.
        let Some(step) = places.get(&node).and_then(|place| steps.get(*place)) else {
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
