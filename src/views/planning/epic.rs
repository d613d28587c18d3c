//! Epics and their issues.

use domain::kernel::Instance;
use domain::planning::epics::EpicDetail;
use domain::planning::epics::issues::EpicIssue;

use crate::views::accounts::users::creator;
use crate::views::enums::Convert;
use crate::views::links;
use crate::views::planning::issue::{self, issue, label};
use contract::{Epic, EpicIssueLink, EpicLinks, Issue, References};

/// View options of an epic.
#[derive(Debug, Clone, Copy)]
pub struct EpicViewOptions {
    /// The ID of the group in which it is shown.
    pub group_id: i64,
    /// Whether labels are shown with details.
    pub labels_details: bool,
}

/// Returns an epic in the format of the contract; `base` is the base URL.
#[must_use]
pub fn epic(base: &str, detail: EpicDetail, options: EpicViewOptions) -> Epic {
    let EpicDetail {
        epic,
        group,
        author,
        labels,
    } = detail;
    let short = format!("&{}", epic.iid);
    let full = format!("{}{short}", group.full_path);
    let in_group = format!("{base}/api/v4/groups/{}", epic.namespace_id);
    let url = format!("{in_group}/epics/{}", epic.iid);
    let in_own_group = epic.namespace_id == options.group_id;
    Epic {
        id: epic.id,
        iid: epic.iid,
        group_id: epic.namespace_id,
        parent_id: epic.parent_id,
        title: epic.title,
        description: epic.description,
        confidential: epic.confidential,
        state: epic.state.convert(),
        web_url: format!("{}/-/epics/{}", links::group(base, &group.full_path), epic.iid),
        references: References {
            relative: if in_own_group { short.clone() } else { full.clone() },
            short,
            full,
        },
        author: creator(base, author),
        start_date: epic.start_date,
        due_date: epic.due_date,
        end_date: epic.due_date,
        created_at: epic.created_at.into(),
        updated_at: epic.updated_at.into(),
        closed_at: epic.closed_at.map(Into::into),
        labels: labels
            .iter()
            .map(|row| label(row, options.labels_details))
            .collect(),
        upvotes: epic.upvotes.into(),
        downvotes: epic.downvotes.into(),
        user_notes_count: epic.user_notes_count.into(),
        links: EpicLinks {
            epic_issues: format!("{url}/issues"),
            self_: url,
            group: in_group,
        },
    }
}

/// Returns an issue with its position in an epic.
#[must_use]
pub fn epic_issue(instance: &Instance, epic_issue: EpicIssue) -> Issue {
    let options = issue::IssueViewOptions {
        elsewhere: true,
        labels_details: false,
    };
    Issue {
        epic_issue_id: Some(epic_issue.association.id),
        relative_position: epic_issue.association.relative_position,
        ..issue(instance, epic_issue.issue, options)
    }
}

/// Returns the association of an issue and an epic.
#[must_use]
pub fn epic_issue_link(instance: &Instance, detail: EpicDetail, epic_issue: EpicIssue) -> EpicIssueLink {
    let options = EpicViewOptions {
        group_id: detail.epic.namespace_id,
        labels_details: false,
    };
    EpicIssueLink {
        id: epic_issue.association.id,
        relative_position: epic_issue.association.relative_position,
        epic: epic(&instance.base_url, detail, options),
        issue: self::epic_issue(instance, epic_issue),
    }
}
