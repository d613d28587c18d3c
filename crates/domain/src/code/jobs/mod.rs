//! Background jobs of this area.

pub mod auto_merge;
pub mod create_repository;
pub mod delete_merged_branches;
pub mod maintain_repository;
pub mod process_commit_messages;
pub mod prune_repository;
pub mod refresh_closing_issues;
pub mod set_head;
