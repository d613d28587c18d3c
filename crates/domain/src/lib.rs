//! The rules of the server: what is allowed, what changes together, and what follows from a change.
//!
//! Each module is an area. An area imports only the areas listed before it in `docs/ARCHITECTURE.md`. A service takes the
//! access that its caller was granted (see [`identity::access`]), so it cannot be called without a check. It returns entities
//! and plain types, and knows nothing of HTTP.

pub mod accounts;
pub mod activity;
pub mod audit;
pub mod code;
pub mod delivery;
pub mod discussion;
pub mod identity;
pub mod instance;
pub mod integrations;
pub mod kernel;
pub mod lifecycle;
pub mod mirrors;
pub mod operations;
pub mod packages;
pub mod planning;
pub mod registry;
pub mod releases;
pub mod review;
pub mod secrets;
pub mod security;
pub mod spaces;
pub mod transfers;
pub mod webhooks;
