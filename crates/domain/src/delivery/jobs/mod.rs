//! Background jobs of this area.

pub mod auto_merge;
pub mod link_merge_requests;
pub mod run_schedule;
