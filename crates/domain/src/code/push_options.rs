//! Options of a push (`git push -o`), and the message for the pusher.
//!
//! Unknown options are ignored, as by the reference service. `ci.skip` has no effect, because a push creates no pipeline.

use crate::code::push_decision::{ProposalKind, ProposedUpdate};
use crate::identity::access::ProjectAccess;
use crate::kernel::ref_changes::MergeRequestOptions;

/// Maximum number of new branches that the message names.
const MAX_NAMED_BRANCHES: usize = 3;

/// Returns the attributes of the merge requests to create, if the options request them.
pub(super) fn merge_request_options(options: &[String]) -> Option<MergeRequestOptions> {
    let mut attributes = MergeRequestOptions::default();
    let mut is_requested = false;
    for option in options {
        let Some(option) = option.strip_prefix("merge_request.") else {
            continue;
        };
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        let text = || Some(value.to_owned()).filter(|value| !value.trim().is_empty());
        let flag = || !matches!(value, "false" | "0");
        match name {
            "create" => is_requested = flag(),
            "target" => attributes.target = text(),
            "title" => attributes.title = text(),
            // A line of a push option cannot contain a line break.
            "description" => attributes.description = text().map(|value| value.replace("\\n", "\n")),
            "draft" => attributes.draft = flag(),
            "label" => attributes.labels.extend(text()),
            "squash" => attributes.squash = Some(flag()),
            "remove_source_branch" => attributes.remove_source_branch = Some(flag()),
            _ => {}
        }
    }
    is_requested.then_some(attributes)
}

/// Returns the message that shows how to create merge requests for the new branches of a push.
pub(super) fn message(access: &ProjectAccess, updates: &[ProposedUpdate], is_requested: bool) -> String {
    let project = &access.project;
    let has_merge_requests = project.printing_merge_request_link_enabled
        && access
            .effective_access()
            .has_feature(project.merge_requests_access_level);
    // The first branch of a repository is its default branch.
    let Some(default_branch) = project.default_branch.as_deref().filter(|_| has_merge_requests) else {
        return String::new();
    };
    let new = updates
        .iter()
        .filter(|update| update.kind == ProposalKind::Create)
        .filter_map(|update| update.reference.strip_prefix("refs/heads/"))
        .filter(|branch| *branch != default_branch);
    let lines = new.take(MAX_NAMED_BRANCHES).map(|branch| match is_requested {
        true => format!("A merge request for {branch} will be created.\n"),
        false => format!(
            "To create a merge request for {branch}, run:\n  git push -o merge_request.create origin {branch}\n"
        ),
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(options: &[&str]) -> Option<MergeRequestOptions> {
        merge_request_options(
            &options
                .iter()
                .map(|option| (*option).to_owned())
                .collect::<Vec<_>>(),
        )
    }

    #[test]
    fn options_set_attributes_of_requested_merge_request() {
        let all = parsed(&[
            "ci.skip",
            "merge_request.create",
            "merge_request.target=stable",
            "merge_request.title=A = b",
            "merge_request.description=One\\nTwo",
            "merge_request.draft",
            "merge_request.label=bug",
            "merge_request.label=new",
            "merge_request.squash=false",
            "merge_request.remove_source_branch",
            "merge_request.unknown=1",
        ]);
        let expected = MergeRequestOptions {
            target: Some("stable".to_owned()),
            title: Some("A = b".to_owned()),
            description: Some("One\nTwo".to_owned()),
            draft: true,
            labels: vec!["bug".to_owned(), "new".to_owned()],
            squash: Some(false),
            remove_source_branch: Some(true),
        };
        assert_eq!(all, Some(expected));
    }

    #[test]
    fn other_options_request_no_merge_request() {
        for options in [
            &[][..],
            &["ci.skip"],
            &["merge_request.title=x"],
            &["merge_request.create=false"],
        ] {
            assert_eq!(parsed(options), None, "{options:?}");
        }
        assert_eq!(
            parsed(&["merge_request.create", "merge_request.target= "]),
            Some(MergeRequestOptions::default())
        );
    }
}
