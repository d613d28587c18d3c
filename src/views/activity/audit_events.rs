//! Audit events.

use domain::audit::AuditEntityType;
use domain::audit::listing::AuditEventDetail;

use contract::{AuditEvent, AuditEventDetails, AuditEventEntityType};

/// Returns an audit event.
#[must_use]
pub fn audit_event(found: AuditEventDetail) -> AuditEvent {
    let AuditEventDetail { row, details } = found;
    AuditEvent {
        id: row.id,
        author_id: row.author_id,
        entity_id: row.entity_id,
        entity_type: match row.entity_type {
            AuditEntityType::User => AuditEventEntityType::User,
            AuditEntityType::Group => AuditEventEntityType::Group,
            AuditEntityType::Project => AuditEventEntityType::Project,
            AuditEntityType::Instance => AuditEventEntityType::Instance,
        },
        details: AuditEventDetails {
            event_name: details.event_name,
            add: details.add,
            change: details.change,
            remove: details.remove,
            custom_message: details.custom_message,
            from: details.from,
            to: details.to,
            author_name: details.author_name,
            target_id: details.target_id,
            target_type: details.target_type,
            target_details: details.target_details,
            ip_address: details.ip_address,
            entity_path: details.entity_path,
            administrator_id: details.administrator_id,
            administrator_name: details.administrator_name,
            access_token_id: details.access_token_id,
        },
        created_at: row.created_at.into(),
    }
}

/// Converts the type of an entity.
#[must_use]
pub fn entity_type(kind: AuditEventEntityType) -> AuditEntityType {
    match kind {
        AuditEventEntityType::User => AuditEntityType::User,
        AuditEventEntityType::Group => AuditEntityType::Group,
        AuditEventEntityType::Project => AuditEntityType::Project,
        AuditEventEntityType::Instance => AuditEntityType::Instance,
    }
}
