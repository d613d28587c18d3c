//! Tags.

use domain::code::tags::TagDetail;

use crate::views::code::commit as view;

/// Returns a tag; `project_url` is the URL of the project's page. The server has no release notes.
#[must_use]
pub fn tag(detail: TagDetail, project_url: &str) -> contract::Tag {
    contract::Tag {
        commit: detail.commit.map(|commit| view::commit(commit, project_url)),
        name: detail.tag.name,
        message: detail.tag.message,
        target: detail.tag.target.to_string(),
        release: None,
        protected: detail.protected,
    }
}
