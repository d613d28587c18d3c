//! The kinds of background jobs, and the work that recurs. The queue itself is [`storage::jobs`].

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
