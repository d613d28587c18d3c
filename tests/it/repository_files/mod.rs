//! Files of a repository.

mod access;
mod raw;
mod reading;
mod writing;
