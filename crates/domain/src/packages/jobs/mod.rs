//! Jobs of packages.

pub mod collect_package_garbage;
