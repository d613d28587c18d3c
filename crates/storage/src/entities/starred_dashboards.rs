//! Metrics dashboards that users starred.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;

/// Metrics dashboards that users starred.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "starred_dashboards")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The user.
    pub user_id: i64,
    /// The project of the dashboard.
    pub project_id: i64,
    /// The path of the dashboard; unique for the user in the project.
    pub dashboard_path: String,
    /// When it was starred.
    pub created_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
