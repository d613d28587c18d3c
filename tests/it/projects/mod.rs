//! Projects.

mod create;
mod delete;
mod edit;
mod list;
mod read;
