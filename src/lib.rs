//! Holdfast: a repository-hosting server with a spec-first REST API.

pub mod api;
pub mod entities;
pub mod error;
pub mod git;
pub mod policy;
pub mod secrets;
pub mod services;
