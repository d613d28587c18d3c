//! Lists of events, newest first.

use chrono::{DateTime, Utc};
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QuerySelect, Select};
use storage::entities::audit_events::{self, AuditEntityType, Column, Entity, Model};

use super::event::AuditDetails;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PagePosition, PageRequest};
use crate::kernel::query::{at_or_before, page_of};

/// Filter of a list.
#[derive(Debug, Clone, Copy, Default)]
pub struct AuditEventFilter {
    /// Only events at or after this time.
    pub created_after: Option<DateTime<Utc>>,
    /// Only events at or before this time.
    pub created_before: Option<DateTime<Utc>>,
    /// Only events with a lower ID.
    pub id_before: Option<i64>,
}

/// An event with its parsed details.
#[derive(Debug, Clone)]
pub struct AuditEventDetail {
    /// The row.
    pub row: Model,
    /// Its details.
    pub details: AuditDetails,
}

/// Lists all events, the events of all entities of one type, or the events of one entity.
///
/// # Errors
/// Returns `InvalidParameters` if an ID is given without a type.
pub async fn list_all(
    backend: &Backend,
    entity_type: Option<AuditEntityType>,
    entity_id: Option<i64>,
    filter: AuditEventFilter,
    page: &PageRequest,
) -> Result<Page<AuditEventDetail>> {
    let events = match (entity_type, entity_id) {
        (None, Some(_)) => return Err(Error::parameter("entity_id requires entity_type")),
        (Some(kind), Some(id)) => audit_events::of_entity(kind, id),
        (Some(kind), None) => audit_events::newest_first().filter(Column::EntityType.eq(kind)),
        (None, None) => audit_events::newest_first(),
    };
    page_of_events(backend, events, filter, page).await
}

/// Lists the events of one entity.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn list_of(
    backend: &Backend,
    entity: (AuditEntityType, i64),
    filter: AuditEventFilter,
    page: &PageRequest,
) -> Result<Page<AuditEventDetail>> {
    page_of_events(backend, audit_events::of_entity(entity.0, entity.1), filter, page).await
}

/// Returns an event, which must belong to `entity` if that is given.
///
/// # Errors
/// Returns `NotFound` if no such event exists.
pub async fn get(
    backend: &Backend,
    entity: Option<(AuditEntityType, i64)>,
    id: i64,
) -> Result<AuditEventDetail> {
    let found = Entity::find_by_id(id).one(backend.database.read()).await?;
    let belongs = |row: &Model| entity.is_none_or(|entity| entity == (row.entity_type, row.entity_id));
    let row = found
        .filter(belongs)
        .ok_or_else(|| Error::not_found("Audit Event"))?;
    detail(row)
}

async fn page_of_events(
    backend: &Backend,
    mut events: Select<Entity>,
    filter: AuditEventFilter,
    page: &PageRequest,
) -> Result<Page<AuditEventDetail>> {
    if let Some(after) = filter.created_after {
        events = events.filter(Column::CreatedAt.gte(after));
    }
    if let Some(before) = filter.created_before {
        events = events.filter(at_or_before(Expr::col(Column::CreatedAt), before));
    }
    if let Some(before) = filter.id_before {
        events = events.filter(Column::Id.lt(before));
    }
    let db = backend.database.read();
    let found = match page.keyset {
        true => {
            let items = events.limit(page.limit()).all(db).await?;
            let rest = PagePosition::Keyset(items.last().map(|last| ("id_before", last.id)));
            Page { items, rest }
        }
        false => page_of(db, events, page).await?,
    };
    let rest = found.rest;
    let items = found.items.into_iter().map(detail).collect::<Result<_>>()?;
    Ok(Page { items, rest })
}

fn detail(row: Model) -> Result<AuditEventDetail> {
    let details = serde_json::from_str(&row.details).map_err(Error::internal)?;
    Ok(AuditEventDetail { row, details })
}
