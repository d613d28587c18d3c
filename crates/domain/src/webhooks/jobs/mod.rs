//! Background jobs of webhooks.

pub mod deliver_webhook;
