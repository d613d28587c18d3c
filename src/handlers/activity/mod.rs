//! Handlers of events.

pub mod events;
