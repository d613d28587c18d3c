//! Background jobs of this area.

pub mod finish_merge;
pub mod keep_merge_request;
pub mod merge_waiting;
pub mod recount_closing;
