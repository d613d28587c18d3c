//! Commits.

use crate::api::contract;
use crate::api::types::{MaybeUndefined, Timestamp};
use crate::git;
use crate::views::links;

/// How many digits a short id has (facts, section 2).
const SHORT: usize = 8;

/// The plain form, without figures and pipelines.
#[must_use]
pub fn commit(commit: &git::Commit, project_url: &str) -> contract::Commit {
    let id = commit.id.to_string();
    contract::Commit {
        short_id: id.chars().take(SHORT).collect(),
        created_at: Timestamp::from(commit.committer.time),
        parent_ids: commit.parents.iter().map(ToString::to_string).collect(),
        title: commit.title().to_owned(),
        message: commit.message.clone(),
        author_name: commit.author.name.clone(),
        author_email: commit.author.email.clone(),
        authored_date: Timestamp::from(commit.author.time),
        committer_name: commit.committer.name.clone(),
        committer_email: commit.committer.email.clone(),
        committed_date: Timestamp::from(commit.committer.time),
        web_url: links::commit(project_url, &id),
        stats: None,
        status: MaybeUndefined::Undefined,
        project_id: None,
        last_pipeline: MaybeUndefined::Undefined,
        id,
    }
}
