//! Events. They are recorded in the transaction of the change, listed, and sent to webhooks.
//!
//! A service calls [`record`] within its own transaction. It writes the project's last activity, the event
//! and the webhook outbox together with the change.

pub mod listing;

use sea_orm::sea_query::Expr;
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter,
};
use serde::Serialize;

pub use storage::entities::events::{EventAction, EventTargetType};
use storage::entities::{events, now, projects};

use crate::activity::outbox::{self, WebhookTarget};
use crate::kernel::error::{Error, Result};

/// Maximum number of events in one statement.
const BATCH_SIZE: usize = 500;

/// A new event.
#[derive(Debug, Clone)]
pub struct NewEvent {
    /// ID of its project. `None` without a project, or if the project is deleted with the event.
    pub project_id: Option<i64>,
    /// ID of the user who caused it.
    pub author_id: Option<i64>,
    /// What the user did.
    pub action: EventAction,
    /// The target of the action.
    pub target: Option<EventTarget>,
    /// Further details, as JSON.
    pub data: Option<String>,
    /// The webhooks that receive it.
    pub webhook_target: Option<WebhookTarget>,
}

/// The target of an event.
#[derive(Debug, Clone)]
pub struct EventTarget {
    /// Its type.
    pub kind: EventTargetType,
    /// Its ID.
    pub id: i64,
    /// Its IID.
    pub iid: Option<i64>,
    /// Its title.
    pub title: Option<String>,
}

impl NewEvent {
    /// Creates an event of a user in a project, which no webhook receives by default.
    #[must_use]
    pub fn new(project_id: i64, author_id: i64, action: EventAction) -> Self {
        Self {
            project_id: Some(project_id),
            author_id: Some(author_id),
            action,
            target: None,
            data: None,
            webhook_target: None,
        }
    }

    /// Adds details to the event.
    ///
    /// # Errors
    /// Returns an error if the data cannot be serialized as JSON.
    pub fn with_data(mut self, data: &impl Serialize) -> Result<Self> {
        self.data = Some(serde_json::to_string(data).map_err(Error::internal)?);
        Ok(self)
    }
}

/// Returns a project as the target of an event.
#[must_use]
pub fn project_target(project: &projects::Model) -> EventTarget {
    EventTarget {
        kind: EventTargetType::Project,
        id: project.id,
        iid: None,
        title: Some(project.name.clone()),
    }
}

/// Records an event, the activity of its project and the webhook deliveries for it.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn record(transaction: &DatabaseTransaction, new: NewEvent) -> Result<()> {
    record_event(transaction, new).await.map(drop)
}

/// Like [`record`], and returns the event.
pub(crate) async fn record_event(transaction: &DatabaseTransaction, new: NewEvent) -> Result<events::Model> {
    if let Some(project_id) = new.project_id {
        projects::Entity::update_many()
            .col_expr(projects::Column::LastActivityAt, Expr::value(now()))
            .filter(projects::Column::Id.eq(project_id))
            .exec(transaction)
            .await?;
    }
    insert(transaction, new).await
}

/// Like [`record`], for changes that update the project's activity themselves.
pub(crate) async fn insert(transaction: &DatabaseTransaction, mut new: NewEvent) -> Result<events::Model> {
    let webhook_target = new.webhook_target.take();
    let event = row(new).insert(transaction).await?;
    if let Some(target) = webhook_target {
        outbox::enqueue(transaction, &event, &target).await?;
    }
    Ok(event)
}

/// Like [`insert`], for events of one project that the same webhooks receive (`target`). Inserts events and deliveries in
/// batches.
pub(crate) async fn insert_all(
    transaction: &DatabaseTransaction,
    project_id: i64,
    new: Vec<NewEvent>,
    target: &WebhookTarget,
) -> Result<()> {
    let rows: Vec<events::ActiveModel> = new.into_iter().map(row).collect();
    let mut ids = Vec::with_capacity(rows.len());
    for rows in rows.chunks(BATCH_SIZE) {
        let inserted = events::Entity::insert_many(rows.to_vec())
            .exec_with_returning(transaction)
            .await?;
        ids.extend(inserted.into_iter().map(|event| event.id));
    }
    // Webhooks receive the events in their order.
    ids.sort_unstable();
    outbox::enqueue_all(transaction, project_id, &ids, target).await
}

fn row(new: NewEvent) -> events::ActiveModel {
    let target = new.target;
    events::ActiveModel {
        project_id: Set(new.project_id),
        author_id: Set(new.author_id),
        action: Set(new.action),
        target_type: Set(target.as_ref().map(|target| target.kind)),
        target_id: Set(target.as_ref().map(|target| target.id)),
        target_iid: Set(target.as_ref().and_then(|target| target.iid)),
        target_title: Set(target.and_then(|target| target.title)),
        data: Set(new.data),
        created_at: Set(now()),
        ..Default::default()
    }
}
