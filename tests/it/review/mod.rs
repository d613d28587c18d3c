//! Tests of merge requests, their approvals and external status checks.

pub mod approvals;
mod merge_request_versions;
pub mod merge_requests;
pub mod merges;
pub mod status_checks;
