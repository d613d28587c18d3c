//! Background jobs, stored in the database with the data they refer to and run at least once.
//!
//! A job is a small serializable struct that implements [`Job`]. [`enqueue`] adds it in the transaction of
//! the change that causes it, so both happen or neither. A [`Runner`] on any node runs it with the handler
//! its [`Registry`] has for the kind. If a node dies during a job, the lease on the job expires and another
//! node starts it again. Handlers must therefore be idempotent.
//!
//! For the reasons against a library, see `docs/adr/0004-store-background-jobs-in-the-database.md`.

pub mod collect_images;
pub mod create_repository;
pub mod delete_group;
pub mod delete_merged_branches;
pub mod delete_project;
pub mod delete_registry_repository;
pub mod delete_registry_tags;
pub mod delete_user;
pub mod deliver_hook;
pub mod export_group;
pub mod finish_merge;
pub mod fork_repository;
pub mod import_group;
pub mod keep_merge_request;
pub mod maintain_repository;
pub mod merge_waiting;
pub mod read_messages;
pub mod recount_closing;
mod registry;
pub mod run_schedule;
mod scheduler;
pub mod ship_merge_requests;
pub mod sweep_expired_access;

pub use registry::registry;
pub use scheduler::run as recur;
