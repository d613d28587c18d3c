//! Visibility of groups and projects for users who are not members.

use sea_orm::{DeriveActiveEnum, EnumIter};
use serde::{Deserialize, Serialize};

/// Visibility of a group or project; ordered from private to public.
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
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum Visibility {
    /// Visible to members only.
    Private,
    /// Visible to every signed-in user who is not external.
    Internal,
    /// Visible to everyone.
    Public,
}

impl Visibility {
    /// Returns the visibility as the API writes it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Private => "private",
            Self::Internal => "internal",
            Self::Public => "public",
        }
    }
}
