//! The outbox of webhooks, and the log it becomes. A row is written in the transaction of what it tells of.

use chrono::{DateTime, Utc};
use sea_orm::QueryOrder;
use sea_orm::entity::prelude::*;
use serde::{Deserialize, Serialize};

use super::project_hooks::Kind;

/// How far a delivery has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It is still to be delivered.
    Pending,
    /// The receiver took it.
    Delivered,
    /// It was given up.
    Failed,
}

/// The outbox of webhooks, and the log it becomes. A row is written in the transaction of what it tells of.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "hook_deliveries")]
pub struct Model {
    /// The id, never given out twice; deliveries of a hook go out in this order.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The hook.
    pub hook_id: i64,
    /// What it tells of; none for a trial.
    pub event_id: Option<i64>,
    /// What the receiver knows repetitions by.
    pub uuid: String,
    /// What kind of thing it tells of.
    pub kind: Kind,
    /// Where it goes or went, as it may be shown.
    pub url: String,
    /// How far it has come.
    pub state: State,
    /// How often it was tried.
    pub attempts: i32,
    /// Not to be tried before.
    pub next_attempt_at: DateTime<Utc>,
    /// What is sent, JSON; made at the first attempt.
    pub request_body: Option<String>,
    /// The status of the last answer.
    pub response_status: Option<i32>,
    /// The headers of the last answer, as a JSON object.
    pub response_headers: Option<String>,
    /// The beginning of the last answer.
    pub response_body: Option<String>,
    /// Why the last attempt failed, where there was no answer.
    pub error: Option<String>,
    /// How long the last attempt took, in milliseconds.
    pub duration_ms: Option<i32>,
    /// When the row was made.
    pub created_at: DateTime<Utc>,
    /// When it was delivered or given up.
    pub finished_at: Option<DateTime<Utc>>,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The hook.
    #[sea_orm(
        belongs_to = "super::project_hooks::Entity",
        from = "Column::HookId",
        to = "super::project_hooks::Column::Id"
    )]
    Hook,
    /// What it tells of.
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

/// The next delivery of a hook, due or not.
///
/// # Errors
/// Whatever the database reports.
pub async fn head(db: &impl ConnectionTrait, hook_id: i64) -> Result<Option<Model>, DbErr> {
    Entity::find()
        .filter(Column::HookId.eq(hook_id))
        .filter(Column::State.eq(State::Pending))
        .order_by_asc(Column::Id)
        .one(db)
        .await
}
