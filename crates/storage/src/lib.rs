//! The database: connections and transactions, one entity per table, and the job queue.

pub mod database;
pub mod entities;
mod error_chain;
pub mod jobs;

pub use error_chain::error_chain;
