//! Merge requests.

use domain::delivery::deployments;
use domain::identity::access::{GroupAccess, InstanceAccess, ProjectAccess};
use domain::identity::space_access;
use domain::kernel::caller::Caller;
use domain::kernel::error::{Error, Result};
use domain::kernel::page::{Page, PageRequest};
use domain::kernel::patch::Patch;
use domain::planning::issuables::time_tracking::Change as TimesChange;
use domain::planning::issuables::{self, Place, Scope, assignees};
use domain::planning::milestones;
use domain::planning::state_event::StateEvent;
use domain::review::merge_requests::{
    self, Change, Filter, NewMergeRequest, Order, Row, Wanted, closing_issues, subscriptions, time_tracking,
};

use crate::api::routes::MergeRequestsApi;
use crate::app::App;
use crate::handlers::patch::IntoPatch;
use crate::handlers::planning::issuables::issuable_filter;
use crate::views::accounts::users::reference;
use crate::views::planning::issue::{IssueViewOptions, issue, time_stats};
use crate::views::review::merge_request::{merge_request, simple, state_filter};
use contract::{
    AddMergeRequestSpentTimeRequest, CreateMergeRequestRequest, DeleteMergeRequestRequest,
    GetMergeRequestRequest, GetMergeRequestTimeStatsRequest, IssuableFilter, Issue, IssueStateEvent,
    ListDeploymentMergeRequestsRequest, ListGroupMergeRequestsRequest,
    ListGroupMilestoneMergeRequestsRequest, ListIssueClosingMergeRequestsRequest,
    ListIssueRelatedMergeRequestsRequest, ListMergeRequestClosesIssuesRequest,
    ListMergeRequestParticipantsRequest, ListMergeRequestsRequest, ListProjectMergeRequestsRequest,
    ListProjectMilestoneMergeRequestsRequest, MergeRequest, MergeRequestFilter, MergeRequestOrder,
    MergeRequestView, ResetMergeRequestSpentTimeRequest, ResetMergeRequestTimeEstimateRequest,
    SetMergeRequestTimeEstimateRequest, SubscribeToMergeRequestRequest, TimeStats,
    UnsubscribeFromMergeRequestRequest, UpdateMergeRequestRequest, UserReference, Wip,
};

/// Returns the filter of a list of merge requests.
///
/// # Errors
/// If the scope is unknown.
fn merge_request_filter(filter: MergeRequestFilter, shared: IssuableFilter) -> Result<Filter> {
    Ok(Filter {
        state: filter.state.and_then(state_filter),
        source_branch: filter.source_branch,
        target_branch: filter.target_branch,
        source_project_id: filter.source_project_id,
        draft: filter.wip.map(|wip| wip == Wip::Yes),
        deployment_id: None,
        order: order(filter.order_by),
        shared: issuable_filter(shared)?,
    })
}

fn order(order: Option<MergeRequestOrder>) -> Order {
    match order {
        None | Some(MergeRequestOrder::CreatedAt) => Order::CreatedAt,
        Some(MergeRequestOrder::UpdatedAt) => Order::UpdatedAt,
        Some(MergeRequestOrder::Priority) => Order::Priority,
        Some(MergeRequestOrder::LabelPriority) => Order::LabelPriority,
        Some(MergeRequestOrder::MilestoneDue) => Order::MilestoneDue,
        Some(MergeRequestOrder::Popularity) => Order::Popularity,
    }
}

/// Rejects reviewers, which merge requests do not support.
fn refuse_reviewers(ids: &[i64]) -> Result<()> {
    match ids.iter().all(|id| *id == 0) {
        true => Ok(()),
        false => Err(Error::attribute(
            "reviewer_ids",
            "must be empty: merge requests have no reviewers; use assignee_ids",
        )),
    }
}

/// View options of list items.
#[derive(Debug, Clone, Copy, Default)]
struct Shown {
    parts: IssueViewOptions,
    simple: bool,
}

impl Shown {
    fn new(elsewhere: bool, labels_details: bool, view: Option<MergeRequestView>) -> Self {
        Self {
            parts: IssueViewOptions {
                elsewhere,
                labels_details,
            },
            simple: view == Some(MergeRequestView::Simple),
        }
    }
}

