//! Lists of roles, users, groups and deploy keys that may perform an action on a protected ref.

use storage::entities::protected_ref_grants::RefAction;
use storage::entities::ref_rules::{Grantee, RefRule};

use crate::kernel::error::{Error, Result};

/// Maximum number of users, groups and deploy keys in a list.
const MAX_GRANTS: usize = 50;

/// Access level of entries that are not a role.
const GRANT_LEVEL: i32 = 40;

/// IDs of entries: an ID of a rule or of a grant, and one of these numbers.
const IDS_PER_ROW: i64 = 4;
const GRANT_REMAINDER: i64 = 3;

/// An entry of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessEntry {
    /// The ID, unique among the entries of a rule.
    pub id: i64,
    /// The access level: 0 if no role may act, 30, 40, or 60 for administrators.
    pub access_level: i32,
    /// The user, group or deploy key; `None` for a role.
    pub grantee: Option<Grantee>,
    /// Name of the user or group, or title of the deploy key, if the caller can see it.
    pub name: Option<String>,
}

/// A requested change of an entry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EntryChange {
    /// The entry to change or remove. Without an ID, an entry is added.
    pub id: Option<i64>,
    /// Whether to remove the entry.
    pub remove: bool,
    /// The role.
    pub access_level: Option<i64>,
    /// The user.
    pub user_id: Option<i64>,
    /// The group.
    pub group_id: Option<i64>,
    /// The deploy key.
    pub deploy_key_id: Option<i64>,
}

/// The role and the grantees of a new list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewAccessList {
    /// The role.
    pub level: Option<i64>,
    /// The entries, which are all added.
    pub entries: Vec<EntryChange>,
}

/// A list that is changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AccessList {
    action: RefAction,
    /// The role; 0 if no role may act.
    pub(super) level: i32,
    /// The grants, with their IDs if they are stored.
    pub(super) grants: Vec<(Option<i64>, Grantee)>,
}

/// Returns the entries of a rule for an action. A list without a role and without grants has one entry for no role, except
/// the list of [`RefAction::Unprotect`].
#[must_use]
pub fn entries(rule: &RefRule, action: RefAction) -> Vec<AccessEntry> {
    let granted = rule.grants.iter().filter(|grant| grant.action == action);
    let granted = granted.map(|grant| AccessEntry {
        id: grant_entry_id(grant.id),
        access_level: GRANT_LEVEL,
        grantee: Some(grant.grantee),
        name: grant.name.clone(),
    });
    let granted: Vec<AccessEntry> = granted.collect();
    let level = match rule.level(action) {
        None if granted.is_empty() && action != RefAction::Unprotect => Some(0),
        level => level,
    };
    let role = level.map(|level| AccessEntry {
        id: role_entry_id(rule.id, action),
        access_level: level,
        grantee: None,
        name: None,
    });
    role.into_iter().chain(granted).collect()
}

fn role_entry_id(rule_id: i64, action: RefAction) -> i64 {
    let remainder = match action {
        RefAction::Push | RefAction::Create => 0,
        RefAction::Merge => 1,
        RefAction::Unprotect => 2,
    };
    rule_id.saturating_mul(IDS_PER_ROW).saturating_add(remainder)
}

fn grant_entry_id(grant_id: i64) -> i64 {
    grant_id
        .saturating_mul(IDS_PER_ROW)
        .saturating_add(GRANT_REMAINDER)
}

/// Returns the attribute of a list in requests.
fn attribute(action: RefAction) -> &'static str {
    match action {
        RefAction::Push => "allowed_to_push",
        RefAction::Merge => "allowed_to_merge",
        RefAction::Unprotect => "allowed_to_unprotect",
        RefAction::Create => "allowed_to_create",
    }
}

/// Returns the start of errors of a list.
pub(super) fn label(action: RefAction) -> &'static str {
    match action {
        RefAction::Push => "Push access levels",
        RefAction::Merge => "Merge access levels",
        RefAction::Unprotect => "Unprotect access levels",
        RefAction::Create => "Create access levels",
    }
}

