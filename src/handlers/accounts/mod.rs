//! Handlers of users and their data.

pub mod custom_attributes;
pub mod gpg_keys;
pub mod project_access_tokens;
pub mod project_uploads;
pub mod two_factor_authentication;
pub mod user_emails;
pub mod user_keys;
pub mod user_status;
pub mod users;
