//! Jobs of packages.

pub mod clean_up_packages;
pub mod collect_package_garbage;
