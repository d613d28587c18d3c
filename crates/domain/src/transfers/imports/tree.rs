//! Group hierarchy of an archive, and its epics, whose parents may belong to ancestor groups.

use std::collections::{HashMap, HashSet};

use storage::entities::fold;

use crate::kernel::error::Result;
use crate::planning::epics;
use crate::spaces::groups::{MAX_DEPTH, check_names};
use crate::transfers::imports::archive::{ByteRange, EpicReference, GroupDraft, fault};
use parsers::group_archive::layout::Relation;

/// A group and its position in the hierarchy.
#[derive(Debug)]
pub struct GroupNode {
    pub draft: GroupDraft,
    /// Number of its ancestors in the archive.
    pub depth: usize,
    /// Its path within the archive, starting with the exported group.
    pub full_path: String,
}

impl GroupNode {
    /// Returns the byte range of its records of a relation, if any.
    pub fn records(&self, relation: Relation) -> Option<ByteRange> {
        self.draft.relations[relation as usize]
    }
}

/// Sorts each group after its parent, starting with the exported one.
///
/// # Errors
/// Returns `Error::Rejected` if the groups do not form a tree or siblings conflict.
pub fn sort_groups(all: &[i64], mut drafts: HashMap<i64, GroupDraft>) -> Result<Vec<GroupNode>> {
    let Some(root) = all.first().copied() else {
        return Err(fault("The archive contains no group"));
    };
    let listed: HashSet<i64> = all.iter().copied().collect();
    if listed.len() < all.len() {
        return Err(fault("The list of groups contains duplicates"));
    }
    if let Some(id) = drafts.keys().find(|id| !listed.contains(id)) {
        return Err(fault(format!("The group {id} is not in the list of groups")));
    }
    let mut below: HashMap<i64, Vec<i64>> = HashMap::new();
    for id in all {
        let draft = drafts.get(id).filter(|draft| draft.attributes.is_some());
        let draft = draft.ok_or_else(|| fault(format!("The archive has no attributes of the group {id}")))?;
        if *id != root {
            let parent = draft.parent_id.filter(|parent| listed.contains(parent));
            let parent =
                parent.ok_or_else(|| fault(format!("The parent of the group {id} is not in the archive")))?;
            below.entry(parent).or_default().push(*id);
        }
    }
    let mut nodes: Vec<GroupNode> = Vec::with_capacity(all.len());
    // Groups after this position have not been visited yet.
    let mut at = 0;
    let mut next = vec![(root, 0, String::new())];
    while let Some((id, depth, above)) = next.get(at).cloned() {
        at += 1;
        let Some(draft) = drafts.remove(&id) else {
            continue;
        };
        if depth >= MAX_DEPTH {
            return Err(fault(format!("The group {id} is nested too deeply")));
        }
        let full_path = format!("{above}{}", draft.path);
        let children = below.remove(&id).unwrap_or_default();
        next.extend(
            children
                .into_iter()
                .map(|child| (child, depth + 1, format!("{full_path}/"))),
        );
        nodes.push(GroupNode {
            draft,
            depth,
            full_path,
        });
    }
    // A group in a cycle is not reachable from the root.
    if let Some(id) = drafts.keys().next() {
        return Err(fault(format!("The group {id} is its own ancestor")));
    }
    check_siblings(&nodes)?;
    Ok(nodes)
}

fn check_siblings(nodes: &[GroupNode]) -> Result<()> {
    let (mut names, mut paths) = (HashSet::new(), HashSet::new());
    for group in nodes.iter().skip(1) {
        let (draft, full_path) = (&group.draft, &group.full_path);
        if let Err(error) = check_names(Some(&draft.name), Some(&draft.path), false) {
            let text = super::checks::text_of(&error, ToString::to_string).unwrap_or_default();
            return Err(fault(format!("The group {full_path:?}: {text}")));
        }
        let fresh = names.insert((draft.parent_id, fold(&draft.name)))
            && paths.insert((draft.parent_id, fold(&draft.path)));
        if !fresh {
            return Err(fault(format!(
                "The group {full_path:?} has the same name or path as another group"
            )));
        }
    }
    Ok(())
}

/// Rejects epics that form a cycle, are nested too deeply, or have a parent outside of the group's ancestors.
/// A parent outside of the archive is ignored, because it may belong to an ancestor of the exported group.
///
/// # Errors
/// Returns `Error::Rejected` if an epic has an invalid parent.
pub fn check_epics(nodes: &[GroupNode], all: &HashMap<i64, EpicReference>) -> Result<()> {
    let parents: HashMap<i64, i64> = nodes
        .iter()
        .skip(1)
        .filter_map(|group| Some((group.draft.id, group.draft.parent_id?)))
        .collect();
    for (id, epic) in all {
        let Some(parent) = epic.parent_id.and_then(|id| all.get(&id)) else {
            continue;
        };
        let mut above = Some(epic.group_id);
        while let Some(group) = above.filter(|group| *group != parent.group_id) {
            above = parents.get(&group).copied();
        }
        if above.is_none() {
            return Err(fault(format!(
                "The parent of the epic {id} does not belong to the group of the epic or an ancestor"
            )));
        }
        let (mut steps, mut next) = (1, parent.parent_id);
        while let Some(further) = next.and_then(|id| all.get(&id)) {
            steps += 1;
            if steps > epics::MAX_ANCESTORS {
                return Err(fault(format!(
                    "The epic {id} is nested too deeply or is its own ancestor"
                )));
            }
            next = further.parent_id;
        }
    }
    Ok(())
}
