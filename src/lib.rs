//! Holdfast: a repository-hosting server with a spec-first REST API.

pub mod api;
pub mod app;
pub mod config;
pub mod error;
pub mod handlers;
pub mod integrations;
pub mod jobs;
pub mod policy;
pub mod secrets;
pub mod server;
pub mod services;
pub mod views;
pub mod web;
