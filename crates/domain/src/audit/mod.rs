//! Audit events, which record the author, the object and the client address of an action.
//!
//! A service calls [`record`] within the transaction of its change, so a change without its event cannot happen. Attempts
//! that change nothing, such as a failed sign-in, are recorded by [`record_attempt`].

mod actor;
mod comparison;
mod event;
pub mod kinds;
pub mod listing;
mod recording;
pub mod retention;

pub use actor::Actor;
pub use comparison::changes;
pub use event::{AuditDetails, AuditEntity, AuditEvent, AuditTarget};
pub use kinds::AuditKind;
pub use recording::{record, record_all, record_attempt};
pub use storage::entities::audit_events::AuditEntityType;
