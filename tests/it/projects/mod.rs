//! Projects.

mod avatar;
mod code;
mod create;
mod delete;
mod edit;
mod features;
mod form;
mod list;
mod lists;
mod plans;
mod reach;
mod read;
mod restore;
mod transfer;
