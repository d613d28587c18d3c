//! Members of groups and projects.

mod changes;
mod directory;
mod expiry;
mod inheritance;
mod lists;
