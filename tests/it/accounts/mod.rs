//! Tests of users and their data.

pub mod custom_attributes;
mod gpg_keys;
pub mod project_access_tokens;
pub mod project_uploads;
pub mod user_emails;
pub mod user_keys;
pub mod user_status;
pub mod users;
