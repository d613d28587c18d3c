//! Payloads of background jobs that higher areas run.

pub mod deliver_status_check;
pub mod deliver_webhook;
