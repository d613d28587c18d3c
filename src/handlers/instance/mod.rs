//! Handlers of the instance: settings, feature gates, metadata and statistics.

pub mod application_settings;
pub mod feature_gates;
pub mod metadata;
pub mod statistics;
