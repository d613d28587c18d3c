//! Deletion and transfer across areas.

pub mod jobs;
pub mod transfer;
