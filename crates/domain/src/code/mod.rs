//! Repository content: branches, tags, commits, files, pushes, snippets and templates.

pub mod branch_protection;
pub mod branches;
pub mod code_analysis;
pub mod code_owners;
pub mod commits;
pub mod deploy_keys;
pub mod fetch_statistics;
pub mod files;
pub mod jobs;
pub mod mirrored_push;
pub mod protected_refs;
pub mod push_decision;
pub mod push_events;
mod push_options;
pub mod push_rules;
pub mod receive_pack;
pub mod ref_updates;
pub mod repositories;
pub mod repository_access;
pub mod rule_subject;
pub mod snippets;
pub mod tag_protection;
pub mod tags;
pub mod templates;
