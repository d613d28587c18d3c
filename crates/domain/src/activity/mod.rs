//! Events, and the outboxes of requests to webhooks and external status checks.

pub mod events;
pub mod jobs;
pub mod outbox;
pub mod push_data;
pub mod status_checks;
