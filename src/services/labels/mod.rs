//! Labels of projects and groups (specification 2.5).

pub mod colors;
mod rules;
mod titles;

pub use titles::{named, resolve_or_create};
