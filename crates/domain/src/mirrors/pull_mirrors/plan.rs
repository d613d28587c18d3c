//! The ref updates of a pull mirror: the difference between the branches and tags of a project and of the remote repository.

use git::RefCommand;

use crate::mirrors::plan::Refs;

/// Prefix of branches.
const BRANCHES: &str = "refs/heads/";

/// The branches and tags to compare.
pub(super) struct ComparedRefs<'a> {
    /// The branches and tags of the project.
    pub(super) local: &'a Refs,
    /// The selected branches and tags of the remote repository.
    pub(super) remote: &'a Refs,
    /// The targets that were fetched last.
    pub(super) recorded: &'a Refs,
    /// Whether tags that were changed in the project are overwritten.
    pub(super) overwrites: bool,
}

/// The result of a comparison.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PullPlan {
    /// The updates, deletions first. It is not known yet which updates of branches are fast-forwards.
    pub(super) commands: Vec<RefCommand>,
    /// Names of the tags that were changed in the project.
    pub(super) diverged: Vec<String>,
    /// Names of the branches and tags that are equal, and not recorded so.
    pub(super) unrecorded: Vec<String>,
    /// Names of recorded branches and tags that the remote repository does not have any more, and that are not deleted.
    pub(super) forgotten: Vec<String>,
}

/// Compares the branches and tags. `head` is the branch of the remote `HEAD`, which is updated first.
///
/// Only a branch or tag that still has the target that was fetched last is deleted. Others are work of the project.
pub(super) fn compare(refs: &ComparedRefs<'_>, head: Option<&str>) -> PullPlan {
    let mut plan = PullPlan::default();
    for (name, id) in refs.remote {
        let (local, recorded) = (refs.local.get(name), refs.recorded.get(name));
        if local == Some(id) {
            if recorded != Some(id) {
                plan.unrecorded.push(name.clone());
            }
            continue;
        }
        let is_branch = name.starts_with(BRANCHES);
        match is_branch || local.is_none() || local == recorded || refs.overwrites {
            true => plan.commands.push(RefCommand {
                old: local.copied(),
                new: Some(*id),
                reference: name.clone(),
            }),
            false => plan.diverged.push(name.clone()),
        }
    }
    let gone = refs
        .recorded
        .iter()
        .filter(|(name, _)| !refs.remote.contains_key(*name));
    for (name, recorded) in gone {
        match refs.local.get(name) {
            Some(local) if local == recorded => plan.commands.push(RefCommand {
                old: Some(*local),
                new: None,
                reference: name.clone(),
            }),
            _ => plan.forgotten.push(name.clone()),
        }
    }
    // Deletions first: the name of a new branch can be a directory of a deleted one.
    let position = |command: &RefCommand| (command.new.is_some(), Some(command.reference.as_str()) != head);
    plan.commands
        .sort_by(|one, other| (position(one), &one.reference).cmp(&(position(other), &other.reference)));
    plan.diverged.sort_unstable();
    plan
}

#[cfg(test)]
mod tests {
    use git::Oid;

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

    fn plan(overwrites: bool) -> PullPlan {
        let local = refs(&[
            ("refs/heads/equal", 1),
            ("refs/heads/moved", 2),
            ("refs/heads/gone", 3),
            ("refs/heads/worked-on", 4),
            ("refs/heads/own", 5),
            ("refs/tags/moved", 6),
            ("refs/tags/own", 7),
        ]);
        let remote = refs(&[
            ("refs/heads/equal", 1),
            ("refs/heads/moved", 9),
            ("refs/heads/new", 9),
            ("refs/heads/trunk", 9),
            ("refs/tags/moved", 9),
            ("refs/tags/own", 9),
        ]);
        let recorded = refs(&[
            ("refs/heads/moved", 8),
            ("refs/heads/gone", 3),
            ("refs/heads/worked-on", 3),
            ("refs/heads/deleted", 3),
            ("refs/tags/moved", 6),
        ]);
        let refs = ComparedRefs {
            local: &local,
            remote: &remote,
            recorded: &recorded,
            overwrites,
        };
        compare(&refs, Some("refs/heads/trunk"))
    }

    #[test]
    fn plan_deletes_only_fetched_refs_and_keeps_work_of_the_project() {
        let mut found = plan(false);
        assert_eq!(
            described(&found.commands),
            [
                "03 - refs/heads/gone",
                "- 09 refs/heads/trunk",
                "02 09 refs/heads/moved",
                "- 09 refs/heads/new",
                "06 09 refs/tags/moved",
            ]
        );
        found.forgotten.sort_unstable();
        assert_eq!(found.forgotten, ["refs/heads/deleted", "refs/heads/worked-on"]);
        assert_eq!(
            (found.diverged, found.unrecorded),
            (
                vec!["refs/tags/own".to_owned()],
                vec!["refs/heads/equal".to_owned()]
            )
        );
    }

    #[test]
    fn plan_overwrites_tags_if_the_mirror_does() {
        let found = plan(true);
        assert!(described(&found.commands).contains(&"07 09 refs/tags/own".to_owned()));
        assert!(found.diverged.is_empty() && found.forgotten.len() == 2);
    }
}
