//! Public keys of users and projects.

pub mod openpgp;
pub mod ssh;
