//! Tests of events.

pub mod events;
