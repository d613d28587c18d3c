//! Views of merge requests.

pub mod merge_request;
