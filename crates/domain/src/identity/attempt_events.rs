//! Audit events of attempts to prove a password. Clients can repeat attempts, so the number of events is limited.

use storage::entities::users;

use crate::audit::{self, Actor, AuditEntity, AuditEvent, AuditKind, AuditTarget};
use crate::identity::password_attempts::{self, AttemptSource};
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};

/// Maximum number of events of one kind for a user within ten minutes.
const MAX_EVENTS_OF_USER: u64 = 100;
/// Maximum number of events of one kind for all unknown logins within ten minutes. Clients can send any number of logins
/// from many addresses.
const MAX_EVENTS_OF_UNKNOWN_LOGINS: u64 = 500;

/// Records a wrong login or password, unless there are too many such events already. The login that was sent is not part of
/// the event, because users enter passwords in the wrong field. Runs the same statements with and without a user, so that
/// the time does not reveal whether the user exists.
///
/// # Errors
/// Returns an error if the database fails.
pub(super) async fn record_failure(
    backend: &Backend,
    client: Actor,
    kind: AuditKind,
    user: Option<&users::Model>,
) -> Result<()> {
    let event = match user {
        Some(user) => AuditEvent::of(kind, AuditEntity::user(user)),
        None => AuditEvent::new(
            kind,
            AuditEntity::instance(),
            AuditTarget::named("User", "Unknown login"),
        ),
    };
    if has_room(backend, kind, user).await? {
        audit::record_attempt(backend, client, event).await?;
    }
    Ok(())
}

/// Counts an event of a user, or of an unknown login. Returns false if too many events were counted already.
///
/// # Errors
/// Returns an error if the database fails.
pub(super) async fn has_room(
    backend: &Backend,
    kind: AuditKind,
    user: Option<&users::Model>,
) -> Result<bool> {
    let (name, limit) = match user {
        Some(user) => (format!("{}:{}", kind.name(), user.id), MAX_EVENTS_OF_USER),
        None => (kind.name().to_owned(), MAX_EVENTS_OF_UNKNOWN_LOGINS),
    };
    let source = AttemptSource::of_audit_events(backend, &name, limit).await?;
    // Most events of an attack are refused here, without a write.
    let counted = match password_attempts::check_limits(backend, &source).await {
        Ok(()) => password_attempts::record_attempt(backend, &source)
            .await
            .map(drop),
        refused => refused,
    };
    match counted {
        Ok(()) => Ok(true),
        Err(Error::RateLimited(_)) => Ok(false),
        Err(error) => Err(error),
    }
}
