//! Types and functions that all areas share.

pub mod backend;
pub mod blob_content;
pub mod budget_report;
pub mod budgets;
pub mod cache;
pub mod caller;
pub mod cron;
pub mod download;
pub mod error;
pub mod fetch_counter;
pub mod names;
pub mod page;
pub mod patch;
pub mod patterns;
pub mod policy;
pub mod preconditions;
pub mod public_keys;
pub mod query;
pub mod rate_limit;
pub mod record_validator;
pub mod ref_changes;
pub mod settings;
pub mod text;
pub mod urls;

pub use backend::{Backend, BackendParts, Instance};
