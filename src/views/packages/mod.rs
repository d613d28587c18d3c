//! Packages.

pub mod npm;
pub mod package;
pub mod protection_rule;
pub mod simple_index;
