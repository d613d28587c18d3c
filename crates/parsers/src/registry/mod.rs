//! Paths and names of the container registry.

mod image_name;
mod path;

pub use image_name::{ImageName, InvalidImageName};
pub use path::{RegistryPath, RepositoryResource, accepts_large_body, is_registry_path};
