//! Roles and the rules that decide who may call an operation, without I/O and HTTP.

use storage::entities::projects::FeatureAccess;
pub use storage::entities::{AccessLevel as Role, Visibility};

/// Kind of resource that an operation requires access to (`x-access.on`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResourceKind {
    /// The instance.
    Instance,
    /// The user in the path.
    User,
    /// The group in the path.
    Group,
    /// The project in the path.
    Project,
    /// SCIM provisioning of the group in the path by its identity provider.
    Scim,
}

/// Minimum access of the caller (`x-access.min`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MinimumAccess {
    /// Any signed-in user who can see the resource.
    None,
    /// Guest.
    Guest,
    /// Reporter.
    Reporter,
    /// Developer.
    Developer,
    /// Maintainer.
    Maintainer,
    /// Owner; for a user, the user itself.
    Owner,
    /// Administrator.
    Admin,
}

impl MinimumAccess {
    /// Returns the required role; `None` if no role is required or no role is sufficient.
    #[must_use]
    pub fn role(self) -> Option<Role> {
        match self {
            Self::None | Self::Admin => None,
            Self::Guest => Some(Role::Guest),
            Self::Reporter => Some(Role::Reporter),
            Self::Developer => Some(Role::Developer),
            Self::Maintainer => Some(Role::Maintainer),
            Self::Owner => Some(Role::Owner),
        }
    }
}

/// Access rule of an operation (`x-access`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccessRule {
    /// The kind of resource.
    pub on: ResourceKind,
    /// The minimum access.
    pub min: MinimumAccess,
    /// Whether anyone may read public resources with the operation, and every signed-in user internal ones.
    pub anonymous: bool,
    /// Whether the operation may write to an archived project.
    pub archived: bool,
    /// Whether permission is checked before parameters.
    pub first: bool,
}

/// Access of a caller to a project or group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EffectiveAccess {
    /// Whether the caller is signed in.
    pub signed_in: bool,
    /// Whether the caller is an external user, who cannot see internal resources.
    pub external: bool,
    /// Whether the caller is an administrator, who may do everything.
    pub admin: bool,
    /// The effective role, if any.
    pub role: Option<Role>,
}

impl EffectiveAccess {
    /// Returns whether the caller can see a resource of this visibility without membership.
    #[must_use]
    pub fn is_open(self, visibility: Visibility) -> bool {
        match visibility {
            Visibility::Public => true,
            Visibility::Internal => self.signed_in && !self.external,
            Visibility::Private => false,
        }
    }

    /// Returns whether the caller can see a resource of this visibility.
    #[must_use]
    pub fn can_see(self, visibility: Visibility) -> bool {
        self.admin || self.role.is_some() || self.is_open(visibility)
    }

    /// Returns whether a caller who can see the resource may call an operation with this access rule.
    #[must_use]
    pub fn can_call(self, access: AccessRule, visibility: Visibility) -> bool {
        self.admin
            || match access.min {
                MinimumAccess::None => access.anonymous || self.signed_in,
                MinimumAccess::Admin => false,
                min => self.role >= min.role() || (access.anonymous && self.is_open(visibility)),
            }
    }

    /// Returns whether the caller has at least this role; administrators have every role.
    #[must_use]
    pub fn has_role(self, role: Role) -> bool {
        self.admin || self.role >= Some(role)
    }

    /// Returns whether the caller, who can see the project, has access to a feature.
    #[must_use]
    pub fn has_feature(self, feature: FeatureAccess) -> bool {
        match feature {
            FeatureAccess::Enabled => true,
            FeatureAccess::Private => self.has_role(Role::Guest),
            FeatureAccess::Disabled => false,
        }
    }

    /// Returns whether the caller may read the code of a project. Callers without membership may read it if
    /// the project's visibility permits; other members must be Reporters.
    #[must_use]
    pub fn can_read_code(self, repository: FeatureAccess, visibility: Visibility) -> bool {
        self.has_feature(repository) && (self.is_open(visibility) || self.has_role(Role::Reporter))
    }
}

/// Plan of the instance; ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum InstancePlan {
    /// Free.
    Free,
    /// Starter.
    Starter,
    /// Premium.
    Premium,
    /// Ultimate.
    Ultimate,
}

impl std::str::FromStr for InstancePlan {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.to_ascii_lowercase().as_str() {
            "free" => Ok(Self::Free),
            "starter" => Ok(Self::Starter),
            "premium" => Ok(Self::Premium),
            "ultimate" => Ok(Self::Ultimate),
            _ => Err(format!(
                "unknown plan `{text}`: expected free, starter, premium or ultimate"
            )),
        }
    }
}

