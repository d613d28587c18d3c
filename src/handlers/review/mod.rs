//! Handlers of merge requests.

pub mod merge_requests;
pub mod merges;
