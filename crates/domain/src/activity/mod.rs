//! Events, and the outbox of webhook deliveries.

pub mod events;
pub mod outbox;
