//! Epics and their issues.

use domain::kernel::Instance;
use domain::planning::epics::Row;
use domain::planning::epics::issues::Gathered;

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
pub fn epic(base: &str, row: Row, parts: EpicViewOptions) -> Epic {
    let Row {
        epic,
        group,
        author,
        labels,
    } = row;
    let short = format!("&{}", epic.iid);
    let full = format!("{}{short}", group.full_path);
    let in_group = format!("{base}/api/v4/groups/{}", epic.namespace_id);
    let this = format!("{in_group}/epics/{}", epic.iid);
    let here = epic.namespace_id == parts.group_id;
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
            relative: if here { short.clone() } else { full.clone() },
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
            .map(|one| label(one, parts.labels_details))
            .collect(),
        upvotes: epic.upvotes.into(),
        downvotes: epic.downvotes.into(),
        user_notes_count: epic.user_notes_count.into(),
        links: EpicLinks {
            epic_issues: format!("{this}/issues"),
            self_: this,
            group: in_group,
        },
    }
}

/// Returns an issue with its position in an epic.
#[must_use]
pub fn gathered(instance: &Instance, found: Gathered) -> Issue {
    let parts = issue::IssueViewOptions {
        elsewhere: true,
        labels_details: false,
    };
    Issue {
        epic_issue_id: Some(found.link.id),
        relative_position: found.link.relative_position,
        ..issue(instance, found.issue, parts)
    }
}

/// Returns the link between an issue and an epic.
#[must_use]
pub fn link(instance: &Instance, row: Row, found: Gathered) -> EpicIssueLink {
    let parts = EpicViewOptions {
        group_id: row.epic.namespace_id,
        labels_details: false,
    };
    EpicIssueLink {
        id: found.link.id,
        relative_position: found.link.relative_position,
        epic: epic(&instance.base_url, row, parts),
        issue: gathered(instance, found),
    }
}
