//! The ref updates of a mirror: the difference between the branches and tags of a project and of the remote repository.

use std::collections::HashMap;

use git::{Oid, RefCommand};

/// Branches and tags by full name.
pub(super) type Refs = HashMap<String, Oid>;

/// Returns the updates that make the remote branches and tags equal to the local ones, ordered by name. `is_selected` decides
/// by the full name which are mirrored.
pub(super) fn differences(
    local: &Refs,
    remote: &Refs,
    is_selected: impl Fn(&str) -> bool,
) -> Vec<RefCommand> {
    let changed = local.iter().map(|(name, id)| RefCommand {
        old: remote.get(name).copied(),
        new: Some(*id),
        reference: name.clone(),
    });
    let gone = remote.iter().filter(|(name, _)| !local.contains_key(*name));
    let deleted = gone.map(|(name, id)| RefCommand {
        old: Some(*id),
        new: None,
        reference: name.clone(),
    });
    let mut commands: Vec<RefCommand> = changed
        .chain(deleted)
        .filter(|command| command.old != command.new && is_mirrored(&command.reference))
        .filter(|command| is_selected(&command.reference))
        .collect();
    // Deletions first: the name of a new branch can be a directory of a deleted one.
    commands.sort_by(|one, other| {
        (one.new.is_some(), &one.reference).cmp(&(other.new.is_some(), &other.reference))
    });
    commands
}

fn is_mirrored(reference: &str) -> bool {
    reference.starts_with("refs/heads/") || reference.starts_with("refs/tags/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refs(refs: &[(&str, u8)]) -> Refs {
        let id = |byte: u8| Oid::from_bytes(&[byte; 20]).expect("an ID");
        refs.iter()
            .map(|(name, byte)| ((*name).to_owned(), id(*byte)))
            .collect()
    }

    fn described(commands: &[RefCommand]) -> Vec<String> {
        let short = |id: Option<Oid>| id.map_or_else(|| "-".to_owned(), |id| id.to_string()[..2].to_owned());
        let describe = |command: &RefCommand| {
            format!(
                "{} {} {}",
                short(command.old),
                short(command.new),
                command.reference
            )
        };
        commands.iter().map(describe).collect()
    }

    #[test]
    fn differences_are_creations_updates_and_deletions_of_selected_refs() {
        let local = refs(&[
            ("refs/heads/a", 1),
            ("refs/heads/b", 2),
            ("refs/heads/c/d", 3),
            ("refs/tags/v", 4),
        ]);
        let remote = refs(&[
            ("refs/heads/a", 1),
            ("refs/heads/b", 9),
            ("refs/heads/c", 8),
            ("refs/tags/gone", 7),
            ("refs/pull/1/head", 6),
        ]);
        assert_eq!(
            described(&differences(&local, &remote, |_| true)),
            [
                "08 - refs/heads/c",
                "07 - refs/tags/gone",
                "09 02 refs/heads/b",
                "- 03 refs/heads/c/d",
                "- 04 refs/tags/v",
            ]
        );
        let only_b = differences(&local, &remote, |name| name == "refs/heads/b");
        assert_eq!(described(&only_b), ["09 02 refs/heads/b"]);
        assert!(differences(&local, &local, |_| true).is_empty());
    }
}
