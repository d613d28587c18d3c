//! Tests of the container registry.

pub mod container_registry;
pub mod registry_protocol;
