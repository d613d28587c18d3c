//! Roles, from Guest to Owner.

use sea_orm::{DeriveActiveEnum, EnumIter, Iterable};
use serde::{Deserialize, Serialize};

/// A role on a group or project, as the integer of specification 2.0; ordered, the greater may do more.
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
    /// May see the project and talk about it.
    Guest = 10,
    /// May read the code of a private project as well.
    Reporter = 20,
    /// May push to unprotected branches.
    Developer = 30,
    /// May run the project.
    Maintainer = 40,
    /// May do everything, deletion included; held on groups and by owners of personal namespaces.
    Owner = 50,
}

impl AccessLevel {
    /// The role that a number of any size names.
    pub fn of_number(number: i64) -> Option<Self> {
        Self::try_from(i32::try_from(number).ok()?).ok()
    }

    /// The role that a word names, in any case.
    pub fn of_word(word: &str) -> Option<Self> {
        let mut all = Self::iter();
        all.find(|level| level.word().eq_ignore_ascii_case(word))
    }

    /// The word for the role that messages use.
    pub fn word(self) -> &'static str {
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

/// An integer that names no role.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not an access level")]
pub struct UnknownAccessLevel(
    /// The integer.
    pub i32,
);
