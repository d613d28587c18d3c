//! Merge requests.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use domain::kernel::Instance;
use domain::planning::issuables::time_tracking::TrackedTimes;
use domain::review::merge_requests::{self, MergeRequestDetail, MergeRequestExtras, is_draft};
use storage::entities::merge_requests::{MergeRequestState, MergeStatus, Model};
use storage::entities::pipelines;
use storage::entities::users::UserSummary;

use crate::views::accounts::users::{creator, reference};
use crate::views::code::commit;
use crate::views::delivery::pipeline::{ProjectLocation, pipeline_of, reference as reference_of};
use crate::views::enums::Convert;
use crate::views::planning::issue::{IssueViewOptions, label, time_stats};
use crate::views::planning::milestone::milestone;
use contract::MaybeUndefined;
use contract::{
    DetailedMergeStatus, DiffRefs, MergeRequest, MergeRequestStateFilter, MergeRequestUser, References,
    TaskCompletionStatus,
};

/// Returns a merge request in the format of the contract.
#[must_use]
pub fn merge_request(
    instance: &Instance,
    detail: MergeRequestDetail,
    options: IssueViewOptions,
) -> MergeRequest {
    let base = instance.base_url.as_str();
    let MergeRequestDetail {
        merge_request,
        project_path,
        author,
        closed_by,
        merged_by,
        auto_merge_user,
        assignees,
        reviewers,
        labels,
        milestone: milestone_detail,
        unresolved,
        extras,
    } = detail;
    let user = |user: Option<UserSummary>| nullable(user.map(|user| reference(base, user)));
    let short = format!("!{}", merge_request.iid);
    let full = format!("{project_path}{short}");
    let draft = is_draft(&merge_request.title);
    let simple = simple(base, &project_path, merge_request.clone());
    let view = MergeRequest {
        merge_user: user(merged_by.clone().or(auto_merge_user)),
        merged_by: user(merged_by),
        merged_at: nullable(merge_request.merged_at.map(Into::into)),
        closed_by: user(closed_by),
        closed_at: nullable(merge_request.closed_at.map(Into::into)),
        target_branch: Some(merge_request.target_branch.clone()),
        source_branch: Some(merge_request.source_branch.clone()),
        user_notes_count: Some(merge_request.user_notes_count.into()),
        upvotes: Some(merge_request.upvotes.into()),
        downvotes: Some(merge_request.downvotes.into()),
        assignee: nullable(assignees.first().map(|user| reference(base, user))),
        assignees: Some(assignees.iter().map(|user| reference(base, user)).collect()),
        reviewers: Some(reviewers.iter().map(|user| reference(base, user)).collect()),
        author: Some(creator(base, author)),
        source_project_id: nullable(merge_request.source_project_id),
        target_project_id: Some(merge_request.target_project_id),
        labels: Some(
            labels
                .iter()
                .map(|row| label(row, options.labels_details))
                .collect(),
        ),
        work_in_progress: Some(draft),
        draft: Some(draft),
        milestone: nullable(
            milestone_detail
                .map(Arc::unwrap_or_clone)
                .map(|detail| milestone(base, detail)),
        ),
        merge_when_pipeline_succeeds: Some(merge_request.merge_when_pipeline_succeeds),
        merge_status: Some(merge_request.merge_status.convert()),
        prepared_at: Some(merge_request.created_at.into()),
        imported: Some(false),
        sha: Some(merge_request.head_sha.clone()),
        merge_commit_sha: nullable(merge_request.merge_commit_sha.clone()),
        squash_commit_sha: nullable(merge_request.squash_commit_sha.clone()),
        discussion_locked: Some(merge_request.discussion_locked),
        should_remove_source_branch: nullable(merge_request.should_remove_source_branch),
        force_remove_source_branch: nullable(merge_request.force_remove_source_branch),
        allow_collaboration: Some(merge_request.allow_collaboration),
        references: Some(References {
            relative: if options.elsewhere {
                full.clone()
            } else {
                short.clone()
            },
            short: short.clone(),
            full,
        }),
        reference: Some(short),
        time_stats: Some(time_stats(TrackedTimes {
            estimate: merge_request.time_estimate,
            spent: merge_request.total_time_spent,
        })),
        squash: Some(merge_request.squash),
        task_completion_status: Some(TaskCompletionStatus {
            count: merge_request.tasks.into(),
            completed_count: merge_request.completed_tasks.into(),
        }),
        has_conflicts: Some(merge_request.merge_status == MergeStatus::CannotBeMerged),
        blocking_discussions_resolved: Some(!unresolved),
        ..simple
    };
    match extras {
        Some(extras) => with_extras(base, view, &merge_request, extras),
        None => view,
    }
}

/// Returns the state of a filter, if it selects only one.
#[must_use]
pub fn state_filter(state: MergeRequestStateFilter) -> Option<MergeRequestState> {
    match state {
        MergeRequestStateFilter::Opened => Some(MergeRequestState::Opened),
        MergeRequestStateFilter::Closed => Some(MergeRequestState::Closed),
        MergeRequestStateFilter::Locked => Some(MergeRequestState::Locked),
        MergeRequestStateFilter::Merged => Some(MergeRequestState::Merged),
        MergeRequestStateFilter::All => None,
    }
}

