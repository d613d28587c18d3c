//! Packages.

pub mod cargo_packages;
pub mod generic_packages;
pub mod maven_packages;
pub mod npm_packages;
pub mod project_packages;
pub mod protection_rules;
pub mod python_packages;
