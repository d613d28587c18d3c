//! Roles and the rule that decides who may call an operation. Pure: no I/O, no HTTP.

use std::fmt;

/// A member's role, ordered (specification 2.0).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// 10.
    Guest,
    /// 20.
    Reporter,
    /// 30.
    Developer,
    /// 40.
    Maintainer,
    /// 50; of groups, and of whatever a user holds personally.
    Owner,
}

impl Role {
    /// All roles, lowest first.
    pub const ALL: [Self; 5] = [Self::Guest, Self::Reporter, Self::Developer, Self::Maintainer, Self::Owner];

    /// The role's number on the wire and in the database.
    #[must_use]
    pub fn level(self) -> i64 {
        match self {
            Self::Guest => 10,
            Self::Reporter => 20,
            Self::Developer => 30,
            Self::Maintainer => 40,
            Self::Owner => 50,
        }
    }

    /// The role of a number, when it is one.
    #[must_use]
    pub fn from_level(level: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.level() == level)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Guest => "Guest",
            Self::Reporter => "Reporter",
            Self::Developer => "Developer",
            Self::Maintainer => "Maintainer",
            Self::Owner => "Owner",
        })
    }
}

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

/// A project's or group's visibility (specification 2.0), the most hidden first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exposure {
    /// Members only.
    Private,
    /// Every signed-in user who is not external.
    Internal,
    /// Everybody.
    Public,
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
    pub fn is_open(self, exposure: Exposure) -> bool {
        match exposure {
            Exposure::Public => true,
            Exposure::Internal => self.signed_in && !self.external,
            Exposure::Private => false,
        }
    }

    /// Whether the caller may know that a thing so exposed exists.
    #[must_use]
    pub fn sees(self, exposure: Exposure) -> bool {
        self.admin || self.role.is_some() || self.is_open(exposure)
    }

    /// Whether the caller, who sees the thing, may call an operation with this access.
    #[must_use]
    pub fn may(self, access: Access, exposure: Exposure) -> bool {
        self.admin
            || match access.min {
                Minimum::None => access.anonymous || self.signed_in,
                Minimum::Admin => false,
                min => self.role >= min.role() || (access.anonymous && self.is_open(exposure)),
            }
    }

    /// Whether the caller holds at least this role; administrators hold every role.
    #[must_use]
    pub fn holds(self, role: Role) -> bool {
        self.admin || self.role >= Some(role)
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
            _ => Err(format!("`{text}` is no plan; use free, starter, premium or ultimate")),
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

    const READ: Access =
        Access { on: On::Project, min: Minimum::Reporter, anonymous: true, archived: false, first: false };
    const WRITE: Access =
        Access { on: On::Project, min: Minimum::Developer, anonymous: false, archived: false, first: false };
    const NOBODY: Standing = Standing { signed_in: false, external: false, admin: false, role: None };
    const STRANGER: Standing = Standing { signed_in: true, ..NOBODY };

    #[test]
    fn open_reads_ask_for_a_role_only_on_private_things() {
        let guest = Standing { role: Some(Role::Guest), ..STRANGER };
        assert!(NOBODY.may(READ, Exposure::Public));
        assert!(!NOBODY.may(READ, Exposure::Internal));
        assert!(STRANGER.may(READ, Exposure::Internal));
        assert!(guest.may(READ, Exposure::Public));
        assert!(!guest.may(READ, Exposure::Private));
        assert!(Standing { role: Some(Role::Reporter), ..STRANGER }.may(READ, Exposure::Private));
    }

    #[test]
    fn writes_ask_for_the_role_everywhere() {
        assert!(!STRANGER.may(WRITE, Exposure::Public));
        assert!(!Standing { role: Some(Role::Reporter), ..STRANGER }.may(WRITE, Exposure::Public));
        assert!(Standing { role: Some(Role::Developer), ..STRANGER }.may(WRITE, Exposure::Private));
    }

    #[test]
    fn external_users_see_internal_things_only_as_members() {
        let external = Standing { external: true, ..STRANGER };
        assert!(!external.sees(Exposure::Internal));
        assert!(external.sees(Exposure::Public));
        assert!(Standing { role: Some(Role::Guest), ..external }.sees(Exposure::Internal));
    }

    #[test]
    fn admins_may_do_everything() {
        let admin = Standing { admin: true, ..STRANGER };
        let min_admin = Access { min: Minimum::Admin, ..WRITE };
        assert!(admin.sees(Exposure::Private) && admin.may(WRITE, Exposure::Private));
        assert!(admin.may(min_admin, Exposure::Private));
        assert!(!Standing { role: Some(Role::Owner), ..STRANGER }.may(min_admin, Exposure::Public));
    }
}
