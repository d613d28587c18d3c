//! Holdfast: a repository-hosting server with a spec-first REST API.

pub mod database;
pub mod entities;
pub mod git;
pub mod jobs;
pub mod secrets;
