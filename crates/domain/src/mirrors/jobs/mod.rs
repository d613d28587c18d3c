//! Background jobs of remote mirrors.

pub mod update_remote_mirror;
