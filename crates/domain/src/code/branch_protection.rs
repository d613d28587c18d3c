//! Branch protection: which callers may push to which branches, by their role and the protected branches.
//!
//! The same rules apply to commits through the API and to `git push`. A branch is protected by every row
//! whose name or pattern matches (`*` matches any text, including slashes). The most permissive row decides.

use storage::entities::protected_branches::{self, BranchProtection};

use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::Result;
use crate::kernel::patterns::matches_pattern;
use crate::kernel::policy::Role;

/// Push access level of instance administrators.
const ADMIN_LEVEL: i32 = 60;

/// Permissions of a caller on the branches of a project.
#[derive(Debug, Clone)]
pub struct BranchRules {
    admin: bool,
    role: Option<Role>,
    archived: bool,
    default_branch: Option<String>,
    protected: Vec<BranchProtection>,
}

/// Loads the rules for a caller in one statement.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn branch_rules(backend: &Backend, access: &ProjectAccess) -> Result<BranchRules> {
    let protected = protected_branches::of_project(backend.database.read(), access.project.id).await?;
    Ok(BranchRules::new(access, protected))
}

impl BranchRules {
    /// Creates the rules for a caller and these protected branches.
    #[must_use]
    pub fn new(
        access: &ProjectAccess,
        protected: impl IntoIterator<Item = impl Into<BranchProtection>>,
    ) -> Self {
        Self {
            admin: access.caller.is_admin(),
            role: access.role,
            archived: access.project.archived,
            default_branch: access.project.default_branch.clone(),
            protected: protected.into_iter().map(Into::into).collect(),
        }
    }

    /// Returns the protected branches of the project.
    #[must_use]
    pub fn protected(&self) -> &[BranchProtection] {
        &self.protected
    }

    /// Returns whether the branch is protected.
    #[must_use]
    pub fn is_protected(&self, branch: &str) -> bool {
        self.matching(branch).next().is_some()
    }

    /// Returns whether the caller may push commits to the branch or create it. An unprotected branch requires
    /// a Developer, a protected one the level of its protection. Archived projects accept no pushes.
    #[must_use]
    pub fn can_push(&self, branch: &str) -> bool {
        self.has_level_for(branch, |row| row.push_access_level)
    }

    /// Returns whether the caller may merge into the branch. An unprotected branch requires a Developer, a
    /// protected one the merge or push level of its protection. Archived projects accept no merges.
    #[must_use]
    pub fn can_merge(&self, branch: &str) -> bool {
        self.has_level_for(branch, |row| row.merge_access_level) || self.can_push(branch)
    }

    fn has_level_for(&self, branch: &str, level: impl Fn(&BranchProtection) -> i32) -> bool {
        if self.archived {
            return false;
        }
        let mut levels = self.matching(branch).map(level).peekable();
        if levels.peek().is_none() {
            return self.has_level(Role::Developer.into());
        }
        levels.any(|level| level > 0 && self.has_level(level))
    }

    /// Returns whether the caller may force-push to the branch: never if it is protected.
    #[must_use]
    pub fn can_force_push(&self, branch: &str) -> bool {
        !self.is_protected(branch) && self.can_push(branch)
    }

    /// Returns whether the caller may delete the branch by a push: never a protected or the default branch.
    #[must_use]
    pub fn can_delete(&self, branch: &str) -> bool {
        self.default_branch.as_deref() != Some(branch) && self.can_force_push(branch)
    }

    fn has_level(&self, level: i32) -> bool {
        self.admin || (level < ADMIN_LEVEL && self.role.is_some_and(|role| i32::from(role) >= level))
    }

    fn matching<'a>(&'a self, branch: &'a str) -> impl Iterator<Item = &'a BranchProtection> {
        self.protected
            .iter()
            .filter(move |row| matches_pattern(&row.name, branch))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn protection(name: &str, level: i32) -> BranchProtection {
        BranchProtection {
            name: name.to_owned(),
            push_access_level: level,
            merge_access_level: level,
        }
    }

    fn rules(role: Option<Role>, protected: Vec<BranchProtection>) -> BranchRules {
        BranchRules {
            admin: false,
            role,
            archived: false,
            default_branch: Some("main".to_owned()),
            protected,
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
            admin: true,
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
        let row = BranchProtection {
            merge_access_level: 30,
            ..protection("main", 40)
        };
        let developer = rules(Some(Role::Developer), vec![row.clone()]);
        assert!(developer.can_merge("main") && !developer.can_push("main"));
        assert!(!rules(Some(Role::Reporter), vec![row]).can_merge("main"));
        let no_access = rules(Some(Role::Owner), vec![protection("main", 0)]);
        assert!(!no_access.can_merge("main"));
        assert!(rules(Some(Role::Developer), vec![]).can_merge("topic"));
    }

    #[test]
    fn most_permissive_protection_applies() {
        let both = vec![protection("release/*", 40), protection("release/1", 30)];
        assert!(rules(Some(Role::Developer), both.clone()).can_push("release/1"));
        assert!(!rules(Some(Role::Developer), both).can_push("release/2"));
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
