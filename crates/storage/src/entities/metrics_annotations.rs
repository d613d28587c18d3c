//! Annotations of metrics dashboards, for an environment or a cluster.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;

/// Annotations of metrics dashboards, for an environment or a cluster.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "metrics_annotations")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The environment, if it belongs to one.
    pub environment_id: Option<i64>,
    /// The cluster, if it belongs to one.
    pub cluster_id: Option<i64>,
    /// The path of the dashboard.
    pub dashboard_path: String,
    /// The description.
    pub description: String,
    /// The time, or the start of a period.
    pub starting_at: DateTime<Utc>,
    /// The end of a period; none for a single time.
    pub ending_at: Option<DateTime<Utc>>,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
