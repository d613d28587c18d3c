//! Branch protection: which callers may push to which branches, by their role and the protected branches.
//!
//! The same rules apply to commits through the API and to `git push`. A branch is protected by every rule of the project
//! and of the groups above it whose name or pattern matches (`*` matches any text, including slashes). The most permissive
//! rule decides.

use sea_orm::ConnectionTrait;
use storage::entities::projects;
use storage::entities::protected_ref_grants::RefAction;
use storage::entities::ref_rules::{self, GrantFilter, RefRule, RefRuleOwner, RefRuleParts};
use storage::entities::related_rows::RelatedRows;

use crate::code::rule_subject::RuleSubject;
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::Result;
use crate::kernel::patterns::matches_pattern;
use crate::kernel::policy::Role;

/// Permissions of a caller on the branches of a project.
#[derive(Debug, Clone)]
pub struct BranchRules {
    subject: RuleSubject,
    archived: bool,
    default_branch: Option<String>,
    rules: Vec<RefRule>,
}

/// Loads the rules for a caller in one statement, and in one more if a rule names a group.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn branch_rules(backend: &Backend, access: &ProjectAccess) -> Result<BranchRules> {
    let db = backend.database.read();
    let rules = ref_rules::load(db, rule_owner(&access.project), grant_filter(access)).await?;
    BranchRules::load(db, access, rules).await
}

/// Returns the rules for the branches of a project, without grants.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn rules_of(db: &impl ConnectionTrait, project: &projects::Model) -> Result<Vec<RefRule>> {
    Ok(ref_rules::load(db, rule_owner(project), GrantFilter::Of(None)).await?)
}

/// Returns whether a branch is protected by one of these rules.
#[must_use]
pub fn is_protected(rules: &[RefRule], branch: &str) -> bool {
    rules.iter().any(|rule| matches_pattern(&rule.name, branch))
}

/// The protection of a branch, as far as merge requests depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TargetProtection {
    /// Whether the branch is protected.
    pub is_protected: bool,
    /// Whether changes of files with code owners require their approval.
    pub requires_code_owners: bool,
}

impl TargetProtection {
    /// Returns the protection of a branch by these rules. One rule is enough to require code owners.
    #[must_use]
    pub fn of(rules: &[RefRule], branch: &str) -> Self {
        let mut matching = rules.iter().filter(|rule| matches_pattern(&rule.name, branch));
        Self {
            is_protected: is_protected(rules, branch),
            requires_code_owners: matching.any(|rule| rule.code_owner_approval_required),
        }
    }
}

/// Adds the rules of a project for a caller to a statement, for [`BranchRules::load`].
pub fn add_rules(related: &mut RelatedRows, access: &ProjectAccess) -> RefRuleParts {
    RefRuleParts::add(related, rule_owner(&access.project), grant_filter(access))
}

fn rule_owner(project: &projects::Model) -> RefRuleOwner {
    RefRuleOwner::ProjectBranches {
        project_id: project.id,
        namespace_id: project.namespace_id,
    }
}

fn grant_filter(access: &ProjectAccess) -> GrantFilter {
    GrantFilter::Of(access.caller.as_user().map(|user| user.id))
}

impl BranchRules {
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
            archived: access.project.archived,
            default_branch: access.project.default_branch.clone(),
            rules,
        })
    }

    /// Returns whether the branch is protected.
    #[must_use]
    pub fn is_protected(&self, branch: &str) -> bool {
        is_protected(&self.rules, branch)
    }

    /// Returns the protection of the branch.
    #[must_use]
    pub fn protection(&self, branch: &str) -> TargetProtection {
        TargetProtection::of(&self.rules, branch)
    }

    /// Returns whether the branch is protected, and a rule sets the Developer role for the action.
    #[must_use]
    pub fn requires_developer(&self, branch: &str, action: RefAction) -> bool {
        self.matching(branch)
            .any(|rule| rule.level(action) == Some(Role::Developer.into()))
    }

    /// Returns whether the caller may push commits to the branch or create it. An unprotected branch requires
    /// a Developer, a protected one the role or a grant of its protection. Archived projects accept no pushes.
    #[must_use]
    pub fn can_push(&self, branch: &str) -> bool {
        self.is_allowed(branch, RefAction::Push)
    }

    /// Returns whether the caller may merge into the branch. An unprotected branch requires a Developer, a
    /// protected one the permission of its protection to merge or push. Archived projects accept no merges.
    #[must_use]
    pub fn can_merge(&self, branch: &str) -> bool {
        self.is_allowed(branch, RefAction::Merge) || self.can_push(branch)
    }

    fn is_allowed(&self, branch: &str, action: RefAction) -> bool {
        if self.archived {
            return false;
        }
        let mut matching = self.matching(branch).peekable();
        match matching.peek() {
            None => self.subject.is_developer(),
            Some(_) => matching.any(|rule| self.subject.is_allowed(rule, action)),
        }
    }

    /// Returns whether the caller may force-push to the branch. The protection of a branch must allow force pushes.
    #[must_use]
    pub fn can_force_push(&self, branch: &str) -> bool {
        self.can_push(branch) && self.allows_force_push(branch)
    }

    fn allows_force_push(&self, branch: &str) -> bool {
        let mut matching = self.matching(branch).peekable();
        match matching.peek() {
            None => true,
            Some(_) => matching.any(|rule| rule.allow_force_push),
        }
    }

    /// Returns whether the caller may delete the branch: never a protected or the default branch.
    #[must_use]
    pub fn can_delete(&self, branch: &str) -> bool {
        self.default_branch.as_deref() != Some(branch) && !self.is_protected(branch) && self.can_push(branch)
    }

    fn matching<'a>(&'a self, branch: &'a str) -> impl Iterator<Item = &'a RefRule> {
        self.rules
            .iter()
            .filter(move |rule| matches_pattern(&rule.name, branch))
    }
}

