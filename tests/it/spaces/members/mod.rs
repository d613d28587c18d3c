//! Members of groups and projects.

mod directory_sync;
mod expiry;
mod inheritance;
mod lists;
mod update;
