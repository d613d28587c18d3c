//! Behavior common to all operations: authentication and parsing of requests.

mod authentication;
mod connections;
mod error_order;
mod parameters;
