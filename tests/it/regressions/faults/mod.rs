//! Faults of the machine and of the database under load. Nothing acknowledged is lost, errors are clear, and the server
//! recovers by itself.

mod busy_database;
mod clock;
mod disks;
mod kills;
pub mod load;
mod open_files;
mod postgresql_restart;
