//! Tests of the instance: settings, feature gates, metadata, recurring work and statistics.

pub mod application_settings;
pub mod feature_gates;
pub mod metadata;
mod recurring_work;
mod statistics;
