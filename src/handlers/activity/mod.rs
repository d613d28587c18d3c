//! Handlers of events.

pub mod audit_events;
pub mod events;
