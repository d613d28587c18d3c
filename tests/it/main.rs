//! The integration tests: a real server on a free port, real repositories, the real git client.
//!
//! Every answer that any test sees is validated against the contract (`support::contract`). Every scenario runs
//! on SQLite, and on PostgreSQL too when `HOLDFAST_TEST_DATABASE_URL` is set.

mod cli;
mod git;
mod metadata;
mod regressions;
mod support;