#[cfg(test)]
mod tests {
    use storage::entities::ref_rules::Grantee;

    use super::*;
    use crate::code::rule_subject::tests::{admin, granting, rule, subject};

    fn protection(name: &str, level: i32) -> RefRule {
        let levels = [(RefAction::Push, level), (RefAction::Merge, level)];
        rule(name, if level > 0 { &levels } else { &[] })
    }

    fn rules(role: Option<Role>, rules: Vec<RefRule>) -> BranchRules {
        BranchRules {
            subject: subject(role),
            archived: false,
            default_branch: Some("main".to_owned()),
            rules,
        }
    }

    #[test]
    fn unprotected_branch_accepts_push_of_developer() {
        assert!(rules(Some(Role::Developer), vec![]).can_push("x"));
        assert!(!rules(Some(Role::Reporter), vec![]).can_push("x"));
        assert!(!rules(None, vec![]).can_push("x"));
    }

    #[test]
    fn protected_branch_requires_level_and_rejects_force_push_and_deletion() {
        let protected = || {
            vec![
                protection("main", 40),
                protection("none", 0),
                protection("adm*", 60),
            ]
        };
        let developer = rules(Some(Role::Developer), protected());
        let maintainer = rules(Some(Role::Maintainer), protected());
        let admin = BranchRules {
            subject: admin(),
            ..rules(None, protected())
        };
        assert!(!developer.can_push("main") && maintainer.can_push("main") && admin.can_push("main"));
        assert!(!maintainer.can_push("none") && !admin.can_push("none"));
        assert!(!maintainer.can_push("admins") && admin.can_push("admins"));
        assert!(!admin.can_force_push("main") && !admin.can_delete("main"));
        assert!(developer.can_force_push("topic") && developer.can_delete("topic"));
    }

    #[test]
    fn protection_can_allow_merge_without_push() {
        let row = rule("main", &[(RefAction::Push, 40), (RefAction::Merge, 30)]);
        let developer = rules(Some(Role::Developer), vec![row.clone()]);
        assert!(developer.can_merge("main") && !developer.can_push("main"));
        assert!(!rules(Some(Role::Reporter), vec![row]).can_merge("main"));
        let no_access = rules(Some(Role::Owner), vec![protection("main", 0)]);
        assert!(!no_access.can_merge("main"));
        assert!(rules(Some(Role::Developer), vec![]).can_merge("topic"));
    }

    #[test]
    fn most_permissive_protection_applies() {
        let forced = RefRule {
            allow_force_push: true,
            ..protection("rel*", 0)
        };
        let both = vec![protection("release/*", 40), protection("release/1", 30), forced];
        let developer = rules(Some(Role::Developer), both.clone());
        assert!(developer.can_push("release/1") && developer.can_force_push("release/1"));
        assert!(!developer.can_push("release/2") && !developer.can_force_push("release/2"));
        assert!(!developer.can_delete("release/1"));
        let granted = granting(protection("release/2", 0), RefAction::Push, Grantee::User(7));
        let developer = rules(Some(Role::Developer), [both, vec![granted]].concat());
        assert!(developer.can_push("release/2") && !developer.can_push("release/3"));
        assert!(developer.can_merge("release/2") && !developer.can_merge("release/3"));
    }

    #[test]
    fn one_rule_is_enough_to_require_code_owners() {
        let strict = RefRule {
            code_owner_approval_required: true,
            ..protection("rel*", 40)
        };
        let rules = rules(
            None,
            vec![protection("release", 30), strict, protection("main", 40)],
        );
        assert!(rules.protection("release").requires_code_owners);
        let main = rules.protection("main");
        assert!(main.is_protected && !main.requires_code_owners);
        assert!(!rules.protection("topic").is_protected);
    }

    #[test]
    fn default_branch_cannot_be_deleted() {
        assert!(!rules(Some(Role::Owner), vec![]).can_delete("main"));
    }

    #[test]
    fn archived_project_rejects_push() {
        let archived = BranchRules {
            archived: true,
            ..rules(Some(Role::Owner), vec![])
        };
        assert!(!archived.can_push("x") && !archived.can_force_push("x") && !archived.can_delete("x"));
    }
}
