//! Time that was spent on issues and merge requests.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;

/// Time that was spent on issues and merge requests.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "timelogs")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The issue, if it is one.
    pub issue_id: Option<i64>,
    /// The merge request, if it is one.
    pub merge_request_id: Option<i64>,
    /// Who spent it; none when the user is gone.
    pub user_id: Option<i64>,
    /// How much, in seconds; negative where time was taken off.
    pub time_spent: i64,
    /// When.
    pub spent_at: DateTime<Utc>,
    /// When the row was made.
    pub created_at: DateTime<Utc>,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
