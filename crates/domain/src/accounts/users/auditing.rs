//! Audit events of accounts.

use storage::entities::user_identities;
use storage::entities::users::{Column, Model};

use crate::audit::{self, AuditEntity, AuditEvent, AuditKind, AuditTarget};

/// Columns that affect permissions and limits.
const SETTINGS: [Column; 5] = [
    Column::External,
    Column::CanCreateGroup,
    Column::ProjectsLimit,
    Column::PrivateProfile,
    Column::Provisioned,
];

/// Returns the event of a new account.
pub(super) fn created(user: &Model) -> AuditEvent {
    let event = AuditEvent::of(AuditKind::UserCreated, AuditEntity::user(user));
    match user.admin {
        true => event.to("administrator"),
        false => event,
    }
}

/// Returns the event of a new identity, given as provider and ID.
pub(super) fn identity_added(user: &Model, identity: Option<&(String, String)>) -> Option<AuditEvent> {
    let (provider, uid) = identity?;
    let target = AuditTarget::named("Identity", format!("{provider}: {uid}"));
    Some(AuditEvent::new(
        AuditKind::UserIdentityAdded,
        AuditEntity::user(user),
        target,
    ))
}

/// Returns the event of an identity that was removed.
pub(super) fn identity_removed(user: &Model, identity: &user_identities::Model) -> AuditEvent {
    let text = format!("{}: {}", identity.provider, identity.extern_uid);
    let target = AuditTarget::named("Identity", text);
    AuditEvent::new(AuditKind::UserIdentityRemoved, AuditEntity::user(user), target)
}

/// Returns the events of the changes of an account.
pub(super) fn changes(before: &Model, after: &Model, new_password: bool) -> Vec<AuditEvent> {
    let entity = AuditEntity::user(after);
    let of = |kind, columns: &[Column]| audit::changes(kind, &entity, before, after, columns);
    let mut events = of(AuditKind::UserAdminChanged, &[Column::Admin]);
    events.extend(of(AuditKind::UsernameChanged, &[Column::Username]));
    events.extend(of(AuditKind::UserEmailChanged, &[Column::Email]));
    events.extend(of(AuditKind::UserSettingChanged, &SETTINGS));
    if new_password {
        events.push(AuditEvent::of(AuditKind::UserPasswordChanged, entity));
    }
    events
}
