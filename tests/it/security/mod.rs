//! Tests of vulnerabilities.

pub mod vulnerabilities;
