//! Packages.

pub mod generic_packages;
pub mod project_packages;
