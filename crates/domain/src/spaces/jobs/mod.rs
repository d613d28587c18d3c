//! Background jobs of this area.

pub mod fork_repository;
pub mod recount_closing;
pub mod sweep_expired_access;
