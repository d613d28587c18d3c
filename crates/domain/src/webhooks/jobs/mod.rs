//! Background jobs of webhooks.

pub mod delete_webhook;
pub mod deliver_status_check;
pub mod deliver_webhook;
