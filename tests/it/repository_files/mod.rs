//! Files of a repository (specification 4.1).

mod access;
mod raw;
mod reading;
mod writing;
