//! Merge requests.

pub mod jobs;
pub mod merge_requests;
