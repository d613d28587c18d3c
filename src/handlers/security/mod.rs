//! Handlers of vulnerabilities.

pub mod vulnerabilities;
