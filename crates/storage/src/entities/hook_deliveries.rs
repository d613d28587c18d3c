//! Outbox and log of webhook deliveries. A row is written in the transaction of its event.

use chrono::{DateTime, Utc};
use sea_orm::QueryOrder;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::Expr;
use serde::{Deserialize, Serialize};

use super::project_hooks::HookEvent;

/// State of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum DeliveryState {
    /// Not delivered yet.
    Pending,
    /// The receiver accepted it.
    Delivered,
    /// Failed permanently.
    Failed,
}

/// Outbox and log of webhook deliveries. A row is written in the transaction of its event.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "hook_deliveries")]
pub struct Model {
    /// The ID, never reused; deliveries of a webhook are sent in this order.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The webhook.
    pub hook_id: i64,
    /// The event; none for a test delivery.
    pub event_id: Option<i64>,
    /// The UUID by which the receiver recognizes repeated requests.
    pub uuid: String,
    /// The kind of the event.
    pub kind: HookEvent,
    /// The URL without credentials.
    pub url: String,
    /// The state.
    pub state: DeliveryState,
    /// Number of attempts.
    pub attempts: i32,
    /// Time of the next attempt.
    pub next_attempt_at: DateTime<Utc>,
    /// The payload, JSON, from the first attempt on; none if the payload is large or was withheld.
    pub request_body: Option<String>,
    /// The status of the last response.
    pub response_status: Option<i32>,
    /// The headers of the last response, as a JSON object.
    pub response_headers: Option<String>,
    /// The beginning of the last response body.
    pub response_body: Option<String>,
    /// Why the last attempt failed without a response.
    pub error: Option<String>,
    /// Duration of the last attempt in milliseconds.
    pub duration_ms: Option<i32>,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
    /// When it was delivered or failed permanently.
    pub finished_at: Option<DateTime<Utc>>,
    /// The headers of the last request that depend on the settings of the webhook, as a JSON object without secrets.
    pub request_headers: Option<String>,
    /// Number of consecutive attempts to build the payload that failed or did not end.
    pub payload_attempts: i32,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The webhook.
    #[sea_orm(
        belongs_to = "super::project_hooks::Entity",
        from = "Column::HookId",
        to = "super::project_hooks::Column::Id"
    )]
    Hook,
    /// The event.
    #[sea_orm(
        belongs_to = "super::events::Entity",
        from = "Column::EventId",
        to = "super::events::Column::Id"
    )]
    Event,
}

impl Related<super::project_hooks::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Hook.def()
    }
}

impl Related<super::events::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Event.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}

/// Returns the next delivery of a webhook, due or not.
///
/// # Errors
/// Any database error.
pub async fn next(db: &impl ConnectionTrait, hook_id: i64) -> Result<Option<Model>, DbErr> {
    Entity::find()
        .filter(Column::HookId.eq(hook_id))
        .filter(Column::State.eq(DeliveryState::Pending))
        .order_by_asc(Column::Id)
        .one(db)
        .await
}

/// Counts an attempt to build the payload of a delivery, before it is built. Returns whether the delivery still is in
/// the same state.
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
        .filter(Column::State.eq(DeliveryState::Pending))
        .filter(Column::Attempts.eq(delivery.attempts))
        .filter(Column::PayloadAttempts.eq(delivery.payload_attempts));
    Ok(begun.exec(db).await?.rows_affected > 0)
}

/// Removes the attempt that [`begin_payload`] counted, after an error that is not related to the payload. Changes
/// nothing if the delivery is no longer in the same state.
///
/// # Errors
/// Any database error.
pub async fn forget_payload(db: &impl ConnectionTrait, delivery: &Model) -> Result<(), DbErr> {
    let counted = delivery.payload_attempts.saturating_add(1);
    Entity::update_many()
        .col_expr(Column::PayloadAttempts, Expr::value(delivery.payload_attempts))
        .filter(Column::Id.eq(delivery.id))
        .filter(Column::State.eq(DeliveryState::Pending))
        .filter(Column::Attempts.eq(delivery.attempts))
        .filter(Column::PayloadAttempts.eq(counted))
        .exec(db)
        .await?;
    Ok(())
}
