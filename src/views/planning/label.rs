//! Labels.

use domain::planning::labels::{Row, colors};

use crate::views::html;
use contract::{GroupLabel, ProjectLabel};

/// Returns a label in the format of projects.
#[must_use]
pub fn project_label(row: Row) -> ProjectLabel {
    let label = row.label;
    ProjectLabel {
        id: label.id,
        text_color: colors::of_text(&label.color).to_owned(),
        name: label.title,
        color: label.color,
        description_html: html::escape(label.description.as_deref().unwrap_or_default()),
        description: label.description,
        open_issues_count: row.counts.map(|counts| counts.open_issues),
        closed_issues_count: row.counts.map(|counts| counts.closed_issues),
        open_merge_requests_count: row.counts.map(|counts| counts.open_merge_requests),
        subscribed: row.subscribed,
        priority: row.priority.map(Into::into),
        is_project_label: label.project_id.is_some(),
    }
}

/// Returns a label in the format of groups.
#[must_use]
pub fn group_label(row: Row) -> GroupLabel {
    let label = row.label;
    GroupLabel {
        id: label.id,
        text_color: colors::of_text(&label.color).to_owned(),
        name: label.title,
        color: label.color,
        description_html: html::escape(label.description.as_deref().unwrap_or_default()),
        description: label.description,
        open_issues_count: row.counts.map(|counts| counts.open_issues),
        closed_issues_count: row.counts.map(|counts| counts.closed_issues),
        open_merge_requests_count: row.counts.map(|counts| counts.open_merge_requests),
        subscribed: row.subscribed,
    }
}
