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
    let of = |kind, columns: &[Column]| audit::changes(kind, &entity, before, after, columns);
    let mut events = of(AuditKind::GroupSettingChanged, &SETTINGS);
    events.extend(of(AuditKind::GroupVisibilityChanged, &[Column::Visibility]));
    events
}
