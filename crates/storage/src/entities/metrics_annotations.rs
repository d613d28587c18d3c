//! Times that are marked on dashboards of metrics (specification 2.15), of an environment or of a cluster.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;

/// Times that are marked on dashboards of metrics, of an environment or of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "metrics_annotations")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The environment, if it is one's.
    pub environment_id: Option<i64>,
    /// The cluster, if it is one's.
    pub cluster_id: Option<i64>,
    /// Where the dashboard stands.
    pub dashboard_path: String,
    /// What happened.
    pub description: String,
    /// The moment, or when the span begins.
    pub starting_at: DateTime<Utc>,
    /// When the span ends; none for a moment.
    pub ending_at: Option<DateTime<Utc>>,
    /// When the row was made.
    pub created_at: DateTime<Utc>,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
