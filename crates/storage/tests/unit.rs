//! The unit tests of this package, run by the harness of the workspace, which reports missing databases.
//!
//! The modules are compiled into this binary, because the tests use private items.

// Most items of a library have no user in its tests. Each module of tests warns of unregistered functions itself.
#![allow(dead_code, missing_docs, clippy::expect_used, clippy::unwrap_used)]

#[path = "../src/clock.rs"]
mod clock;
#[path = "../src/database/mod.rs"]
pub mod database;
#[path = "../src/database_copy/mod.rs"]
pub mod database_copy;
#[path = "../src/entities/mod.rs"]
pub mod entities;
#[path = "../src/error_chain.rs"]
mod error_chain;
#[path = "../src/fault.rs"]
mod fault;
#[path = "../src/jobs/mod.rs"]
pub mod jobs;
#[path = "../src/metric_names.rs"]
pub mod metric_names;

pub use clock::ClockWatch;
pub use error_chain::error_chain;
pub use fault::{Fault, fault};

fn main() -> std::process::ExitCode {
    harness::main()
}
