//! Regressions and invariants: durability, security, memory use and caching.

mod api_commits;
mod crashes;
mod large_push;
mod letters;
mod merges;
mod nodes;
mod remembered;
mod security_connections;
mod security_credentials;
mod security_input;
mod security_projects;
mod security_secrets;
mod security_strangers;
mod shutdown;
mod webhooks;
mod writers;
