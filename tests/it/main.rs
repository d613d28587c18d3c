//! The integration tests: a real server on a free port, real repositories, the real git client.
//!
//! Every response that a test receives is validated against the contract (`support::contract`). Every test of a server runs
//! on SQLite and on PostgreSQL. Without PostgreSQL, its tests are ignored.

// A test that cannot go on fails by panicking.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod accounts;
mod activity;
mod audit;
mod cli;
mod code;
mod contract;
mod delivery;
mod discussion;
mod edge;
mod git;
mod identity;
mod instance;
mod observability;
mod operations_page;
mod packages;
mod planning;
mod registry;
mod regressions;
mod releases;
mod review;
mod security;
mod spaces;
mod support;
mod transfers;
mod web;
mod webhooks;

fn main() -> std::process::ExitCode {
    // Servers that run in this process start `git` through this program.
    if let Some(code) = ::git::launcher::run_if_requested() {
        return code;
    }
    // The server installs a crypto provider too, but not every test runs a server in its process.
    let _ = rustls::crypto::ring::default_provider().install_default();
    harness::main()
}
