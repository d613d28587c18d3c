//! Members of groups and projects.

mod changes;
mod lists;
