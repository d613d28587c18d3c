//! Branches and their protection.

mod create;
mod delete;
mod get;
mod protection;
