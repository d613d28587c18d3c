//! Groups.

mod create;
mod list;