impl App {
    async fn merge_requests(
        &self,
        caller: &Caller,
        place: Place,
        filter: Filter,
        page: PageRequest,
        shown: Shown,
    ) -> Result<Page<MergeRequest>> {
        let page = merge_requests::list(&self.backend, caller, place, &filter, &page).await?;
        let instance = &self.backend.instance;
        Ok(page.map(|row| match shown.simple {
            true => simple(&instance.base_url, &row.project_path, row.merge_request),
            false => merge_request(instance, row, shown.parts),
        }))
    }

    /// Returns the merge requests of a milestone.
    async fn milestone_merge_requests(
        &self,
        place: space_access::SpaceAccess,
        milestone_id: i64,
        page: PageRequest,
    ) -> Result<Page<MergeRequest>> {
        let milestone = milestones::get(&self.backend, &place, milestone_id)
            .await?
            .milestone;
        let shared = issuables::Filter {
            milestone_id: Some(milestone.id),
            ..issuables::Filter::default()
        };
        let filter = Filter {
            shared,
            ..Filter::default()
        };
        let within = match &place.project {
            Some(project) => Place::Project(project.id),
            None => Place::Everywhere,
        };
        let shown = Shown::new(place.project.is_none(), false, None);
        self.merge_requests(&place.caller, within, filter, page, shown)
            .await
    }

    pub(crate) fn merge_request(&self, row: Row, asked: &ProjectAccess) -> MergeRequest {
        let parts = IssueViewOptions {
            elsewhere: row.merge_request.target_project_id != asked.project.id,
            ..IssueViewOptions::default()
        };
        merge_request(&self.backend.instance, row, parts)
    }

    async fn merge_request_times(
        &self,
        access: ProjectAccess,
        iid: i64,
        change: TimesChange,
    ) -> Result<TimeStats> {
        let changed = time_tracking::change(&self.backend, &access, iid, change).await?;
        Ok(time_stats(changed))
    }
}

impl MergeRequestsApi for App {
    async fn list_merge_requests(
        &self,
        access: InstanceAccess,
        request: ListMergeRequestsRequest,
        page: PageRequest,
    ) -> Result<Page<MergeRequest>> {
        let mut filter = merge_request_filter(request.merge_request_filter, request.issuable_filter)?;
        filter.shared.non_archived = request.non_archived;
        filter.shared.scope.get_or_insert(Scope::CreatedByMe);
        let shown = Shown::new(true, request.with_labels_details, request.view);
        self.merge_requests(&access.caller, Place::Everywhere, filter, page, shown)
            .await
    }

    async fn list_group_merge_requests(
        &self,
        access: GroupAccess,
        request: ListGroupMergeRequestsRequest,
        page: PageRequest,
    ) -> Result<Page<MergeRequest>> {
        let mut filter = merge_request_filter(request.merge_request_filter, request.issuable_filter)?;
        filter.shared.non_archived = request.non_archived;
        let shown = Shown::new(true, request.with_labels_details, request.view);
        let place = Place::Group(access.group.id);
        self.merge_requests(&access.caller, place, filter, page, shown)
            .await
    }

    async fn list_project_merge_requests(
        &self,
        access: ProjectAccess,
        request: ListProjectMergeRequestsRequest,
        page: PageRequest,
    ) -> Result<Page<MergeRequest>> {
        let filter = merge_request_filter(request.merge_request_filter, request.issuable_filter)?;
        let shown = Shown::new(false, request.with_labels_details, request.view);
        let place = Place::Project(access.project.id);
        self.merge_requests(&access.caller, place, filter, page, shown)
            .await
    }

