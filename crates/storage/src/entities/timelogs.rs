//! Time spent on issues and merge requests.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;

/// Time spent on issues and merge requests.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "timelogs")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The issue, if it is the target.
    pub issue_id: Option<i64>,
    /// The merge request, if it is the target.
    pub merge_request_id: Option<i64>,
    /// The user; none if deleted.
    pub user_id: Option<i64>,
    /// The time in seconds; negative if time was subtracted.
    pub time_spent: i64,
    /// When the time was spent.
    pub spent_at: DateTime<Utc>,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
