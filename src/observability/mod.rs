//! Metrics of the server: their table, their recorder and the scrape (`docs/METRICS.md`). Traces of its work (ADR 48).

mod exposition;
mod process;
pub mod recorder;
pub mod requests;
pub mod scrape;
pub mod table;
pub mod traces;
