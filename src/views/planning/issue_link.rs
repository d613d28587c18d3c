//! Links between issues.

use domain::kernel::Instance;
use domain::planning::issues::links::{IssueLink as Link, LinkedIssue};

use crate::views::enums::Convert;
use crate::views::planning::issue::{IssueViewOptions, issue};
use contract::{Issue, IssueLink};

/// The issues can belong to different projects.
const OPTIONS: IssueViewOptions = IssueViewOptions {
    elsewhere: true,
    labels_details: false,
};

/// Returns an issue with its relation to another one.
#[must_use]
pub fn linked_issue(instance: &Instance, linked: LinkedIssue) -> Issue {
    Issue {
        issue_link_id: Some(linked.link.id),
        link_type: Some(linked.link_type.convert()),
        link_created_at: Some(linked.link.created_at.into()),
        link_updated_at: Some(linked.link.updated_at.into()),
        ..issue(instance, linked.issue, OPTIONS)
    }
}

/// Returns a link with both issues.
#[must_use]
pub fn issue_link(instance: &Instance, link: Link) -> IssueLink {
    IssueLink {
        id: link.link.id,
        source_issue: issue(instance, link.source, OPTIONS),
        target_issue: issue(instance, link.target, OPTIONS),
        link_type: link.link.link_type.convert(),
    }
}
