//! Views of vulnerabilities.

pub mod vulnerability;
