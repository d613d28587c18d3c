//! Views of the instance: settings, feature gates and metadata.

pub mod application_settings;
pub mod feature_gate;
