//! Views of users and their data.

pub mod account;
pub mod custom_attribute;
pub mod two_factor_authentication;
pub mod upload;
pub mod users;
