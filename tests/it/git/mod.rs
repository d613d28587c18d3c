//! The real git client against the server.

mod access;
mod early_response;
mod protocol;
mod push_decision;
mod rules;
mod slow_clients;
mod transfer;
