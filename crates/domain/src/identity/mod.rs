//! Callers: tokens, sessions, sign-in, OAuth, and what a caller may access.

pub mod access;
pub mod access_tokens;
pub mod authentication;
pub mod git_access;
pub mod job_tokens;
mod known_addresses;
pub mod oauth;
pub mod password_attempts;
pub mod passwords;
pub mod sessions;
pub mod space_access;
