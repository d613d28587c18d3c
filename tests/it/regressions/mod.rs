//! Regressions and invariants: durability, security, memory use and caching.

mod api_commits;
mod cache_consistency;
mod coalescing;
pub mod concurrent_writers;
mod crashes;
pub mod faults;
mod full_disk;
mod large_push;
mod memory_attacks;
mod memory_growth;
mod merges;
mod nodes;
mod related_rows;
mod response_cache;
mod security_connections;
mod security_credentials;
mod security_input;
mod security_private_projects;
mod security_projects;
pub mod security_secrets;
mod shutdown;
mod unchanged_updates;
mod unicode;
mod webhooks;
