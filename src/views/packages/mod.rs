//! Packages.

pub mod npm;
pub mod package;
pub mod simple_index;
