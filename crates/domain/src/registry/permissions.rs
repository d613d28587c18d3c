//! Permissions of callers on the images of a project.

use serde::{Deserialize, Serialize};

use crate::identity::access::ProjectAccess;
use crate::kernel::policy::Role;

/// An operation on images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegistryAction {
    /// Read images.
    Pull,
    /// Add images.
    Push,
    /// Delete tags.
    Delete,
    /// Delete manifests and blobs, including their tags.
    Destroy,
}

/// A set of operations, as granted by tokens.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegistryActions {
    /// Whether it contains reading.
    pub pull: bool,
    /// Whether it contains adding.
    pub push: bool,
    /// Whether it contains deletion of any kind.
    pub delete: bool,
}

impl RegistryActions {
    /// Parses the actions of a scope; `*` means all, and unknown ones are ignored.
    #[must_use]
    pub fn parse(words: &str) -> Self {
        let has = |action_name| words.split(',').any(|word| word == action_name || word == "*");
        Self {
            pull: has("pull"),
            push: has("push"),
            delete: has("delete"),
        }
    }

    /// Returns whether the set contains an operation.
    #[must_use]
    pub fn contains(self, action: RegistryAction) -> bool {
        match action {
            RegistryAction::Pull => self.pull,
            RegistryAction::Push => self.push,
            RegistryAction::Delete | RegistryAction::Destroy => self.delete,
        }
    }

    /// Returns whether the set is empty.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }

    /// Returns the operations of the set that the caller may do on a project.
    #[must_use]
    pub fn allowed(self, access: &ProjectAccess) -> Self {
        let may = |action| denial_reason(access, action).is_none();
        Self {
            pull: self.pull && may(RegistryAction::Pull),
            push: self.push && may(RegistryAction::Push),
            delete: self.delete && may(RegistryAction::Delete),
        }
    }

    /// Returns the operations of both sets together.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self {
            pull: self.pull || other.pull,
            push: self.push || other.push,
            delete: self.delete || other.delete,
        }
    }
}

/// Returns whether the caller, who can see the project, may pull its images, regardless of the scopes of
/// their credentials. The rule is that of the code.
#[must_use]
pub fn can_pull(access: &ProjectAccess) -> bool {
    let (level, visibility) = (
        access.project.container_registry_access_level,
        access.project.visibility,
    );
    access.effective_access().can_read_code(level, visibility)
}

/// Returns why the caller, who can see the project, may not do an operation on its images, or `None` if they
/// may.
#[must_use]
pub fn denial_reason(access: &ProjectAccess, action: RegistryAction) -> Option<&'static str> {
    let (project, effective_access) = (&access.project, access.effective_access());
    let level = project.container_registry_access_level;
    let scopes: &[&str] = match action {
        RegistryAction::Pull => &["api", "read_registry", "write_registry"],
        RegistryAction::Push | RegistryAction::Delete | RegistryAction::Destroy => &["api", "write_registry"],
    };
    if !effective_access.has_feature(level) {
        return Some("the container registry of this project is not available to you");
    }
    if !access.caller.covers(scopes) {
        return Some(
            "the token must have the scope api, or read_registry to pull and write_registry to push",
        );
    }
    if !can_pull(access) {
        return Some("you are not allowed to pull images of this project");
    }
    let least = match action {
        RegistryAction::Pull => return None,
        // A deploy token has the access of a Reporter, and its scopes decide about pushes.
        RegistryAction::Push if access.caller.deploy_token().is_some() => Role::Reporter,
        RegistryAction::Push | RegistryAction::Delete => Role::Developer,
        RegistryAction::Destroy => Role::Maintainer,
    };
    if access
        .caller
        .job_project()
        .is_some_and(|of_job| of_job != project.id)
    {
        return Some("a job of another project can only pull images");
    }
    if !access.has_role(least) {
        return Some(match action {
            RegistryAction::Push => "you are not allowed to push images to this project",
            _ => "you are not allowed to delete these images",
        });
    }
    project
        .archived
        .then_some("the project is archived and therefore read-only")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn union_contains_operations_of_both_sets() {
        let (pull, push) = (RegistryActions::parse("pull"), RegistryActions::parse("push"));
        assert_eq!(pull.union(push), RegistryActions::parse("pull,push"));
        assert_eq!(pull.union(RegistryActions::default()), pull);
    }

    #[test]
    fn scope_actions_ignore_unknown_words() {
        let all = RegistryActions {
            pull: true,
            push: true,
            delete: true,
        };
        assert_eq!(RegistryActions::parse("*"), all);
        assert_eq!(RegistryActions::parse("pull,push,delete"), all);
        assert_eq!(
            RegistryActions::parse("pull,metadata_read"),
            RegistryActions {
                pull: true,
                ..RegistryActions::default()
            }
        );
        for nothing in ["", ",", "PULL", "pull push", "pulls"] {
            assert!(RegistryActions::parse(nothing).is_empty(), "{nothing}");
        }
    }
}
