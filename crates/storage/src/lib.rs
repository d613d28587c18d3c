//! The database: connections and transactions, one entity per table, and the job queue.

pub mod database;
pub mod entities;
pub mod jobs;
