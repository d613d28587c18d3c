//! Roles, from Guest to Owner.

use sea_orm::{DeriveActiveEnum, EnumIter, Iterable};
use serde::{Deserialize, Serialize};

/// A role on a group or project, as the access level of the API; ordered by permissions.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    EnumIter,
    DeriveActiveEnum,
    Serialize,
    Deserialize,
)]
#[sea_orm(rs_type = "i32", db_type = "Integer")]
#[serde(into = "i32", try_from = "i32")]
pub enum AccessLevel {
    /// Can see the project and comment.
    Guest = 10,
    /// Can also read the code of a private project.
    Reporter = 20,
    /// Can push to unprotected branches.
    Developer = 30,
    /// Can administer the project.
    Maintainer = 40,
    /// Has all permissions, including deletion; for members of groups and owners of personal namespaces.
    Owner = 50,
}

impl AccessLevel {
    /// Returns the role of an access level.
    pub fn from_number(number: i64) -> Option<Self> {
        Self::try_from(i32::try_from(number).ok()?).ok()
    }

    /// Returns all access levels, lowest first.
    pub fn numbers() -> impl Iterator<Item = i32> {
        Self::iter().map(i32::from)
    }

    /// Returns the role of a name, ignoring case.
    pub fn from_name(word: &str) -> Option<Self> {
        let mut all = Self::iter();
        all.find(|level| level.name().eq_ignore_ascii_case(word))
    }

    /// Returns the name of the role in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Guest => "Guest",
            Self::Reporter => "Reporter",
            Self::Developer => "Developer",
            Self::Maintainer => "Maintainer",
            Self::Owner => "Owner",
        }
    }
}

impl From<AccessLevel> for i32 {
    fn from(level: AccessLevel) -> Self {
        level as Self
    }
}

impl TryFrom<i32> for AccessLevel {
    type Error = UnknownAccessLevel;

    fn try_from(level: i32) -> Result<Self, Self::Error> {
        match level {
            10 => Ok(Self::Guest),
            20 => Ok(Self::Reporter),
            30 => Ok(Self::Developer),
            40 => Ok(Self::Maintainer),
            50 => Ok(Self::Owner),
            other => Err(UnknownAccessLevel(other)),
        }
    }
}

/// An integer that is not an access level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not an access level")]
pub struct UnknownAccessLevel(
    /// The integer.
    pub i32,
);
