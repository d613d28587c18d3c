//! Events, and the outbox of webhook deliveries.

pub mod events;
pub mod jobs;
pub mod outbox;
pub mod push_data;
