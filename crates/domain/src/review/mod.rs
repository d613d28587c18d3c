//! Merge requests and their approvals.

pub mod approvals;
pub mod jobs;
pub mod merge_requests;
