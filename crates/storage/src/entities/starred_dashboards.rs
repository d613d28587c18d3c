//! Dashboards of metrics that users starred (specification 2.15).

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;

/// Dashboards of metrics that users starred.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "starred_dashboards")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// Who starred.
    pub user_id: i64,
    /// The project whose dashboard it is.
    pub project_id: i64,
    /// Where the dashboard stands; unique for the user in the project.
    pub dashboard_path: String,
    /// Since when.
    pub created_at: DateTime<Utc>,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
