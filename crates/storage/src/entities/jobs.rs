//! The queue of background jobs.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;

/// The queue of background jobs.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "jobs")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// Which handler it is for.
    pub kind: String,
    /// What the handler is given, as JSON.
    pub payload: String,
    /// While such a job waits, another of the same kind and key is not added.
    pub dedup_key: Option<String>,
    /// Not to be run before.
    pub run_at: DateTime<Utc>,
    /// How often it was begun.
    pub attempts: i32,
    /// How often it may be begun.
    pub max_attempts: i32,
    /// The runner that holds it.
    pub locked_by: Option<String>,
    /// Until when the runner holds it, unless it renews.
    pub locked_until: Option<DateTime<Utc>>,
    /// Why it failed last.
    pub last_error: Option<String>,
    /// When it was given up.
    pub dead_at: Option<DateTime<Utc>>,
    /// When the row was made.
    pub created_at: DateTime<Utc>,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
