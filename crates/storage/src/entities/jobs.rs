//! The queue of background jobs.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;

/// The queue of background jobs.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "jobs")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The kind, which selects the handler.
    pub kind: String,
    /// The payload as JSON.
    pub payload: String,
    /// The deduplication key: while such a job waits, no other job of the same kind and key is added.
    pub dedup_key: Option<String>,
    /// Earliest time to run.
    pub run_at: DateTime<Utc>,
    /// Number of attempts.
    pub attempts: i32,
    /// Maximum number of attempts.
    pub max_attempts: i32,
    /// The runner that has locked it.
    pub locked_by: Option<String>,
    /// When the lock expires unless it is renewed.
    pub locked_until: Option<DateTime<Utc>>,
    /// The last error, or the reason why the job was postponed.
    pub last_error: Option<String>,
    /// When it failed permanently.
    pub dead_at: Option<DateTime<Utc>>,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
