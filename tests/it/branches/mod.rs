//! Branches and their protection.

mod protection;
mod reading;
mod removal;
mod writing;
