//! Deletion and transfer across areas.

pub mod deletion;
pub mod jobs;
pub mod transfer;
