//! Writes events.

use sea_orm::{ActiveValue::Set, DatabaseTransaction, EntityTrait};
use storage::entities::{audit_events, now};

use super::actor::Actor;
use super::event::AuditEvent;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};

/// Maximum number of rows of one statement, because databases limit the number of parameters.
const MAX_ROWS: usize = 4000;

/// Records an event in the transaction of the action.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn record(
    transaction: &DatabaseTransaction,
    actor: impl Into<Actor>,
    event: AuditEvent,
) -> Result<()> {
    let row = row(&actor.into(), &event)?;
    audit_events::Entity::insert(row)
        .exec_without_returning(transaction)
        .await?;
    Ok(())
}

/// Records several events of one action, with one statement for up to `MAX_ROWS` events.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn record_all(
    transaction: &DatabaseTransaction,
    actor: impl Into<Actor>,
    events: Vec<AuditEvent>,
) -> Result<()> {
    let actor = actor.into();
    for events in events.chunks(MAX_ROWS) {
        let rows = events
            .iter()
            .map(|event| row(&actor, event))
            .collect::<Result<Vec<_>>>()?;
        audit_events::Entity::insert_many(rows)
            .exec_without_returning(transaction)
            .await?;
    }
    Ok(())
}

/// Records an attempt that changed nothing else.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn record_attempt(backend: &Backend, actor: impl Into<Actor>, event: AuditEvent) -> Result<()> {
    let row = row(&actor.into(), &event)?;
    audit_events::Entity::insert(row)
        .exec_without_returning(backend.database.write())
        .await?;
    Ok(())
}

fn row(actor: &Actor, event: &AuditEvent) -> Result<audit_events::ActiveModel> {
    let details = serde_json::to_string(&event.details(actor)).map_err(Error::internal)?;
    Ok(audit_events::ActiveModel {
        author_id: Set(actor.id),
        entity_type: Set(event.entity.kind),
        entity_id: Set(event.entity.id),
        event_name: Set(event.kind.name().to_owned()),
        details: Set(details),
        created_at: Set(now()),
        ..Default::default()
    })
}
