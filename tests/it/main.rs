//! The integration tests: a real server on a free port, real repositories, the real git client.
//!
//! Every answer that any test sees is validated against the contract (`support::contract`). Every scenario runs
//! on SQLite, and on PostgreSQL too when `HOLDFAST_TEST_DATABASE_URL` is set.

mod branches;
mod cli;
mod commits;
mod edge;
mod git;
mod groups;
mod impersonation_tokens;
mod members;
mod metadata;
mod personal_access_tokens;
mod projects;
mod regressions;
mod repositories;
mod repository_files;
mod sign_in;
mod support;
mod tags;
mod users;
