//! Holdfast: a repository-hosting server with a spec-first REST API.

pub mod api;
pub mod app;
pub mod config;
pub mod handlers;
pub mod observability;
pub mod server;
pub mod views;
pub mod web;
pub mod worker;