/// Scopes of tokens.
pub const TOKEN_SCOPES: [&str; 8] = [
    "api",
    "read_api",
    "read_user",
    "read_repository",
    "write_repository",
    "read_registry",
    "write_registry",
    "sudo",
];

#[cfg(test)]
mod tests {
    use super::*;

    const READ: AccessRule = AccessRule {
        on: ResourceKind::Project,
        min: MinimumAccess::Reporter,
        anonymous: true,
        archived: false,
        first: false,
    };
    const WRITE: AccessRule = AccessRule {
        on: ResourceKind::Project,
        min: MinimumAccess::Developer,
        anonymous: false,
        archived: false,
        first: false,
    };
    const ANONYMOUS: EffectiveAccess = EffectiveAccess {
        signed_in: false,
        external: false,
        admin: false,
        role: None,
    };
    const STRANGER: EffectiveAccess = EffectiveAccess {
        signed_in: true,
        ..ANONYMOUS
    };

    #[test]
    fn read_requires_role_only_on_private_resources() {
        let guest = EffectiveAccess {
            role: Some(Role::Guest),
            ..STRANGER
        };
        assert!(ANONYMOUS.can_call(READ, Visibility::Public));
        assert!(!ANONYMOUS.can_call(READ, Visibility::Internal));
        assert!(STRANGER.can_call(READ, Visibility::Internal));
        assert!(guest.can_call(READ, Visibility::Public));
        assert!(!guest.can_call(READ, Visibility::Private));
        assert!(
            EffectiveAccess {
                role: Some(Role::Reporter),
                ..STRANGER
            }
            .can_call(READ, Visibility::Private)
        );
    }

    #[test]
    fn write_requires_role_at_any_visibility() {
        assert!(!STRANGER.can_call(WRITE, Visibility::Public));
        assert!(
            !EffectiveAccess {
                role: Some(Role::Reporter),
                ..STRANGER
            }
            .can_call(WRITE, Visibility::Public)
        );
        assert!(
            EffectiveAccess {
                role: Some(Role::Developer),
                ..STRANGER
            }
            .can_call(WRITE, Visibility::Private)
        );
    }

    #[test]
    fn external_user_sees_internal_resources_only_as_member() {
        let external = EffectiveAccess {
            external: true,
            ..STRANGER
        };
        assert!(!external.can_see(Visibility::Internal));
        assert!(external.can_see(Visibility::Public));
        assert!(
            EffectiveAccess {
                role: Some(Role::Guest),
                ..external
            }
            .can_see(Visibility::Internal)
        );
    }

    #[test]
    fn code_access_depends_on_feature_visibility_and_role() {
        use FeatureAccess::{Disabled, Enabled, Private as MembersOnly};
        let with = |role| EffectiveAccess {
            role: Some(role),
            ..STRANGER
        };
        let (guest, reporter) = (with(Role::Guest), with(Role::Reporter));
        for (effective_access, repository, visibility, reads) in [
            (ANONYMOUS, Enabled, Visibility::Public, true),
            (ANONYMOUS, Enabled, Visibility::Internal, false),
            (STRANGER, Enabled, Visibility::Internal, true),
            (STRANGER, MembersOnly, Visibility::Public, false),
            (guest, MembersOnly, Visibility::Public, true),
            (guest, Enabled, Visibility::Private, false),
            (guest, MembersOnly, Visibility::Private, false),
            (reporter, MembersOnly, Visibility::Private, true),
            (reporter, Disabled, Visibility::Public, false),
        ] {
            let found = effective_access.can_read_code(repository, visibility);
            assert_eq!(found, reads, "{effective_access:?} {repository:?} {visibility:?}");
        }
        let admin = EffectiveAccess {
            admin: true,
            ..STRANGER
        };
        assert!(admin.can_read_code(MembersOnly, Visibility::Private));
        assert!(!admin.can_read_code(Disabled, Visibility::Public));
    }

    #[test]
    fn administrator_has_full_access() {
        let admin = EffectiveAccess {
            admin: true,
            ..STRANGER
        };
        let min_admin = AccessRule {
            min: MinimumAccess::Admin,
            ..WRITE
        };
        assert!(admin.can_see(Visibility::Private) && admin.can_call(WRITE, Visibility::Private));
        assert!(admin.can_call(min_admin, Visibility::Private));
        assert!(
            !EffectiveAccess {
                role: Some(Role::Owner),
                ..STRANGER
            }
            .can_call(min_admin, Visibility::Public)
        );
    }
}
