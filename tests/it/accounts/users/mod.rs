//! User accounts.

mod avatar;
mod create;
mod deactivation;
mod delete;
mod get;
mod update;
