//! Views of events.

pub mod events;
