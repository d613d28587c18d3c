//! Audit events of groups.

use storage::entities::namespaces::{Column, Model};

use crate::audit::{self, AuditEntity, AuditEvent, AuditKind};

/// Columns that affect who can do what.
const SETTINGS: [Column; 10] = [
    Column::Name,
    Column::Path,
    Column::ShareWithGroupLock,
    Column::MembershipLock,
    Column::RequireTwoFactorAuthentication,
    Column::TwoFactorGracePeriod,
    Column::ProjectCreationLevel,
    Column::SubgroupCreationLevel,
    Column::DefaultBranchProtection,
    Column::RequestAccessEnabled,
];

/// Returns the event of a new group.
pub(crate) fn created(group: &Model) -> AuditEvent {
    let event = AuditEvent::of(AuditKind::GroupCreated, AuditEntity::namespace(group));
    event.to(group.visibility.as_str())
}

/// Returns the events of the changes of a group.
pub(crate) fn changes(before: &Model, after: &Model) -> Vec<AuditEvent> {
    let entity = AuditEntity::namespace(after);
    let mut events = audit::changes(AuditKind::GroupSettingChanged, &entity, before, after, &SETTINGS);
    if before.visibility != after.visibility {
        let event = AuditEvent::of(AuditKind::GroupVisibilityChanged, entity);
        events.push(
            event
                .from(before.visibility.as_str())
                .to(after.visibility.as_str()),
        );
    }
    events
}
