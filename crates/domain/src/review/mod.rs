//! Merge requests, their approvals and external status checks.

pub mod approvals;
pub mod jobs;
pub mod merge_requests;
pub mod status_checks;
