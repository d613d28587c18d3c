//! Merge of a merge request that waits for its pipeline or its status checks. `review` runs the job.

use sea_orm::{
    ColumnTrait, Condition, DatabaseTransaction, EntityTrait, QueryFilter, QueryOrder, QuerySelect,
};
use serde::{Deserialize, Serialize};
use storage::entities::merge_requests::{Column, Entity, MergeRequestState};
use storage::jobs::{self, Job};

use crate::kernel::error::{Error, Result};

/// Merges a merge request that waits, if its pipeline has succeeded and its status checks have passed.
#[derive(Debug, Serialize, Deserialize)]
pub struct AutoMerge {
    /// The merge request.
    pub merge_request_id: i64,
}

impl Job for AutoMerge {
    const KIND: &'static str = "merge_waiting";

    fn dedup_key(&self) -> Option<String> {
        Some(self.merge_request_id.to_string())
    }
}

/// Enqueues the merge of a waiting merge request. The job checks whether the merge request still waits.
///
/// # Errors
/// Returns an error if a database query fails.
pub(crate) async fn enqueue(transaction: &DatabaseTransaction, merge_request_id: i64) -> Result<()> {
    let job = AutoMerge { merge_request_id };
    jobs::enqueue(transaction, &job).await.map_err(Error::internal)
}

/// Enqueues the merges of the waiting merge requests that meet a condition.
///
/// # Errors
/// Returns an error if a database query fails.
pub(crate) async fn enqueue_waiting(transaction: &DatabaseTransaction, condition: Condition) -> Result<()> {
    let waiting: Vec<i64> = Entity::find()
        .select_only()
        .column(Column::Id)
        .filter(condition)
        .filter(Column::State.eq(MergeRequestState::Opened))
        .filter(Column::MergeWhenPipelineSucceeds.eq(true))
        .order_by_asc(Column::Id)
        .into_tuple()
        .all(transaction)
        .await?;
    for id in waiting {
        enqueue(transaction, id).await?;
    }
    Ok(())
}

/// Enqueues the merges of all waiting merge requests of a target project.
///
/// # Errors
/// Returns an error if a database query fails.
pub(crate) async fn enqueue_into(transaction: &DatabaseTransaction, target_id: i64) -> Result<()> {
    let condition = Condition::all().add(Column::TargetProjectId.eq(target_id));
    enqueue_waiting(transaction, condition).await
}
