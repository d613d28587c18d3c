//! Who wants to be told of what happens to something, or does not.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;

/// Who wants to be told of what happens to something, or does not.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "subscriptions")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// Who.
    pub user_id: i64,
    /// The issue, if it is one.
    pub issue_id: Option<i64>,
    /// The merge request, if it is one.
    pub merge_request_id: Option<i64>,
    /// The epic, if it is one.
    pub epic_id: Option<i64>,
    /// The label, if it is one.
    pub label_id: Option<i64>,
    /// Whether the user wants to be told.
    pub subscribed: bool,
    /// When the row was made.
    pub created_at: DateTime<Utc>,
    /// When it was changed last.
    pub updated_at: DateTime<Utc>,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
