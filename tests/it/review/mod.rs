//! Tests of merge requests and their approvals.

pub mod approvals;
mod merge_request_versions;
pub mod merge_requests;
pub mod merges;
