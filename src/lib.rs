//! Holdfast: a repository-hosting server with a spec-first REST API.

pub mod git;

pub mod entities;
