//! Payloads of background jobs that higher areas run.

pub mod deliver_webhook;
