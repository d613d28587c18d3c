//! Tag protection: which callers may create which tags, by their role and the protected tags of the project.
//!
//! A tag is protected by every rule whose name or pattern matches (`*` matches any text, including slashes). The most
//! permissive rule decides.

use sea_orm::ConnectionTrait;
use storage::entities::protected_ref_grants::RefAction;
use storage::entities::ref_rules::{self, GrantFilter, RefRule, RefRuleOwner, RefRuleParts};
use storage::entities::related_rows::RelatedRows;

use crate::code::rule_subject::RuleSubject;
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::Result;
use crate::kernel::patterns::matches_pattern;
use crate::kernel::policy::Role;

/// Permissions of a caller on the tags of a project.
#[derive(Debug, Clone)]
pub struct TagRules {
    subject: RuleSubject,
    is_maintainer: bool,
    archived: bool,
    rules: Vec<RefRule>,
}

/// Loads the rules for a caller in one statement, and in one more if a rule names a group.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn tag_rules(backend: &Backend, access: &ProjectAccess) -> Result<TagRules> {
    let db = backend.database.read();
    let rules = ref_rules::load(db, rule_owner(access), grant_filter(access)).await?;
    TagRules::load(db, access, rules).await
}

/// Adds the rules of a project for a caller to a statement, for [`TagRules::load`].
pub fn add_rules(related: &mut RelatedRows, access: &ProjectAccess) -> RefRuleParts {
    RefRuleParts::add(related, rule_owner(access), grant_filter(access))
}

fn rule_owner(access: &ProjectAccess) -> RefRuleOwner {
    RefRuleOwner::ProjectTags {
        project_id: access.project.id,
        namespace_id: access.project.namespace_id,
    }
}

fn grant_filter(access: &ProjectAccess) -> GrantFilter {
    GrantFilter::Of(access.caller.as_user().map(|user| user.id))
}

impl TagRules {
    /// Creates the rules for a caller. Runs a statement if a rule names a group.
    ///
    /// # Errors
    /// Returns an error if a database query fails.
    pub async fn load(
        db: &impl ConnectionTrait,
        access: &ProjectAccess,
        rules: Vec<RefRule>,
    ) -> Result<Self> {
        Ok(Self {
            subject: RuleSubject::of_access(db, access, &rules).await?,
            is_maintainer: access.has_role(Role::Maintainer),
            archived: access.project.archived,
            rules,
        })
    }

    /// Returns whether the tag is protected.
    #[must_use]
    pub fn is_protected(&self, tag: &str) -> bool {
        self.matching(tag).next().is_some()
    }

    /// Returns whether the caller may create the tag. An unprotected tag requires a Developer, a protected one the role or
    /// a grant of its protection.
    #[must_use]
    pub fn can_create(&self, tag: &str) -> bool {
        if self.archived {
            return false;
        }
        let mut matching = self.matching(tag).peekable();
        match matching.peek() {
            None => self.subject.is_developer(),
            Some(_) => matching.any(|rule| self.subject.is_allowed(rule, RefAction::Create)),
        }
    }

    /// Returns whether the caller may delete the tag with the API. A protected tag requires a Maintainer.
    #[must_use]
    pub fn can_delete(&self, tag: &str) -> bool {
        let is_sufficient = self.is_maintainer || !self.is_protected(tag);
        !self.archived && self.subject.is_developer() && is_sufficient
    }

    fn matching<'a>(&'a self, tag: &'a str) -> impl Iterator<Item = &'a RefRule> {
        self.rules
            .iter()
            .filter(move |rule| matches_pattern(&rule.name, tag))
    }
}

#[cfg(test)]
mod tests {
    use storage::entities::ref_rules::Grantee;

    use super::*;
    use crate::code::rule_subject::tests::{granting, rule, subject};

    fn rules(role: Role) -> TagRules {
        let granted = granting(rule("v1*", &[]), RefAction::Create, Grantee::User(7));
        TagRules {
            subject: subject(Some(role)),
            is_maintainer: role >= Role::Maintainer,
            archived: false,
            rules: vec![rule("v*", &[(RefAction::Create, 40)]), granted, rule("none", &[])],
        }
    }

    #[test]
    fn protected_tag_requires_level_or_grant() {
        let (developer, maintainer) = (rules(Role::Developer), rules(Role::Maintainer));
        assert!(developer.is_protected("v2") && !developer.is_protected("w"));
        assert!(!developer.can_create("v2") && developer.can_create("v1.0") && developer.can_create("w"));
        assert!(maintainer.can_create("v2") && !maintainer.can_create("none"));
        assert!(!rules(Role::Reporter).can_create("w") && !rules(Role::Reporter).can_create("v1.0"));
    }

    #[test]
    fn deletion_of_protected_tag_requires_maintainer() {
        let developer = rules(Role::Developer);
        assert!(!developer.can_delete("v1.0") && developer.can_delete("w"));
        assert!(rules(Role::Maintainer).can_delete("none"));
        assert!(!rules(Role::Reporter).can_delete("w"));
        let archived = TagRules {
            archived: true,
            ..rules(Role::Owner)
        };
        assert!(!archived.can_create("w") && !archived.can_delete("w"));
    }
}
