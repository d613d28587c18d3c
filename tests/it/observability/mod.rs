//! Metrics and traces of the server, and the documents about them.

mod documents;
mod exposition;
mod metrics;
mod scrape_errors;
mod traces;
