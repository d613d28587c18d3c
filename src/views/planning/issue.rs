//! Issues.

use std::sync::Arc;

use domain::kernel::Instance;
use domain::kernel::policy::InstancePlan;
use domain::kernel::text::durations::format_duration;
use domain::planning::issuables::time_tracking::TrackedTimes;
use domain::planning::issues::IssueDetail;
use domain::planning::labels::colors;
use serde_json::{Value, json};
use storage::entities::issues;
use storage::entities::labels::LabelSummary;
use storage::entities::users::UserSummary;

use crate::views::accounts::users::{creator, reference};
use crate::views::enums::Convert;
use crate::views::html;
use crate::views::planning::milestone::milestone;
use contract::MaybeUndefined;
use contract::{Issue, IssueLinks, IssueStateFilter, References, TaskCompletionStatus, TimeStats};

/// View options of an issue.
#[derive(Debug, Clone, Copy, Default)]
pub struct IssueViewOptions {
    /// Whether it is shown among issues of other projects.
    pub elsewhere: bool,
    /// Whether labels are shown with details.
    pub labels_details: bool,
}

/// Returns an issue in the format of the contract.
#[must_use]
pub fn issue(instance: &Instance, detail: IssueDetail, options: IssueViewOptions) -> Issue {
    let base = instance.base_url.as_str();
    let IssueDetail {
        issue,
        project_path,
        author,
        closed_by,
        assignees,
        labels,
        milestone: milestone_detail,
        subscribed,
    } = detail;
    let user = |user: Option<UserSummary>| user.map(|user| reference(base, user));
    let short = format!("#{}", issue.iid);
    let full = format!("{project_path}{short}");
    let project = format!("{base}/api/v4/projects/{}", issue.project_id);
    let url = format!("{project}/issues/{}", issue.iid);
    Issue {
        id: issue.id,
        iid: issue.iid,
        project_id: issue.project_id,
        state: issue.state.convert(),
        created_at: issue.created_at.into(),
        updated_at: issue.updated_at.into(),
        closed_at: issue.closed_at.map(Into::into),
        closed_by: user(closed_by),
        labels: labels
            .iter()
            .map(|row| label(row, options.labels_details))
            .collect(),
        milestone: milestone_detail
            .map(Arc::unwrap_or_clone)
            .map(|detail| milestone(base, detail)),
        assignee: assignees.first().map(|user| reference(base, user)),
        assignees: assignees.iter().map(|user| reference(base, user)).collect(),
        author: creator(base, author),
        user_notes_count: issue.user_notes_count.into(),
        merge_requests_count: issue.merge_requests_count.into(),
        upvotes: issue.upvotes.into(),
        downvotes: issue.downvotes.into(),
        due_date: issue.due_date,
        confidential: issue.confidential,
        discussion_locked: issue.discussion_locked,
        web_url: format!("{base}/{project_path}/-/issues/{}", issue.iid),
        time_stats: time_stats(TrackedTimes {
            estimate: issue.time_estimate,
            spent: issue.total_time_spent,
        }),
        task_completion_status: TaskCompletionStatus {
            count: issue.tasks.into(),
            completed_count: issue.completed_tasks.into(),
        },
        weight: weight(instance.plan, issue.weight),
        has_tasks: issue.tasks > 0,
        task_status: format!("{} of {} tasks completed", issue.completed_tasks, issue.tasks),
        links: IssueLinks {
            notes: format!("{url}/notes"),
            award_emoji: format!("{url}/award_emoji"),
            self_: url,
            project,
        },
        references: References {
            relative: if options.elsewhere {
                full.clone()
            } else {
                short.clone()
            },
            short: short.clone(),
            full,
        },
        reference: short,
        moved_to_id: issue.moved_to_id,
        subscribed,
        epic_issue_id: None,
        relative_position: None,
        issue_link_id: None,
        link_type: None,
        link_created_at: None,
        link_updated_at: None,
        title: issue.title,
        description: issue.description,
    }
}

/// Returns the state of a filter, if it selects only one.
#[must_use]
pub fn state_filter(state: IssueStateFilter) -> Option<issues::IssueState> {
    match state {
        IssueStateFilter::Opened => Some(issues::IssueState::Opened),
        IssueStateFilter::Closed => Some(issues::IssueState::Closed),
        IssueStateFilter::All => None,
    }
}

/// Returns the weight if the plan includes weights.
fn weight(plan: InstancePlan, weight: Option<i32>) -> MaybeUndefined<i64> {
    match weight {
        _ if plan < InstancePlan::Starter => MaybeUndefined::Undefined,
        Some(weight) => MaybeUndefined::Value(weight.into()),
        None => MaybeUndefined::Null,
    }
}

/// Returns a label as its title or an object.
pub(crate) fn label(label: &LabelSummary, details: bool) -> Value {
    if !details {
        return Value::String(label.title.clone());
    }
    let description = label.description.as_deref();
    json!({
        "id": label.id,
        "name": label.title,
        "color": label.color,
        "description": description,
        "description_html": description.map(html::escape).unwrap_or_default(),
        "text_color": colors::text_color(&label.color),
    })
}

/// Returns the estimated and the spent time.
#[must_use]
pub fn time_stats(times: TrackedTimes) -> TimeStats {
    TimeStats {
        time_estimate: times.estimate,
        total_time_spent: times.spent,
        human_time_estimate: format_duration(times.estimate),
        human_total_time_spent: format_duration(times.spent),
    }
}
