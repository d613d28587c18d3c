//! Outbox of requests to external status checks. A row is written in the transaction of its event, and deleted after
//! the request was accepted or failed permanently.

use chrono::{DateTime, Utc};
use sea_orm::QueryOrder;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::Expr;

/// Outbox of requests to external status checks.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "status_check_deliveries")]
pub struct Model {
    /// The ID, never reused; requests to a check are sent in this order.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The status check.
    pub status_check_id: i64,
    /// The merge request.
    pub merge_request_id: i64,
    /// The event.
    pub event_id: i64,
    /// The head of the merge request at the event.
    pub sha: String,
    /// The UUID by which the service recognizes repeated requests.
    pub uuid: String,
    /// Number of attempts.
    pub attempts: i32,
    /// Time of the next attempt.
    pub next_attempt_at: DateTime<Utc>,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
    /// Number of consecutive attempts to build the payload that failed or did not end.
    pub payload_attempts: i32,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Returns the next request to a check, due or not.
///
/// # Errors
/// Any database error.
pub async fn next(db: &impl ConnectionTrait, status_check_id: i64) -> Result<Option<Model>, DbErr> {
    Entity::find()
        .filter(Column::StatusCheckId.eq(status_check_id))
        .order_by_asc(Column::Id)
        .one(db)
        .await
}

/// Counts an attempt to build the payload of a request, before it is built. Returns whether the request still is in the
/// same state.
///
/// # Errors
/// Any database error.
pub async fn begin_payload(db: &impl ConnectionTrait, delivery: &Model) -> Result<bool, DbErr> {
    let begun = Entity::update_many()
        .col_expr(
            Column::PayloadAttempts,
            Expr::value(delivery.payload_attempts.saturating_add(1)),
        )
        .filter(Column::Id.eq(delivery.id))
        .filter(Column::Attempts.eq(delivery.attempts))
        .filter(Column::PayloadAttempts.eq(delivery.payload_attempts));
    Ok(begun.exec(db).await?.rows_affected > 0)
}

/// Removes the attempt that [`begin_payload`] counted, after an error that is not related to the payload. Changes
/// nothing if the request is no longer in the same state.
///
/// # Errors
/// Any database error.
pub async fn forget_payload(db: &impl ConnectionTrait, delivery: &Model) -> Result<(), DbErr> {
    let counted = delivery.payload_attempts.saturating_add(1);
    Entity::update_many()
        .col_expr(Column::PayloadAttempts, Expr::value(delivery.payload_attempts))
        .filter(Column::Id.eq(delivery.id))
        .filter(Column::Attempts.eq(delivery.attempts))
        .filter(Column::PayloadAttempts.eq(counted))
        .exec(db)
        .await?;
    Ok(())
}
