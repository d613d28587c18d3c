//! Packages.

pub mod package;
