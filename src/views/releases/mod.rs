//! Views of releases.

pub mod release;
