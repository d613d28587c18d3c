//! Background jobs of the container registry.

pub mod collect_registry_garbage;
pub mod delete_registry_repository;
pub mod delete_registry_tags;
pub mod run_expiration_policy;
