//! Audit events, which record the author and the object of an action. Rows are never updated.

use chrono::{DateTime, Utc};
use sea_orm::QueryOrder;
use sea_orm::entity::prelude::*;

/// Type of the resource that an audit event belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "PascalCase")]
pub enum AuditEntityType {
    /// A user.
    User,
    /// A group.
    Group,
    /// A project.
    Project,
    /// The instance itself.
    Instance,
}

/// An audit event, which records the author and the object of an action.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "audit_events")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The ID of the user, or -1 without a user.
    pub author_id: i64,
    /// The type of the resource.
    pub entity_type: AuditEntityType,
    /// The ID of the resource, which may be deleted.
    pub entity_id: i64,
    /// The name of the kind of event.
    pub event_name: String,
    /// The details, as JSON.
    #[sea_orm(column_type = "Text")]
    pub details: String,
    /// When the event occurred.
    pub created_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Selects all events, newest first.
#[must_use]
pub fn newest_first() -> Select<Entity> {
    Entity::find().order_by_desc(Column::Id)
}

/// Selects the events of a resource, newest first.
pub fn of_entity(kind: AuditEntityType, id: i64) -> Select<Entity> {
    newest_first()
        .filter(Column::EntityType.eq(kind))
        .filter(Column::EntityId.eq(id))
}
