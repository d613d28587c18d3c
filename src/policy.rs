//! Roles and the rule that decides who may call an operation. Pure: no I/O, no HTTP.

use storage::entities::projects::FeatureAccess;
pub use storage::entities::{AccessLevel as Role, Visibility};

/// What an operation works on (`x-access.on`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum On {
    /// The whole server.
    Instance,
    /// The user that the path names.
    User,
    /// The group that the path names.
    Group,
    /// The project that the path names.
    Project,
    /// The provisioning of the group that the path names, by its identity provider.
    Scim,
}

/// The least a caller must be (`x-access.min`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Minimum {
    /// Any signed-in user who can see the thing.
    None,
    /// A member.
    Guest,
    /// Reporter.
    Reporter,
    /// Developer.
    Developer,
    /// Maintainer.
    Maintainer,
    /// Owner; of a user, the user.
    Owner,
    /// An administrator of the server.
    Admin,
}

impl Minimum {
    /// The least role that satisfies it; `None` where no role is asked for or no role is enough.
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

/// Who may call an operation (`x-access`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// What it works on.
    pub on: On,
    /// The least role.
    pub min: Minimum,
    /// A read open to everyone on public things, and to every signed-in user on internal ones.
    pub anonymous: bool,
    /// A write that an archived project takes.
    pub archived: bool,
    /// Permission is answered before parameter faults.
    pub first: bool,
}

/// What a caller is to a project or group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// Somebody is signed in.
    pub signed_in: bool,
    /// An external user, to whom internal things are private.
    pub external: bool,
    /// An administrator, who may do everything.
    pub admin: bool,
    /// The effective role, when there is one.
    pub role: Option<Role>,
}

impl Standing {
    /// Whether everybody of the caller's kind may see a thing so exposed, member or not.
    #[must_use]
    pub fn is_open(self, visibility: Visibility) -> bool {
        match visibility {
            Visibility::Public => true,
            Visibility::Internal => self.signed_in && !self.external,
            Visibility::Private => false,
        }
    }

    /// Whether the caller may know that a thing so exposed exists.
    #[must_use]
    pub fn sees(self, visibility: Visibility) -> bool {
        self.admin || self.role.is_some() || self.is_open(visibility)
    }

    /// Whether the caller, who sees the thing, may call an operation with this access.
    #[must_use]
    pub fn may(self, access: Access, visibility: Visibility) -> bool {
        self.admin
            || match access.min {
                Minimum::None => access.anonymous || self.signed_in,
                Minimum::Admin => false,
                min => self.role >= min.role() || (access.anonymous && self.is_open(visibility)),
            }
    }

    /// Whether the caller holds at least this role; administrators hold every role.
    #[must_use]
    pub fn holds(self, role: Role) -> bool {
        self.admin || self.role >= Some(role)
    }

    /// Whether a feature so set is there for the caller, who sees the project.
    #[must_use]
    pub fn has(self, feature: FeatureAccess) -> bool {
        match feature {
            FeatureAccess::Enabled => true,
            FeatureAccess::Private => self.holds(Role::Guest),
            FeatureAccess::Disabled => false,
        }
    }

    /// Whether the caller may read the code of a project so exposed whose repository is so set: everybody where the
    /// project is open to them, else Reporters.
    #[must_use]
    pub fn reads_code(self, repository: FeatureAccess, visibility: Visibility) -> bool {
        self.has(repository) && (self.is_open(visibility) || self.holds(Role::Reporter))
    }
}

/// A plan of the server, ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// The basic edition.
    Free,
    /// Starter.
    Starter,
    /// Premium.
    Premium,
    /// Everything.
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

/// The scopes a token may have (specification 5, facts on tokens).
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
