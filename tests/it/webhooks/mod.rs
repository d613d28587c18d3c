//! Tests of webhooks.

pub mod project_hooks;
