//! Tags.

use domain::code::tags::TagDetail;

use crate::views::code::commit as view;

/// Returns a tag; `project_url` is the URL of the project's page.
#[must_use]
pub fn tag(detail: TagDetail, project_url: &str) -> contract::Tag {
    let name = &detail.tag.name;
    let release = detail.release.map(|release| contract::TagRelease {
        tag_name: name.clone(),
        description: release.description,
    });
    contract::Tag {
        release,
        commit: detail.commit.map(|commit| view::commit(commit, project_url)),
        name: detail.tag.name,
        message: detail.tag.message,
        target: detail.tag.target.to_string(),
        protected: detail.protected,
    }
}
