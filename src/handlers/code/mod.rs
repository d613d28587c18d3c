//! Handlers of repositories: branches, tags, commits, files, snippets and templates.

pub mod branches;
pub mod commits;
pub mod deploy_keys;
pub mod project_snippets;
pub mod project_storage;
pub mod protected_branches;
pub mod protected_tags;
pub mod pull_mirrors;
pub mod push_rules;
pub mod remote_mirrors;
pub mod repositories;
pub mod repository_files;
pub mod snippets;
pub mod tags;
pub mod templates;