/// Returns an access level that is allowed for an action.
///
/// # Errors
/// Returns `Error::InvalidParameters` with the name of the parameter if it is not allowed.
fn checked_level(action: RefAction, level: i64, name: &str) -> Result<i32> {
    let allowed: &[i32] = match action {
        RefAction::Push | RefAction::Merge => &[0, 30, 40, 60],
        RefAction::Unprotect => &[30, 40, 60],
        RefAction::Create => &[0, 30, 40],
    };
    let level = i32::try_from(level).ok().filter(|level| allowed.contains(level));
    level.ok_or_else(|| Error::value_not_allowed(name, allowed))
}

/// A new entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Addition {
    Role(i32),
    Grant(Grantee),
}

impl AccessList {
    /// Creates the list of a new rule. `default` is the role if the request names neither a role nor entries.
    ///
    /// # Errors
    /// Returns `Error::InvalidParameters` if an entry is malformed, and `Error::Unprocessable` if one occurs twice.
    pub(super) fn new(action: RefAction, new: NewAccessList, default: i32) -> Result<Self> {
        let level = match new.level {
            None if new.entries.is_empty() => default,
            None => 0,
            Some(level) => {
                let name = attribute(action).trim_start_matches("allowed_to_");
                checked_level(action, level, &format!("{name}_access_level"))?
            }
        };
        let mut list = Self {
            action,
            level,
            grants: Vec::new(),
        };
        list.apply(None, new.entries)?;
        Ok(list)
    }

    /// Returns the list of a rule.
    pub(super) fn of_rule(rule: &RefRule, action: RefAction) -> Self {
        let grants = rule.grants.iter().filter(|grant| grant.action == action);
        Self {
            action,
            level: rule.level(action).unwrap_or(0),
            grants: grants.map(|grant| (Some(grant.id), grant.grantee)).collect(),
        }
    }

    /// Applies changes: first those of existing entries, then additions. If the list gets several roles, the most
    /// permissive role remains.
    ///
    /// # Errors
    /// Returns `Error::InvalidParameters` if an entry is malformed, or if the list gets too long. Returns
    /// `Error::Unprocessable` if an ID is unknown, or if an entry occurs twice.
    pub(super) fn apply(&mut self, rule_id: Option<i64>, changes: Vec<EntryChange>) -> Result<()> {
        let mut additions = Vec::new();
        for (position, change) in changes.into_iter().enumerate() {
            let addition = self.addition(position, &change)?;
            if let Some(id) = change.id {
                if !change.remove && addition.is_none() {
                    self.check_entry(rule_id, id)?;
                    continue;
                }
                self.remove(rule_id, id)?;
            }
            match addition {
                Some(addition) if !change.remove => additions.push(addition),
                None if change.id.is_none() => return Err(self.malformed(position)),
                _ => {}
            }
        }
        for addition in additions {
            self.add(addition)?;
        }
        if self.grants.len() > MAX_GRANTS {
            return Err(Error::parameter(format!(
                "{} has too many entries (maximum is {MAX_GRANTS})",
                attribute(self.action)
            )));
        }
        Ok(())
    }

    /// Returns the role or grant that a change names.
    fn addition(&self, position: usize, change: &EntryChange) -> Result<Option<Addition>> {
        let full_name = |field: &str| format!("{}[{position}][{field}]", attribute(self.action));
        let invalid = |field: &str, text: &str| Error::parameter(format!("{} {text}", full_name(field)));
        let mut found = Vec::new();
        if let Some(level) = change.access_level {
            let level = checked_level(self.action, level, &full_name("access_level"))?;
            found.push(Addition::Role(level));
        }
        found.extend(change.user_id.map(|id| Addition::Grant(Grantee::User(id))));
        found.extend(change.group_id.map(|id| Addition::Grant(Grantee::Group(id))));
        if let Some(id) = change.deploy_key_id {
            if !matches!(self.action, RefAction::Push | RefAction::Create) {
                return Err(invalid("deploy_key_id", "is not allowed for this action"));
            }
            found.push(Addition::Grant(Grantee::DeployKey(id)));
        }
        match found.as_slice() {
            [] => Ok(None),
            [one] => Ok(Some(*one)),
            _ => Err(self.malformed(position)),
        }
    }

