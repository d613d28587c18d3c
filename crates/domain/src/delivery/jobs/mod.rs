//! Background jobs of this area.

pub mod link_merge_requests;
pub mod run_schedule;
