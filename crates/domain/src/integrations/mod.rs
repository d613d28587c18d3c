//! Clients of external systems and embedded reference data. They do not depend on tables or domain rules.

pub mod git_remotes;
pub mod languages;
pub mod licenses;
pub mod object_storage;
pub mod templates;
mod tls;
pub mod webhooks;
pub mod work_shares;