    fn malformed(&self, position: usize) -> Error {
        Error::parameter(format!(
            "{}[{position}] must have exactly one of access_level, user_id, group_id and deploy_key_id",
            attribute(self.action)
        ))
    }

    fn unknown(&self, id: i64) -> Error {
        Error::Unprocessable(format!("{} has no entry with the ID {id}", label(self.action)).into())
    }

    fn is_role_entry(&self, rule_id: Option<i64>, id: i64) -> bool {
        rule_id.is_some_and(|rule_id| role_entry_id(rule_id, self.action) == id)
    }

    fn check_entry(&self, rule_id: Option<i64>, id: i64) -> Result<()> {
        let is_known = self.is_role_entry(rule_id, id)
            || self
                .grants
                .iter()
                .any(|(grant, _)| grant.map(grant_entry_id) == Some(id));
        is_known.then_some(()).ok_or_else(|| self.unknown(id))
    }

    fn remove(&mut self, rule_id: Option<i64>, id: i64) -> Result<()> {
        self.check_entry(rule_id, id)?;
        if self.is_role_entry(rule_id, id) {
            self.level = 0;
        }
        self.grants
            .retain(|(grant, _)| grant.map(grant_entry_id) != Some(id));
        Ok(())
    }

    fn add(&mut self, addition: Addition) -> Result<()> {
        let taken = |kind: &str| {
            Error::Unprocessable(format!("{} {kind} has already been taken", label(self.action)).into())
        };
        match addition {
            Addition::Role(0) => {}
            Addition::Role(level) if level == self.level => return Err(taken("access level")),
            // Without a role, the level is 0.
            Addition::Role(level) if self.level == 0 || level < self.level => self.level = level,
            Addition::Role(_) => {}
            Addition::Grant(grantee) => {
                if self.grants.iter().any(|(_, known)| *known == grantee) {
                    return Err(taken(match grantee {
                        Grantee::User(_) => "user",
                        Grantee::Group(_) => "group",
                        Grantee::DeployKey(_) => "deploy key",
                    }));
                }
                self.grants.push((None, grantee));
            }
        }
        Ok(())
    }

    /// Returns the action.
    pub(super) fn action(&self) -> RefAction {
        self.action
    }

    /// Returns the grants that are not stored yet.
    pub(super) fn added(&self) -> impl Iterator<Item = Grantee> {
        let added = self.grants.iter().filter(|(id, _)| id.is_none());
        added.map(|(_, grantee)| *grantee)
    }

    /// Returns the IDs of the stored grants of a rule that the list no longer contains.
    pub(super) fn removed(&self, rule: &RefRule) -> Vec<i64> {
        let stored = rule.grants.iter().filter(|grant| grant.action == self.action);
        let removed = stored.filter(|grant| !self.grants.iter().any(|(id, _)| *id == Some(grant.id)));
        removed.map(|grant| grant.id).collect()
    }
}

#[cfg(test)]
mod tests {
    use storage::entities::ref_rules::RefGrant;

    use super::*;

    fn role(level: i64) -> EntryChange {
        EntryChange {
            access_level: Some(level),
            ..EntryChange::default()
        }
    }

    fn user(id: i64) -> EntryChange {
        EntryChange {
            user_id: Some(id),
            ..EntryChange::default()
        }
    }

    fn removal(id: i64) -> EntryChange {
        EntryChange {
            id: Some(id),
            remove: true,
            ..EntryChange::default()
        }
    }

