//! Whether the rules of protected refs allow a caller or a deploy key to act.

use std::collections::HashSet;

use sea_orm::ConnectionTrait;
use storage::entities::ref_rules::{Grantee, RefRule};
use storage::entities::{access as levels, now, protected_ref_grants::RefAction};

use crate::identity::access::ProjectAccess;
use crate::kernel::caller::Caller;
use crate::kernel::error::Result;
use crate::kernel::policy::Role;

/// Access level of instance administrators.
const ADMIN_LEVEL: i32 = 60;

/// A caller or a deploy key, with the properties that rules refer to.
#[derive(Debug, Clone, Default)]
pub struct RuleSubject {
    admin: bool,
    role: Option<Role>,
    user_id: Option<i64>,
    /// Groups of the rules of which the user is a member.
    groups: HashSet<i64>,
    deploy_key_id: Option<i64>,
}

impl RuleSubject {
    /// Returns a caller with a role, and its memberships in the groups that the rules name. Runs a statement only if a
    /// rule names a group.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn load(
        db: &impl ConnectionTrait,
        caller: &Caller,
        role: Option<Role>,
        rules: &[RefRule],
    ) -> Result<Self> {
        let user_id = caller.as_user().map(|user| user.id);
        let grants = rules.iter().flat_map(|rule| &rule.grants);
        let named: HashSet<i64> = grants
            .filter_map(|grant| match grant.grantee {
                Grantee::Group(id) => Some(id),
                Grantee::User(_) | Grantee::DeployKey(_) => None,
            })
            .collect();
        let groups = match user_id {
            Some(id) if !named.is_empty() => {
                let named: Vec<i64> = named.into_iter().collect();
                let roles = levels::group_levels(db, id, &named, now().date_naive()).await?;
                roles.into_keys().collect()
            }
            _ => HashSet::new(),
        };
        Ok(Self {
            admin: caller.is_admin(),
            role,
            user_id,
            groups,
            deploy_key_id: None,
        })
    }

    /// Returns the caller of a project, see [`Self::load`].
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn of_access(
        db: &impl ConnectionTrait,
        access: &ProjectAccess,
        rules: &[RefRule],
    ) -> Result<Self> {
        Self::load(db, &access.caller, access.role, rules).await
    }

    /// Returns a deploy key that can push to the project.
    #[must_use]
    pub fn deploy_key(id: i64) -> Self {
        Self {
            deploy_key_id: Some(id),
            ..Self::default()
        }
    }

    /// Returns whether the subject is an administrator of the instance.
    #[must_use]
    pub fn is_admin(&self) -> bool {
        self.admin
    }

    /// Returns whether the subject can act on refs without a rule: it is a Developer, or a deploy key that can push.
    #[must_use]
    pub fn is_developer(&self) -> bool {
        self.deploy_key_id.is_some() || self.has_level(Role::Developer.into())
    }

    /// Returns whether a rule allows an action: by the role, or by a grant. A grant to a user or group requires the
    /// Developer role too, because callers without the role cannot push.
    #[must_use]
    pub fn is_allowed(&self, rule: &RefRule, action: RefAction) -> bool {
        rule.level(action).is_some_and(|level| self.has_level(level))
            || rule
                .grants
                .iter()
                .any(|grant| grant.action == action && self.is_granted(grant.grantee))
    }

    fn is_granted(&self, grantee: Grantee) -> bool {
        match grantee {
            Grantee::User(id) => self.user_id == Some(id) && self.is_developer(),
            Grantee::Group(id) => self.groups.contains(&id) && self.is_developer(),
            Grantee::DeployKey(id) => self.deploy_key_id == Some(id),
        }
    }

    fn has_level(&self, level: i32) -> bool {
        self.admin || (level < ADMIN_LEVEL && self.role.is_some_and(|role| i32::from(role) >= level))
    }
}

/// Subjects and rules of unit tests.
#[cfg(test)]
pub(crate) mod tests {
    use storage::entities::ref_rules::RefGrant;

    use super::*;

    pub(crate) fn subject(role: Option<Role>) -> RuleSubject {
        RuleSubject {
            role,
            user_id: Some(7),
            groups: HashSet::from([3]),
            ..RuleSubject::default()
        }
    }

    pub(crate) fn admin() -> RuleSubject {
        RuleSubject {
            admin: true,
            ..RuleSubject::default()
        }
    }

    pub(crate) fn rule(name: &str, levels: &[(RefAction, i32)]) -> RefRule {
        RefRule {
            code_owner_approval_required: false,
            id: 1,
            name: name.to_owned(),
            levels: levels.to_vec(),
            allow_force_push: false,
            inherited: false,
            updated_at: None,
            grants: Vec::new(),
        }
    }

    pub(crate) fn granting(rule: RefRule, action: RefAction, grantee: Grantee) -> RefRule {
        let grant = RefGrant {
            id: 1,
            action,
            grantee,
            name: None,
        };
        RefRule {
            grants: vec![grant],
            ..rule
        }
    }

    #[test]
    fn grant_allows_only_its_recipient_and_action() {
        let allows = |grantee: Grantee, subject: &RuleSubject, action: RefAction| {
            subject.is_allowed(&granting(rule("main", &[]), RefAction::Push, grantee), action)
        };
        let developer = subject(Some(Role::Developer));
        for (grantee, expected) in [
            (Grantee::User(7), true),
            (Grantee::User(8), false),
            (Grantee::Group(3), true),
            (Grantee::Group(4), false),
            (Grantee::DeployKey(7), false),
        ] {
            assert_eq!(
                allows(grantee, &developer, RefAction::Push),
                expected,
                "{grantee:?}"
            );
            assert!(!allows(grantee, &developer, RefAction::Merge), "{grantee:?}");
            assert!(!allows(grantee, &admin(), RefAction::Push), "{grantee:?}");
        }
        let reporter = subject(Some(Role::Reporter));
        assert!(!allows(Grantee::User(7), &reporter, RefAction::Push));
        assert!(!allows(Grantee::Group(3), &reporter, RefAction::Push));
    }

    #[test]
    fn deploy_key_needs_its_own_grant() {
        let key = RuleSubject::deploy_key(7);
        let granted = |id: i64| granting(rule("main", &[]), RefAction::Push, Grantee::DeployKey(id));
        assert!(key.is_developer());
        assert!(key.is_allowed(&granted(7), RefAction::Push));
        assert!(!key.is_allowed(&granted(8), RefAction::Push));
        assert!(!key.is_allowed(&rule("main", &[(RefAction::Push, 30)]), RefAction::Push));
    }
}
