//! Regressions and invariants: durability, security, memory use and caching.

mod api_commits;
mod concurrent_writers;
mod crashes;
mod full_disk;
mod large_push;
mod memory_attacks;
mod merges;
mod nodes;
mod response_cache;
mod security_connections;
mod security_credentials;
mod security_input;
mod security_private_projects;
mod security_projects;
pub mod security_secrets;
mod shutdown;
mod unicode;
mod webhooks;
