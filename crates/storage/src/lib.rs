//! The database: connections and transactions, one entity per table, copies into the other kind of database, and the job
//! queue.

pub mod clock;
pub mod database;
pub mod database_copy;
pub mod entities;
mod error_chain;
mod fault;
pub mod jobs;
pub mod metric_names;

pub use clock::ClockWatch;
pub use error_chain::error_chain;
pub use fault::{Fault, exhausted_files, fault, record_exhausted_files};
