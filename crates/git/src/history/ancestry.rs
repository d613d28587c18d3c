//! Ancestry queries. They use topological levels, so they are exact even if commit dates are wrong.

use std::collections::{BTreeSet, BinaryHeap};

use super::commits::{Commits, Marks, Node};
use super::walk::HIDDEN;
use crate::Result;

/// A queue that yields children before their parents.
struct DescentQueue<'a> {
    commits: &'a mut Commits,
    queue: BinaryHeap<(u32, Node)>,
}

impl<'a> DescentQueue<'a> {
    fn new(commits: &'a mut Commits, from: &[&[Node]]) -> Result<Self> {
        for nodes in from {
            commits.prepare_generations(nodes)?;
        }
        Ok(Self {
            commits,
            queue: BinaryHeap::new(),
        })
    }

    fn push(&mut self, node: Node) -> Result<()> {
        self.queue.push((self.commits.generation(node)?, node));
        Ok(())
    }

    fn pop(&mut self) -> Option<Node> {
        self.queue.pop().map(|(_, node)| node)
    }
}

/// Marks as [`HIDDEN`] the commits reachable from `hidden`, as far as a walk from `tips` can meet them.
pub(super) fn mark_hidden(
    commits: &mut Commits,
    tips: &[Node],
    hidden: &[Node],
    marks: &mut Marks,
) -> Result<()> {
    const OPEN: u8 = 1;
    let mut painted = Marks::default();
    let mut descent = DescentQueue::new(commits, &[tips, hidden])?;
    // Number of queued commits that may not be hidden; at zero the walk can stop.
    let mut open = 0_usize;
    for tip in tips {
        if painted.add(*tip, OPEN) {
            descent.push(*tip)?;
            open += 1;
        }
    }
    for node in hidden {
        if marks.add(*node, HIDDEN) {
            if painted.add(*node, OPEN) {
                descent.push(*node)?;
            } else {
                open -= 1;
            }
        }
    }
    while open > 0 {
        let Some(node) = descent.pop() else { break };
        let is_hidden = marks.get(node) & HIDDEN != 0;
        open -= usize::from(!is_hidden);
        for parent in descent.commits.parents(node)? {
            let newly_queued = painted.add(parent, OPEN);
            let newly_hidden = is_hidden && marks.add(parent, HIDDEN);
            if newly_queued {
                descent.push(parent)?;
                open += usize::from(!is_hidden);
            } else if newly_hidden {
                open -= 1;
            }
        }
    }
    Ok(())
}

/// Returns the merge bases of `one` and any of `others`: the common ancestors that are not ancestors of
/// another common ancestor.
pub(super) fn merge_bases(commits: &mut Commits, one: Node, others: &[Node]) -> Result<Vec<Node>> {
    const ONE: u8 = 1;
    const OTHER: u8 = 2;
    const BELOW: u8 = 4;
    const BOTH: u8 = ONE | OTHER;
    let mut marks = Marks::default();
    let mut bases = Vec::new();
    let mut descent = DescentQueue::new(commits, &[&[one], others])?;
    // Number of queued commits that are not ancestors of a base found so far.
    let mut open = 0_usize;
    for (node, bit) in std::iter::once((one, ONE)).chain(others.iter().map(|node| (*node, OTHER))) {
        let queued = marks.get(node) != 0;
        marks.add(node, bit);
        if !queued {
            descent.push(node)?;
            open += 1;
        }
    }
    while open > 0 {
        let Some(node) = descent.pop() else { break };
        let mut bits = marks.get(node);
        open -= usize::from(bits & BELOW == 0);
        if bits & BOTH == BOTH && bits & BELOW == 0 {
            bases.push(node);
            bits |= BELOW;
        }
        for parent in descent.commits.parents(node)? {
            let before = marks.get(parent);
            marks.add(parent, bits);
            if before == 0 {
                descent.push(parent)?;
                open += usize::from(bits & BELOW == 0);
            } else if before & BELOW == 0 && bits & BELOW != 0 {
                open -= 1;
            }
        }
    }
    Ok(bases)
}

/// Returns for each of `tips`, in order, whether it is `base` or one of its ancestors, with a single walk.
pub(super) fn merged_into(commits: &mut Commits, base: Node, tips: &[Node]) -> Result<Vec<bool>> {
    const REACHED: u8 = 1;
    let mut marks = Marks::default();
    let mut descent = DescentQueue::new(commits, &[&[base], tips])?;
    let mut sought = BTreeSet::new();
    for tip in tips {
        sought.insert((descent.commits.generation(*tip)?, *tip));
    }
    marks.add(base, REACHED);
    descent.push(base)?;
    while let Some((lowest, _)) = sought.first().copied() {
        let Some(node) = descent.pop() else { break };
        let level = descent.commits.generation(node)?;
        sought.remove(&(level, node));
        // A commit never descends from a commit of the same or a higher level.
        if level <= lowest {
            continue;
        }
        for parent in descent.commits.parents(node)? {
            if marks.add(parent, REACHED) {
                descent.push(parent)?;
            }
        }
    }
    let reached = tips.iter().map(|tip| marks.get(*tip) & REACHED != 0);
    Ok(reached.collect())
}

/// Returns for each of `tips`, in order, whether it is `target` or has it as an ancestor.
pub(super) fn containing(commits: &mut Commits, target: Node, tips: &[Node]) -> Result<Vec<bool>> {
    let mut search = Search::new(commits, target)?;
    tips.iter().map(|tip| search.contains(*tip)).collect()
}

/// Depth-first search for one commit below many, which visits each commit once.
struct Search<'a> {
    commits: &'a mut Commits,
    /// The level of the target if the graph contains it.
    floor: Option<u32>,
    marks: Marks,
}

impl<'a> Search<'a> {
    const WALKED: u8 = 1;
    const CONTAINS: u8 = 2;

    fn new(commits: &'a mut Commits, target: Node) -> Result<Self> {
        let floor = if commits.in_graph(target) {
            Some(commits.generation(target)?)
        } else {
            None
        };
        let mut marks = Marks::default();
        marks.add(target, Self::WALKED | Self::CONTAINS);
        Ok(Self {
            commits,
            floor,
            marks,
        })
    }

    fn contains(&mut self, tip: Node) -> Result<bool> {
        let mut line = Vec::new();
        if self.marks.add(tip, Self::WALKED) {
            line.push((tip, self.parents(tip)?.into_iter()));
        }
        while let Some((_, parents)) = line.last_mut() {
            let Some(parent) = parents.next() else {
                line.pop();
                continue;
            };
            if self.marks.get(parent) & Self::CONTAINS != 0 {
                // All commits on the path from the tip to here descend from the target.
                for (node, _) in line.drain(..) {
                    self.marks.add(node, Self::CONTAINS);
                }
            } else if self.marks.add(parent, Self::WALKED) {
                let parents = self.parents(parent)?;
                line.push((parent, parents.into_iter()));
            }
        }
        Ok(self.marks.get(tip) & Self::CONTAINS != 0)
    }

    /// Returns the parents that can descend from the target. A commit in the graph never descends from a
    /// commit outside it, nor from one of the same or a higher level.
    fn parents(&mut self, node: Node) -> Result<Vec<Node>> {
        if self.commits.in_graph(node) {
            match self.floor {
                None => return Ok(Vec::new()),
                Some(floor) if self.commits.generation(node)? <= floor => return Ok(Vec::new()),
                Some(_) => {}
            }
        }
        self.commits.parents(node)
    }
}
