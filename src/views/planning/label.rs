//! Labels.

use domain::planning::labels::{LabelDetail, colors};

use crate::views::html;
use contract::{GroupLabel, ProjectLabel};

/// Returns a label in the format of projects.
#[must_use]
pub fn project_label(detail: LabelDetail) -> ProjectLabel {
    let label = detail.label;
    ProjectLabel {
        id: label.id,
        text_color: colors::text_color(&label.color).to_owned(),
        name: label.title,
        color: label.color,
        description_html: html::escape(label.description.as_deref().unwrap_or_default()),
        description: label.description,
        open_issues_count: detail.counts.map(|counts| counts.open_issues),
        closed_issues_count: detail.counts.map(|counts| counts.closed_issues),
        open_merge_requests_count: detail.counts.map(|counts| counts.open_merge_requests),
        subscribed: detail.subscribed,
        priority: detail.priority.map(Into::into),
        is_project_label: label.project_id.is_some(),
    }
}

/// Returns a label in the format of groups.
#[must_use]
pub fn group_label(detail: LabelDetail) -> GroupLabel {
    let label = detail.label;
    GroupLabel {
        id: label.id,
        text_color: colors::text_color(&label.color).to_owned(),
        name: label.title,
        color: label.color,
        description_html: html::escape(label.description.as_deref().unwrap_or_default()),
        description: label.description,
        open_issues_count: detail.counts.map(|counts| counts.open_issues),
        closed_issues_count: detail.counts.map(|counts| counts.closed_issues),
        open_merge_requests_count: detail.counts.map(|counts| counts.open_merge_requests),
        subscribed: detail.subscribed,
    }
}
