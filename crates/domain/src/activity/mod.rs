//! Events, and the outboxes of requests to webhooks and external status checks.

pub(crate) mod branch_filters;
pub mod events;
pub mod jobs;
pub mod outbox;
pub mod push_data;
pub mod status_checks;
