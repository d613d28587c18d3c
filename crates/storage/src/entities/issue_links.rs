//! Links between two issues. Two issues have at most one link, in either direction.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::{Condition, DatabaseTransaction, QueryOrder};

/// Relation of the source of a link to its target.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
pub enum IssueLinkType {
    /// The issues are related.
    #[default]
    RelatesTo,
    /// The source blocks the target.
    Blocks,
    /// The target blocks the source.
    IsBlockedBy,
}

impl IssueLinkType {
    /// Returns the relation of the target to the source.
    #[must_use]
    pub fn reversed(self) -> Self {
        match self {
            Self::RelatesTo => Self::RelatesTo,
            Self::Blocks => Self::IsBlockedBy,
            Self::IsBlockedBy => Self::Blocks,
        }
    }
}

/// Links between two issues.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "issue_links")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The issue to which the link was added.
    pub source_id: i64,
    /// The other issue.
    pub target_id: i64,
    /// The relation of the source to the target.
    pub link_type: IssueLinkType,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
    /// When the row was last changed.
    pub updated_at: DateTime<Utc>,
}

impl Model {
    /// Returns the issue that is linked to one of the two issues, and the relation of that one to the other.
    #[must_use]
    pub fn seen_from(&self, issue_id: i64) -> (i64, IssueLinkType) {
        match self.source_id == issue_id {
            true => (self.target_id, self.link_type),
            false => (self.source_id, self.link_type.reversed()),
        }
    }
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Selects the links of an issue in order of creation.
pub fn of_issue(issue_id: i64) -> Select<Entity> {
    let is_linked = Condition::any()
        .add(Column::SourceId.eq(issue_id))
        .add(Column::TargetId.eq(issue_id));
    Entity::find().filter(is_linked).order_by_asc(Column::Id)
}

/// Selects the link between two issues, in either direction.
pub fn between(one: i64, other: i64) -> Select<Entity> {
    let directed = |source: i64, target: i64| {
        Condition::all()
            .add(Column::SourceId.eq(source))
            .add(Column::TargetId.eq(target))
    };
    let is_between = Condition::any()
        .add(directed(one, other))
        .add(directed(other, one));
    Entity::find().filter(is_between)
}

/// Replaces an issue by its moved copy in all its links.
///
/// # Errors
/// Any database error.
pub async fn reassign(transaction: &DatabaseTransaction, old: i64, new: i64) -> Result<(), DbErr> {
    for column in [Column::SourceId, Column::TargetId] {
        Entity::update_many()
            .col_expr(column, Expr::value(new))
            .filter(column.eq(old))
            .exec(transaction)
            .await?;
    }
    Ok(())
}
