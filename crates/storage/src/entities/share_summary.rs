//! Groups with which a project or group is shared.

use chrono::NaiveDate;
use sea_orm::sea_query::{Expr, ExprTrait};
use sea_orm::{ColumnTrait, DbErr};

use super::related_rows::{RelatedPart, RelatedRow, bigint};
use super::{AccessLevel, namespaces};

/// A group with which a project or group is shared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShareSummary {
    /// The ID of the group.
    pub group_id: i64,
    /// The name of the group.
    pub group_name: String,
    /// The full path of the group.
    pub group_full_path: String,
    /// The maximum role of its members.
    pub access_level: AccessLevel,
    /// The date from which the share grants no access.
    pub expires_at: Option<NaiveDate>,
}

impl ShareSummary {
    /// Adds the columns of a share to a part that selects from a table of shares and `namespaces`.
    #[must_use]
    pub fn columns(part: RelatedPart, access_level: Expr, expires_at: Expr) -> RelatedPart {
        let part = part
            .with_id(namespaces::Column::Id.into_expr())
            .with_number(bigint(access_level));
        part.with_texts([
            namespaces::Column::Name.into_expr(),
            namespaces::Column::FullPath.into_expr(),
            expires_at.cast_as("text"),
        ])
    }

    /// Reads a row with the columns of a share.
    ///
    /// # Errors
    /// An error if a column has an unknown value.
    pub fn read(row: RelatedRow) -> Result<Self, DbErr> {
        let [name, full_path, expires_at, _] = row.texts;
        let access_level = row.number.and_then(AccessLevel::from_number);
        let expires_at = expires_at.map(|date| date.parse()).transpose();
        Ok(Self {
            group_id: row.id,
            group_name: name.unwrap_or_default(),
            group_full_path: full_path.unwrap_or_default(),
            access_level: access_level
                .ok_or_else(|| DbErr::Type("unknown access level of a share".to_owned()))?,
            expires_at: expires_at.map_err(|_| DbErr::Type("invalid expiry date of a share".to_owned()))?,
        })
    }
}
