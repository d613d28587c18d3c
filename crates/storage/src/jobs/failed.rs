//! Jobs that failed permanently, for the operator: lists them, queues them again and deletes them.

use chrono::{DateTime, Utc};
use sea_orm::{
    ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseTransaction, DbErr, EntityTrait, QueryFilter,
    QueryOrder, QuerySelect,
};

use super::queue::{earliest, merge_into_waiting};
use super::{Job, JobRegistry};
use crate::database;
use crate::entities::jobs::{ActiveModel, Column, Entity, Model};

/// Returns up to `limit` failed jobs with IDs above `after`, in the order of their IDs, of one kind or of all kinds.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn list_failed(
    db: &impl ConnectionTrait,
    kind: Option<&str>,
    after: i64,
    limit: u64,
) -> Result<Vec<Model>, DbErr> {
    let mut failed = Entity::find()
        .filter(Column::DeadAt.is_not_null())
        .filter(Column::Id.gt(after));
    if let Some(kind) = kind {
        failed = failed.filter(Column::Kind.eq(kind));
    }
    failed.order_by_asc(Column::Id).limit(limit).all(db).await
}

/// Returns the failed jobs of a kind with these keys. Omits jobs whose payload has the format of another version.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn failed_with_keys<J: Job>(db: &impl ConnectionTrait, keys: Vec<String>) -> Result<Vec<J>, DbErr> {
    let payloads: Vec<String> = Entity::find()
        .select_only()
        .column(Column::Payload)
        .filter(Column::Kind.eq(J::KIND))
        .filter(Column::DedupKey.is_in(keys))
        .filter(Column::DeadAt.is_not_null())
        .into_tuple()
        .all(db)
        .await?;
    let jobs = payloads.iter();
    Ok(jobs
        .filter_map(|payload| serde_json::from_str(payload).ok())
        .collect())
}

/// Deletes a failed job and returns it, or `None` if no failed job has this ID. Of several concurrent calls, one
/// receives the job.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn discard_failed(transaction: &DatabaseTransaction, id: i64) -> Result<Option<Model>, DbErr> {
    let removed = Entity::delete_many()
        .filter(Column::Id.eq(id))
        .filter(Column::DeadAt.is_not_null())
        .exec_with_returning(transaction)
        .await?;
    Ok(removed.into_iter().next())
}

/// Queues a failed job again with all attempts of a new job, and returns it as it was. If an equivalent job waits
/// already, that job runs instead, with its own, newer payload. Returns `None` if no failed job has this ID.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn retry_failed(
    transaction: &DatabaseTransaction,
    id: i64,
    now: DateTime<Utc>,
    registry: &JobRegistry,
) -> Result<Option<Model>, DbErr> {
    let Some(job) = discard_failed(transaction, id).await? else {
        return Ok(None);
    };
    let row = ActiveModel {
        kind: Set(job.kind.clone()),
        payload: Set(job.payload.clone()),
        dedup_key: Set(job.dedup_key.clone()),
        run_at: Set(now),
        // The maximum in the row has grown if the job was enqueued again after failures.
        max_attempts: Set(registry.max_attempts(&job.kind).unwrap_or(job.max_attempts)),
        last_error: Set(job.last_error.clone()),
        created_at: Set(job.created_at),
        ..Default::default()
    };
    // A new row instead of an update: a unique violation would abort the transaction of the caller.
    Entity::insert(row)
        // The operator expects an attempt now, also if the waiting job has failed before.
        .on_conflict(merge_into_waiting(earliest()))
        .exec_without_returning(transaction)
        .await?;
    database::wake_on_commit();
    Ok(Some(job))
}
