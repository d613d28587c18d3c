//! Callers: tokens, sessions, sign-in, second factors, OAuth, and what a caller may access.

pub mod access;
pub mod access_tokens;
mod attempt_events;
pub mod authentication;
pub mod deploy_tokens;
pub mod git_access;
pub mod job_token_scopes;
pub mod job_tokens;
mod known_addresses;
pub mod oauth;
pub mod password_attempts;
pub mod passwords;
pub(crate) mod project_features;
pub mod reauthorization;
pub mod sessions;
pub mod space_access;
pub mod two_factor;
