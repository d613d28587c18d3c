//! Settings and feature gates of the instance.

pub mod feature_gates;
pub mod settings;
pub mod statistics;
