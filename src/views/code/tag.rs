//! Tags.

use domain::code::tags::TagDetails;

use crate::views::code::commit;

/// Returns a tag; `project_url` is the URL of the project's page. The server has no release notes and no
/// protected tags.
#[must_use]
pub fn tag(details: TagDetails, project_url: &str) -> contract::Tag {
    contract::Tag {
        commit: details.commit.map(|found| commit::commit(found, project_url)),
        name: details.tag.name,
        message: details.tag.message,
        target: details.tag.target.to_string(),
        release: None,
        protected: false,
    }
}
