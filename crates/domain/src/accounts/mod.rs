//! Users and what belongs to them: avatars, keys, email addresses and uploads.

pub mod avatars;
pub mod custom_attributes;
pub mod jobs;
pub mod project_access_tokens;
pub mod uploads;
pub mod users;
