//! What a caller may do with the images of a project (facts on the registry 1).

use serde::{Deserialize, Serialize};

use crate::policy::Role;
use crate::services::access::ProjectAccess;

/// Something that is done with images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Reading them.
    Pull,
    /// Adding them.
    Push,
    /// Removing tags.
    Delete,
    /// Removing manifests and blobs, whatever tags they have.
    Destroy,
}

/// Several of them, as tokens grant them.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Actions {
    /// Reading is one.
    pub pull: bool,
    /// Adding is one.
    pub push: bool,
    /// Removing is one, of whatever kind.
    pub delete: bool,
}

impl Actions {
    /// Reads the words of a scope; `*` is all of them, and others are none.
    #[must_use]
    pub fn named(words: &str) -> Self {
        let has = |wanted| words.split(',').any(|word| word == wanted || word == "*");
        Self {
            pull: has("pull"),
            push: has("push"),
            delete: has("delete"),
        }
    }

    /// Whether it is one of them.
    #[must_use]
    pub fn contain(self, action: Action) -> bool {
        match action {
            Action::Pull => self.pull,
            Action::Push => self.push,
            Action::Delete | Action::Destroy => self.delete,
        }
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }

    /// Those of them that the caller may do on a project.
    #[must_use]
    pub fn allowed(self, access: &ProjectAccess) -> Self {
        let may = |action| refusal(access, action).is_none();
        Self {
            pull: self.pull && may(Action::Pull),
            push: self.push && may(Action::Push),
            delete: self.delete && may(Action::Delete),
        }
    }

    /// Those of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            pull: self.pull || other.pull,
            push: self.push || other.push,
            delete: self.delete || other.delete,
        }
    }
}

/// Whether the caller, who sees the project, may pull its images, whatever their credentials cover of that. The rule for code is
/// the one for images.
#[must_use]
pub fn may_pull(access: &ProjectAccess) -> bool {
    let (level, visibility) = (
        access.project.container_registry_access_level,
        access.project.visibility,
    );
    access.standing().reads_code(level, visibility)
}

/// Why the caller, who sees the project, may not do something with its images; none when they may.
#[must_use]
pub fn refusal(access: &ProjectAccess, action: Action) -> Option<&'static str> {
    let (project, standing) = (&access.project, access.standing());
    let level = project.container_registry_access_level;
    let scopes: &[&str] = match action {
        Action::Pull => &["api", "read_registry", "write_registry"],
        Action::Push | Action::Delete | Action::Destroy => &["api", "write_registry"],
    };
    if !standing.has(level) {
        return Some("the container registry of this project is not available to you");
    }
    if !access.caller.covers(scopes) {
        return Some(
            "the token must have the scope api, or read_registry to pull and write_registry to push",
        );
    }
    if !may_pull(access) {
        return Some("you are not allowed to pull images of this project");
    }
    let least = match action {
        Action::Pull => return None,
        Action::Push | Action::Delete => Role::Developer,
        Action::Destroy => Role::Maintainer,
    };
    if !access.holds(least) {
        return Some(match action {
            Action::Push => "you are not allowed to push images to this project",
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
    fn words_of_a_scope_are_read_one_by_one() {
        let all = Actions {
            pull: true,
            push: true,
            delete: true,
        };
        assert_eq!(Actions::named("*"), all);
        assert_eq!(Actions::named("pull,push,delete"), all);
        assert_eq!(
            Actions::named("pull,metadata_read"),
            Actions {
                pull: true,
                ..Actions::default()
            }
        );
        for nothing in ["", ",", "PULL", "pull push", "pulls"] {
            assert!(Actions::named(nothing).is_empty(), "{nothing}");
        }
    }
}
