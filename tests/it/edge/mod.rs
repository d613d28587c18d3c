//! Behavior common to all operations: authentication and parsing of requests.

mod authentication;
mod body_memory;
mod client_budgets;
mod connections;
pub mod database_shares;
mod error_order;
mod parameters;
mod rate_limits;
mod resource_locations;
mod slow_bodies;
mod trailing_slashes;
