//! Background jobs of mirrors.

pub mod update_pull_mirror;
pub mod update_remote_mirror;
