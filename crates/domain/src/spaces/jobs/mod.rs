//! Background jobs of this area.

pub mod delete_project;
pub mod fork_repository;
pub mod import_repository;
pub mod sweep_expired_access;
