//! Handlers of merge requests and their approvals.

pub mod approval_rules;
pub mod approvals;
pub mod merge_request_versions;
pub mod merge_requests;
pub mod merges;
