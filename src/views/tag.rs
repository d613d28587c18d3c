//! Tags.

use crate::api::contract;
use crate::services::tags::TagDetails;
use crate::views::commit;

/// A tag of the project whose page is `project_url`. This server keeps no release notes and protects no tags.
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
