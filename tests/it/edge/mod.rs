//! Behavior common to all operations: authentication and parsing of requests.

mod authentication;
mod connections;
mod parameters;
mod refusals;
