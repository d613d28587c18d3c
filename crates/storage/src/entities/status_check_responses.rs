//! Statuses that external services reported for merge requests.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::{ActiveValue::Set, IntoActiveModel};

use super::now;

/// Status of an external check of a merge request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
pub enum StatusCheckStatus {
    /// The service has not decided.
    Pending,
    /// The merge request can be merged.
    Passed,
    /// The merge request cannot be merged, or the service did not accept the request.
    Failed,
}

/// Statuses that external services reported for merge requests, one row for each check and merge request.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "status_check_responses")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The merge request.
    pub merge_request_id: i64,
    /// The status check.
    pub status_check_id: i64,
    /// The head of the merge request for which the status was reported. For any other head, the check is pending.
    pub sha: String,
    /// The status.
    pub status: StatusCheckStatus,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
    /// When the row was last changed.
    pub updated_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Returns the status that a service reported for a merge request.
///
/// # Errors
/// Any database error.
pub async fn find(
    db: &impl ConnectionTrait,
    merge_request_id: i64,
    status_check_id: i64,
) -> Result<Option<Model>, DbErr> {
    Entity::find()
        .filter(Column::MergeRequestId.eq(merge_request_id))
        .filter(Column::StatusCheckId.eq(status_check_id))
        .one(db)
        .await
}

/// Stores the status of a check for the head of a merge request, which must be locked.
///
/// # Errors
/// Any database error; a violation of a foreign key if the check was deleted.
pub async fn store(
    db: &impl ConnectionTrait,
    (merge_request_id, status_check_id): (i64, i64),
    sha: &str,
    status: StatusCheckStatus,
) -> Result<Model, DbErr> {
    let at = now();
    if let Some(stored) = find(db, merge_request_id, status_check_id).await? {
        let mut row = stored.into_active_model();
        row.sha = Set(sha.to_owned());
        row.status = Set(status);
        row.updated_at = Set(at);
        return row.update(db).await;
    }
    let row = ActiveModel {
        merge_request_id: Set(merge_request_id),
        status_check_id: Set(status_check_id),
        sha: Set(sha.to_owned()),
        status: Set(status),
        created_at: Set(at),
        updated_at: Set(at),
        ..Default::default()
    };
    row.insert(db).await
}
