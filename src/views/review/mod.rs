//! Views of merge requests and their approvals.

pub mod approval_rules;
pub mod approvals;
pub mod merge_request;
pub mod merge_request_version;
