//! Packages.

pub mod generic_packages;
pub mod npm_packages;
pub mod project_packages;
pub mod python_packages;
