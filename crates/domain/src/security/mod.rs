//! Vulnerabilities.

pub mod vulnerabilities;
