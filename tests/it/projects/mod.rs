//! Projects.

mod avatar;
mod code;
mod create;
mod delete;
mod edit;
mod list;
mod read;
mod restore;
mod transfer;
