//! Background jobs of this area.

pub mod merge_waiting;
pub mod run_schedule;
pub mod ship_merge_requests;
