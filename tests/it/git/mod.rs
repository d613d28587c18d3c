//! The real git client against the server.

pub mod access;
mod custom_refs;
mod deploy_tokens;
mod early_response;
mod memory_limits;
mod nested_trees;
mod protocol;
mod push_creation;
pub mod push_decision;
mod push_options;
mod rules;
mod sandbox;
mod slow_clients;
mod slow_pushes;
mod transfer;
