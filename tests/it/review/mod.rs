//! Tests of merge requests and their approvals.

pub mod approvals;
pub mod merge_requests;
pub mod merges;
