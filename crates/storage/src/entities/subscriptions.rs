//! Explicit subscriptions and unsubscriptions of users.

use chrono::{DateTime, Utc};
use sea_orm::DbBackend;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::Query;

use super::related_rows::RelatedPart;

/// Explicit subscriptions and unsubscriptions of users.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "subscriptions")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The user.
    pub user_id: i64,
    /// The issue, if it is the target.
    pub issue_id: Option<i64>,
    /// The merge request, if it is the target.
    pub merge_request_id: Option<i64>,
    /// The epic, if it is the target.
    pub epic_id: Option<i64>,
    /// The label, if it is the target.
    pub label_id: Option<i64>,
    /// Whether the user is subscribed.
    pub subscribed: bool,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
    /// When the row was last changed.
    pub updated_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Returns a part with a row for each of these labels to which a user is subscribed; none without IDs.
#[must_use]
pub fn labels_part(database: DbBackend, user_id: i64, label_ids: &[i64]) -> Option<RelatedPart> {
    let rows = Query::select()
        .from(Entity)
        .and_where(Column::UserId.eq(user_id))
        .and_where(Column::Subscribed.eq(true))
        .take();
    RelatedPart::of_owners(database, rows, Column::LabelId.into_expr(), label_ids)
}
