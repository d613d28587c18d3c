//! Roles and the rules that decide who may call an operation, without I/O and HTTP.

use storage::entities::projects::FeatureAccess;
pub use storage::entities::{AccessLevel as Role, Visibility};

/// Kind of resource that an operation requires access to (`x-access.on`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum On {
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
pub enum Minimum {
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

impl Minimum {
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
pub struct Access {
    /// The kind of resource.
    pub on: On,
    /// The minimum access.
    pub min: Minimum,
    /// Whether anyone may read public resources with the operation, and every signed-in user internal ones.
    pub anonymous: bool,
    /// Whether the operation may write to an archived project.
    pub archived: bool,
    /// Whether permission is checked before parameters.
    pub first: bool,
}

/// Access of a caller to a project or group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// Whether the caller is signed in.
    pub signed_in: bool,
    /// Whether the caller is an external user, who cannot see internal resources.
    pub external: bool,
    /// Whether the caller is an administrator, who may do everything.
    pub admin: bool,
    /// The effective role, if any.
    pub role: Option<Role>,
}

impl Standing {
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
    pub fn sees(self, visibility: Visibility) -> bool {
        self.admin || self.role.is_some() || self.is_open(visibility)
    }

    /// Returns whether a caller who can see the resource may call an operation with this access rule.
    #[must_use]
    pub fn may(self, access: Access, visibility: Visibility) -> bool {
        self.admin
            || match access.min {
                Minimum::None => access.anonymous || self.signed_in,
                Minimum::Admin => false,
                min => self.role >= min.role() || (access.anonymous && self.is_open(visibility)),
            }
    }

    /// Returns whether the caller has at least this role; administrators have every role.
    #[must_use]
    pub fn holds(self, role: Role) -> bool {
        self.admin || self.role >= Some(role)
    }

    /// Returns whether the caller, who can see the project, has access to a feature.
    #[must_use]
    pub fn has(self, feature: FeatureAccess) -> bool {
        match feature {
            FeatureAccess::Enabled => true,
            FeatureAccess::Private => self.holds(Role::Guest),
            FeatureAccess::Disabled => false,
        }
    }

    /// Returns whether the caller may read the code of a project. Callers without membership may read it if
    /// the project's visibility permits; other members must be Reporters.
    #[must_use]
    pub fn reads_code(self, repository: FeatureAccess, visibility: Visibility) -> bool {
        self.has(repository) && (self.is_open(visibility) || self.holds(Role::Reporter))
    }
}

/// Plan of the instance; ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// Free.
    Free,
    /// Starter.
    Starter,
    /// Premium.
    Premium,
    /// Ultimate.
    Ultimate,
}

impl std::str::FromStr for Tier {
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
pub const SCOPES: [&str; 8] = [
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

    const READ: Access = Access {
        on: On::Project,
        min: Minimum::Reporter,
        anonymous: true,
        archived: false,
        first: false,
    };
    const WRITE: Access = Access {
        on: On::Project,
        min: Minimum::Developer,
        anonymous: false,
        archived: false,
        first: false,
    };
    const NOBODY: Standing = Standing {
        signed_in: false,
        external: false,
        admin: false,
        role: None,
    };
    const STRANGER: Standing = Standing {
        signed_in: true,
        ..NOBODY
    };

    #[test]
    fn open_reads_ask_for_a_role_only_on_private_things() {
        let guest = Standing {
            role: Some(Role::Guest),
            ..STRANGER
        };
        assert!(NOBODY.may(READ, Visibility::Public));
        assert!(!NOBODY.may(READ, Visibility::Internal));
        assert!(STRANGER.may(READ, Visibility::Internal));
        assert!(guest.may(READ, Visibility::Public));
        assert!(!guest.may(READ, Visibility::Private));
        assert!(
            Standing {
                role: Some(Role::Reporter),
                ..STRANGER
            }
            .may(READ, Visibility::Private)
        );
    }

    #[test]
    fn writes_ask_for_the_role_everywhere() {
        assert!(!STRANGER.may(WRITE, Visibility::Public));
        assert!(
            !Standing {
                role: Some(Role::Reporter),
                ..STRANGER
            }
            .may(WRITE, Visibility::Public)
        );
        assert!(
            Standing {
                role: Some(Role::Developer),
                ..STRANGER
            }
            .may(WRITE, Visibility::Private)
        );
    }

    #[test]
    fn external_users_see_internal_things_only_as_members() {
        let external = Standing {
            external: true,
            ..STRANGER
        };
        assert!(!external.sees(Visibility::Internal));
        assert!(external.sees(Visibility::Public));
        assert!(
            Standing {
                role: Some(Role::Guest),
                ..external
            }
            .sees(Visibility::Internal)
        );
    }

    #[test]
    fn code_is_read_where_the_project_is_open_or_by_reporters_unless_it_is_off() {
        use FeatureAccess::{Disabled, Enabled, Private as MembersOnly};
        let with = |role| Standing {
            role: Some(role),
            ..STRANGER
        };
        let (guest, reporter) = (with(Role::Guest), with(Role::Reporter));
        for (standing, repository, visibility, reads) in [
            (NOBODY, Enabled, Visibility::Public, true),
            (NOBODY, Enabled, Visibility::Internal, false),
            (STRANGER, Enabled, Visibility::Internal, true),
            (STRANGER, MembersOnly, Visibility::Public, false),
            (guest, MembersOnly, Visibility::Public, true),
            (guest, Enabled, Visibility::Private, false),
            (guest, MembersOnly, Visibility::Private, false),
            (reporter, MembersOnly, Visibility::Private, true),
            (reporter, Disabled, Visibility::Public, false),
        ] {
            let found = standing.reads_code(repository, visibility);
            assert_eq!(found, reads, "{standing:?} {repository:?} {visibility:?}");
        }
        let admin = Standing {
            admin: true,
            ..STRANGER
        };
        assert!(admin.reads_code(MembersOnly, Visibility::Private));
        assert!(!admin.reads_code(Disabled, Visibility::Public));
    }

    #[test]
    fn admins_may_do_everything() {
        let admin = Standing {
            admin: true,
            ..STRANGER
        };
        let min_admin = Access {
            min: Minimum::Admin,
            ..WRITE
        };
        assert!(admin.sees(Visibility::Private) && admin.may(WRITE, Visibility::Private));
        assert!(admin.may(min_admin, Visibility::Private));
        assert!(
            !Standing {
                role: Some(Role::Owner),
                ..STRANGER
            }
            .may(min_admin, Visibility::Public)
        );
    }
}
