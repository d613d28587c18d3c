//! Views of merge requests, their approvals and external status checks.

pub mod approval_rules;
pub mod approvals;
pub mod external_status_checks;
pub mod merge_request;
pub mod merge_request_version;
