//! What the server uses of the world outside it and of large bodies of knowledge, as plain clients: nothing here knows
//! tables or rules.

pub mod languages;
pub mod licenses;
pub mod object_storage;
pub mod templates;
mod tls;
pub mod webhooks;