    async fn create_merge_request(
        &self,
        access: ProjectAccess,
        request: CreateMergeRequestRequest,
    ) -> Result<MergeRequest> {
        let body = request.body;
        let all = Patch::set_if_some(body.assignee_ids);
        refuse_reviewers(&body.reviewer_ids.unwrap_or_default())?;
        let new = NewMergeRequest {
            source_branch: body.source_branch,
            target_branch: body.target_branch,
            target_project_id: body.target_project_id,
            title: body.title,
            description: body.description,
            metadata: issuables::Metadata {
                discussion_locked: body.discussion_locked,
                assignee_ids: assignees(all, Patch::set_if_some(body.assignee_id)),
                milestone_id: Patch::set_if_some(body.milestone_id),
                labels: Patch::set_if_some(body.labels),
                ..issuables::Metadata::default()
            },
            remove_source_branch: body.remove_source_branch,
            squash: body.squash,
            allow_collaboration: body.allow_collaboration,
        };
        let row = merge_requests::create(&self.backend, &access, new).await?;
        Ok(self.merge_request(row, &access))
    }

    async fn get_merge_request(
        &self,
        access: ProjectAccess,
        request: GetMergeRequestRequest,
    ) -> Result<MergeRequest> {
        let wanted = Wanted {
            diverged: request.include_diverged_commits_count,
            rebase: request.include_rebase_in_progress,
            ..Wanted::default()
        };
        let row = merge_requests::read(&self.backend, &access, request.merge_request_iid, wanted).await?;
        Ok(self.merge_request(row, &access))
    }

    async fn update_merge_request(
        &self,
        access: ProjectAccess,
        request: UpdateMergeRequestRequest,
    ) -> Result<MergeRequest> {
        let body = request.body;
        refuse_reviewers(&body.reviewer_ids.take().unwrap_or_default())?;
        let change = Change {
            metadata: issuables::Metadata {
                discussion_locked: body.discussion_locked,
                assignee_ids: assignees(body.assignee_ids.into_patch(), body.assignee_id.into_patch()),
                milestone_id: body.milestone_id.into_patch(),
                labels: body.labels.into_patch(),
                add_labels: body.add_labels.unwrap_or_default(),
                remove_labels: body.remove_labels.unwrap_or_default(),
            },
            title: body.title,
            description: body.description.into_patch(),
            target_branch: body.target_branch,
            state_event: body.state_event.map(|event| match event {
                IssueStateEvent::Close => StateEvent::Close,
                IssueStateEvent::Reopen => StateEvent::Reopen,
            }),
            remove_source_branch: body.remove_source_branch,
            squash: body.squash,
            allow_collaboration: body.allow_collaboration,
        };
        let row = merge_requests::edit(&self.backend, &access, request.merge_request_iid, change).await?;
        Ok(self.merge_request(row, &access))
    }

    async fn delete_merge_request(
        &self,
        access: ProjectAccess,
        request: DeleteMergeRequestRequest,
    ) -> Result<()> {
        let unmodified_since = request.if_unmodified_since.as_deref();
        merge_requests::delete(
            &self.backend,
            &access,
            request.merge_request_iid,
            unmodified_since,
        )
        .await
    }

    async fn subscribe_to_merge_request(
        &self,
        access: ProjectAccess,
        request: SubscribeToMergeRequestRequest,
    ) -> Result<MergeRequest> {
        let iid = request.merge_request_iid;
        let row = subscriptions::subscribe(&self.backend, &access, iid, true).await?;
        Ok(self.merge_request(row, &access))
    }

    async fn unsubscribe_from_merge_request(
        &self,
        access: ProjectAccess,
        request: UnsubscribeFromMergeRequestRequest,
    ) -> Result<MergeRequest> {
        let iid = request.merge_request_iid;
        let row = subscriptions::subscribe(&self.backend, &access, iid, false).await?;
        Ok(self.merge_request(row, &access))
    }

    async fn list_merge_request_participants(
        &self,
        access: ProjectAccess,
        request: ListMergeRequestParticipantsRequest,
        page: PageRequest,
    ) -> Result<Page<UserReference>> {
        let iid = request.merge_request_iid;
        let page = subscriptions::participants(&self.backend, &access, iid, &page).await?;
        Ok(page.map(|user| reference(&self.backend.instance.base_url, &user)))
    }

