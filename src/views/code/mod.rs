//! Views of repositories: branches, tags, commits, files, snippets and templates.

pub mod archive;
pub mod blob;
pub mod branch;
pub mod commit;
pub mod comparison;
pub mod contributor;
pub mod deploy_key;
pub mod file;
pub mod protection;
pub mod pull_mirror;
pub mod push_rule;
pub mod remote_mirror;
pub mod snapshot;
pub mod snippet;
pub mod tag;
pub mod template;
pub mod tree;
