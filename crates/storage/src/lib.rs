//! The database: connections and transactions, one entity per table, and the job queue.

pub mod database;
pub mod entities;
mod error_chain;
mod full_disk;
pub mod jobs;

pub use error_chain::error_chain;
pub use full_disk::is_disk_full;