    async fn list_merge_request_closes_issues(
        &self,
        access: ProjectAccess,
        request: ListMergeRequestClosesIssuesRequest,
        page: PageRequest,
    ) -> Result<Page<Issue>> {
        let iid = request.merge_request_iid;
        let page = closing_issues::closes(&self.backend, &access, iid, &page).await?;
        Ok(page.map(|row| {
            let parts = IssueViewOptions {
                elsewhere: row.issue.project_id != access.project.id,
                ..IssueViewOptions::default()
            };
            issue(&self.backend.instance, row, parts)
        }))
    }

    async fn get_merge_request_time_stats(
        &self,
        access: ProjectAccess,
        request: GetMergeRequestTimeStatsRequest,
    ) -> Result<TimeStats> {
        let times = time_tracking::read(&self.backend, &access, request.merge_request_iid).await?;
        Ok(time_stats(times))
    }

    async fn set_merge_request_time_estimate(
        &self,
        access: ProjectAccess,
        request: SetMergeRequestTimeEstimateRequest,
    ) -> Result<TimeStats> {
        let change = TimesChange::Estimate(request.body.duration);
        self.merge_request_times(access, request.merge_request_iid, change)
            .await
    }

    async fn reset_merge_request_time_estimate(
        &self,
        access: ProjectAccess,
        request: ResetMergeRequestTimeEstimateRequest,
    ) -> Result<TimeStats> {
        let change = TimesChange::ResetEstimate;
        self.merge_request_times(access, request.merge_request_iid, change)
            .await
    }

    async fn add_merge_request_spent_time(
        &self,
        access: ProjectAccess,
        request: AddMergeRequestSpentTimeRequest,
    ) -> Result<TimeStats> {
        let change = TimesChange::Spend(request.body.duration);
        self.merge_request_times(access, request.merge_request_iid, change)
            .await
    }

    async fn reset_merge_request_spent_time(
        &self,
        access: ProjectAccess,
        request: ResetMergeRequestSpentTimeRequest,
    ) -> Result<TimeStats> {
        let change = TimesChange::ResetSpent;
        self.merge_request_times(access, request.merge_request_iid, change)
            .await
    }

    async fn list_project_milestone_merge_requests(
        &self,
        access: ProjectAccess,
        request: ListProjectMilestoneMergeRequestsRequest,
        page: PageRequest,
    ) -> Result<Page<MergeRequest>> {
        self.milestone_merge_requests(access.into(), request.milestone_id, page)
            .await
    }

    async fn list_group_milestone_merge_requests(
        &self,
        access: GroupAccess,
        request: ListGroupMilestoneMergeRequestsRequest,
        page: PageRequest,
    ) -> Result<Page<MergeRequest>> {
        self.milestone_merge_requests(access.into(), request.milestone_id, page)
            .await
    }

    async fn list_deployment_merge_requests(
        &self,
        access: ProjectAccess,
        request: ListDeploymentMergeRequestsRequest,
        page: PageRequest,
    ) -> Result<Page<MergeRequest>> {
        let deployment = deployments::find(&self.backend, &access, request.deployment_id).await?;
        let mut filter = merge_request_filter(request.merge_request_filter, request.issuable_filter)?;
        filter.deployment_id = Some(deployment.id);
        let shown = Shown::new(false, request.with_labels_details, request.view);
        let place = Place::Project(access.project.id);
        self.merge_requests(&access.caller, place, filter, page, shown)
            .await
    }

    async fn list_issue_closing_merge_requests(
        &self,
        access: ProjectAccess,
        request: ListIssueClosingMergeRequestsRequest,
        page: PageRequest,
    ) -> Result<Page<MergeRequest>> {
        let page = closing_issues::closing(&self.backend, &access, request.issue_iid, &page).await?;
        Ok(page.map(|row| self.merge_request(row, &access)))
    }

    async fn list_issue_related_merge_requests(
        &self,
        access: ProjectAccess,
        request: ListIssueRelatedMergeRequestsRequest,
        page: PageRequest,
    ) -> Result<Page<MergeRequest>> {
        let page = closing_issues::related(&self.backend, &access, request.issue_iid, &page).await?;
        Ok(page.map(|row| self.merge_request(row, &access)))
    }
}