/// Returns the simple format of a merge request.
#[must_use]
pub fn simple(base: &str, project_path: &str, merge_request: Model) -> MergeRequest {
    MergeRequest {
        id: merge_request.id,
        iid: merge_request.iid,
        project_id: merge_request.target_project_id,
        state: merge_request.state.convert(),
        created_at: merge_request.created_at.into(),
        updated_at: merge_request.updated_at.into(),
        merged_by: MaybeUndefined::Undefined,
        merge_user: MaybeUndefined::Undefined,
        merged_at: MaybeUndefined::Undefined,
        closed_by: MaybeUndefined::Undefined,
        closed_at: MaybeUndefined::Undefined,
        target_branch: None,
        source_branch: None,
        user_notes_count: None,
        upvotes: None,
        downvotes: None,
        assignee: MaybeUndefined::Undefined,
        assignees: None,
        reviewers: None,
        author: None,
        source_project_id: MaybeUndefined::Undefined,
        target_project_id: None,
        labels: None,
        work_in_progress: None,
        draft: None,
        milestone: MaybeUndefined::Undefined,
        merge_when_pipeline_succeeds: None,
        merge_status: None,
        detailed_merge_status: None,
        prepared_at: None,
        imported: None,
        sha: None,
        merge_commit_sha: MaybeUndefined::Undefined,
        squash_commit_sha: MaybeUndefined::Undefined,
        discussion_locked: None,
        should_remove_source_branch: MaybeUndefined::Undefined,
        force_remove_source_branch: MaybeUndefined::Undefined,
        allow_collaboration: None,
        reference: None,
        references: None,
        web_url: format!("{base}/{project_path}/-/merge_requests/{}", merge_request.iid),
        time_stats: None,
        squash: None,
        task_completion_status: None,
        has_conflicts: None,
        blocking_discussions_resolved: None,
        subscribed: None,
        changes_count: MaybeUndefined::Undefined,
        merge_error: MaybeUndefined::Undefined,
        first_contribution: None,
        user: None,
        diff_refs: None,
        pipeline: MaybeUndefined::Undefined,
        head_pipeline: MaybeUndefined::Undefined,
        latest_build_started_at: MaybeUndefined::Undefined,
        latest_build_finished_at: MaybeUndefined::Undefined,
        first_deployed_to_production_at: MaybeUndefined::Undefined,
        diverged_commits_count: None,
        rebase_in_progress: None,
        changes: None,
        overflow: None,
        title: merge_request.title,
        description: merge_request.description,
    }
}

/// Adds the fields that are not in lists.
fn with_extras(base: &str, view: MergeRequest, row: &Model, extras: MergeRequestExtras) -> MergeRequest {
    let pipeline = extras.pipeline.as_ref().map(|found| {
        let path = found.project_path.as_str();
        (ProjectLocation { base, path }, found)
    });
    let moment = |time: fn(&pipelines::Model) -> Option<DateTime<Utc>>| {
        let (_, found) = pipeline?;
        time(&found.pipeline).map(Into::into)
    };
    MergeRequest {
        detailed_merge_status: Some(detailed_status(extras.detailed_status)),
        subscribed: extras.subscribed,
        changes_count: nullable(extras.changes_count),
        merge_error: nullable(row.merge_error.clone()),
        first_contribution: Some(extras.first_contribution),
        user: Some(MergeRequestUser {
            can_merge: extras.can_merge,
        }),
        diff_refs: Some(DiffRefs {
            base_sha: row.base_sha.clone(),
            head_sha: row.head_sha.clone(),
            start_sha: row.start_sha.clone(),
        }),
        pipeline: nullable(
            pipeline
                .as_ref()
                .map(|(at, found)| reference_of(*at, &found.pipeline)),
        ),
        latest_build_started_at: nullable(moment(|found| found.started_at)),
        latest_build_finished_at: nullable(moment(|found| found.finished_at)),
        head_pipeline: nullable(
            pipeline.map(|(at, found)| pipeline_of(at, found.pipeline.clone(), found.user.clone())),
        ),
        first_deployed_to_production_at: nullable(extras.first_deployed_to_production_at.map(Into::into)),
        diverged_commits_count: extras
            .diverged_commits_count
            .map(|count| i64::try_from(count).unwrap_or(i64::MAX)),
        rebase_in_progress: extras.rebase_in_progress,
        ..view
    }
}

fn detailed_status(status: merge_requests::DetailedMergeStatus) -> DetailedMergeStatus {
    use merge_requests::DetailedMergeStatus as Status;
    match status {
        Status::NotOpen => DetailedMergeStatus::NotOpen,
        Status::Unchecked => DetailedMergeStatus::Unchecked,
        Status::Draft => DetailedMergeStatus::DraftStatus,
        Status::NotApproved => DetailedMergeStatus::NotApproved,
        Status::StatusChecksMustPass => DetailedMergeStatus::StatusChecksMustPass,
        Status::DiscussionsNotResolved => DetailedMergeStatus::DiscussionsNotResolved,
        Status::NeedRebase => DetailedMergeStatus::NeedRebase,
        Status::Conflict => DetailedMergeStatus::Conflict,
        Status::CiStillRunning => DetailedMergeStatus::CiStillRunning,
        Status::CiMustPass => DetailedMergeStatus::CiMustPass,
        Status::Mergeable => DetailedMergeStatus::Mergeable,
    }
}

fn nullable<T>(value: Option<T>) -> MaybeUndefined<T> {
    value.map_or(MaybeUndefined::Null, MaybeUndefined::Value)
}

/// Adds the changed files.
#[must_use]
pub fn with_changes(view: MergeRequest, diff: git::Diff) -> MergeRequest {
    MergeRequest {
        overflow: Some(diff.truncated),
        changes: Some(diff.entries.into_iter().map(commit::diff).collect()),
        ..view
    }
}