    /// A rule with the ID 5, the role of a Maintainer, and the grant 9 to the user 7.
    fn rule() -> RefRule {
        RefRule {
            code_owner_approval_required: false,
            id: 5,
            name: "main".to_owned(),
            levels: vec![(RefAction::Push, 40)],
            allow_force_push: false,
            inherited: false,
            updated_at: None,
            grants: vec![RefGrant {
                id: 9,
                action: RefAction::Push,
                grantee: Grantee::User(7),
                name: Some("Ada".to_owned()),
            }],
        }
    }

    fn changed(changes: Vec<EntryChange>) -> Result<AccessList> {
        let mut list = AccessList::of_rule(&rule(), RefAction::Push);
        list.apply(Some(5), changes)?;
        Ok(list)
    }

    #[test]
    fn entries_have_distinct_ids() {
        let push = entries(&rule(), RefAction::Push);
        let ids: Vec<i64> = push.iter().map(|entry| entry.id).collect();
        assert_eq!(ids, [20, 39]);
        let merge = entries(&rule(), RefAction::Merge);
        assert_eq!((merge[0].id, merge[0].access_level), (21, 0));
        assert_eq!(entries(&rule(), RefAction::Unprotect), []);
    }

    #[test]
    fn most_permissive_role_remains() {
        assert_eq!(changed(vec![role(30)]).unwrap().level, 30);
        assert_eq!(changed(vec![role(60)]).unwrap().level, 40);
        assert_eq!(changed(vec![role(0)]).unwrap().level, 40);
        assert_eq!(changed(vec![role(0), removal(20)]).unwrap().level, 0);
        assert_eq!(changed(vec![role(60), removal(20)]).unwrap().level, 60);
        let other = EntryChange {
            id: Some(20),
            ..role(60)
        };
        assert_eq!(changed(vec![other]).unwrap().level, 60);
    }

    #[test]
    fn grants_are_added_replaced_and_removed_by_id() {
        let list = changed(vec![user(8), removal(39)]).unwrap();
        assert_eq!(list.grants, [(None, Grantee::User(8))]);
        assert_eq!(list.removed(&rule()), [9]);
        let replaced = EntryChange {
            id: Some(39),
            ..user(8)
        };
        let list = changed(vec![replaced]).unwrap();
        assert_eq!((list.grants.len(), list.level), (1, 40));
        let unchanged = EntryChange {
            id: Some(39),
            ..EntryChange::default()
        };
        assert_eq!(
            changed(vec![unchanged]).unwrap(),
            AccessList::of_rule(&rule(), RefAction::Push)
        );
    }

    #[test]
    fn duplicate_and_unknown_entries_are_rejected() {
        for (changes, text) in [
            (
                vec![role(40)],
                "Push access levels access level has already been taken",
            ),
            (vec![user(7)], "Push access levels user has already been taken"),
            (
                vec![user(8), user(8)],
                "Push access levels user has already been taken",
            ),
            (
                vec![removal(21)],
                "Push access levels has no entry with the ID 21",
            ),
        ] {
            let error = changed(changes).unwrap_err();
            assert!(
                matches!(&error, Error::Unprocessable(found) if found == text),
                "{error}"
            );
        }
    }

    #[test]
    fn malformed_entries_are_rejected() {
        let both = EntryChange {
            access_level: Some(30),
            ..user(8)
        };
        for changes in [
            vec![EntryChange::default()],
            vec![both],
            vec![role(20)],
            vec![role(i64::MAX)],
            (100..151).map(user).collect(),
        ] {
            let error = changed(changes).unwrap_err();
            assert!(matches!(error, Error::InvalidParameters(_)), "{error}");
        }
        let key = EntryChange {
            deploy_key_id: Some(1),
            ..EntryChange::default()
        };
        let list = |action, entries: Vec<EntryChange>| {
            AccessList::new(action, NewAccessList { level: None, entries }, 40)
        };
        assert!(list(RefAction::Merge, vec![key.clone()]).is_err());
        assert!(list(RefAction::Create, vec![key]).is_ok());
        assert!(list(RefAction::Create, vec![role(60)]).is_err());
        assert!(list(RefAction::Unprotect, vec![role(0)]).is_err());
    }
}
