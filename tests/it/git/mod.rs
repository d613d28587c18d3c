//! The real git client against the server.

mod access;
mod protocol;
mod rules;
mod transfer;
