//! Handlers of the container registry.

pub mod container_registry;
