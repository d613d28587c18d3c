//! Groups.

mod above;
mod avatar;
mod create;
mod delete;
mod edit;
mod list;
mod projects;
mod share;
mod transfer;
mod within;
