//! Merge requests.

use domain::delivery::deployments;
use domain::identity::access::{GroupAccess, InstanceAccess, ProjectAccess};
use domain::identity::space_access::SpaceAccess;
use domain::kernel::caller::Caller;
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};
use domain::kernel::patch::Patch;
use domain::planning::issuables::time_tracking::{self, TimeTrackingUpdate};
use domain::planning::issuables::{
    IssuableFilter, IssuableKind, IssuableMetadata, IssuableOrder, IssuableScope, ListScope,
    list_participants, merge_assignee_ids,
};
use domain::planning::labels;
use domain::planning::milestones;
use domain::planning::state_event::StateEvent;
use domain::review::merge_requests::{
    self, ApprovalFilter, DeploymentFilter, MergeRequestDetail, MergeRequestFilter, MergeRequestInclude,
    MergeRequestUpdate, NewMergeRequest, ReviewerFilter, closing_issues, subscriptions,
};

use crate::api::routes::MergeRequestsApi;
use crate::app::App;
use crate::handlers::patch::IntoPatch;
use crate::handlers::planning::issuables::{issuable_filter, non_blank};
use crate::views::accounts::users::reference;
use crate::views::planning::issue::{IssueViewOptions, issue, time_stats};
use crate::views::review::merge_request::{merge_request, simple, state_filter};
use contract::timestamp::Timestamp;
use contract::{
    AddMergeRequestSpentTimeRequest, CreateMergeRequestRequest, DeleteMergeRequestRequest,
    GetMergeRequestRequest, GetMergeRequestTimeStatsRequest, Issue, IssueStateEvent,
    ListDeploymentMergeRequestsRequest, ListGroupMergeRequestsRequest,
    ListGroupMilestoneMergeRequestsRequest, ListIssueClosingMergeRequestsRequest,
    ListIssueRelatedMergeRequestsRequest, ListMergeRequestClosesIssuesRequest,
    ListMergeRequestParticipantsRequest, ListMergeRequestsRequest, ListProjectMergeRequestsRequest,
    ListProjectMilestoneMergeRequestsRequest, MergeRequest, MergeRequestView,
    ResetMergeRequestSpentTimeRequest, ResetMergeRequestTimeEstimateRequest,
    SetMergeRequestTimeEstimateRequest, SortDirection, SubscribeToMergeRequestRequest, TimeStats,
    UnsubscribeFromMergeRequestRequest, UpdateMergeRequestRequest, UserReference, Wip,
};

/// Returns the filter of a list of merge requests.
///
/// # Errors
/// If the scope is unknown.
fn merge_request_filter(
    filter: contract::MergeRequestFilter,
    shared: contract::IssuableFilter,
) -> Result<MergeRequestFilter> {
    let excluded_reviewer = shared.not.as_ref().map(|not| ReviewerFilter {
        reviewer_id: not.reviewer_id.clone(),
        reviewer_username: not.reviewer_username.clone(),
    });
    let shared = IssuableFilter {
        ascending: filter.sort == Some(SortDirection::Asc),
        ..issuable_filter(shared)?
    };
    Ok(MergeRequestFilter {
        state: filter.state.and_then(state_filter),
        source_branch: filter.source_branch,
        target_branch: filter.target_branch,
        source_project_id: filter.source_project_id,
        draft: filter.wip.map(|wip| wip == Wip::Yes),
        reviewer: ReviewerFilter {
            reviewer_id: filter.reviewer_id.and_then(non_blank),
            reviewer_username: filter.reviewer_username.and_then(non_blank),
        },
        excluded_reviewer: excluded_reviewer.unwrap_or_default(),
        approvals: ApprovalFilter {
            approved_by_ids: filter.approved_by_ids.unwrap_or_default(),
            approved_by_usernames: filter.approved_by_usernames.unwrap_or_default(),
        },
        deployments: DeploymentFilter {
            id: None,
            environment: filter.environment.and_then(non_blank),
            deployed_after: filter.deployed_after.map(Timestamp::to_utc),
            deployed_before: filter.deployed_before.map(Timestamp::to_utc),
        },
        order: filter.order_by.map(merge_request_order).unwrap_or_default(),
        shared,
    })
}

fn merge_request_order(order: contract::MergeRequestOrder) -> IssuableOrder {
    use contract::MergeRequestOrder as Name;
    match order {
        Name::CreatedAt => IssuableOrder::CreatedAt,
        Name::UpdatedAt => IssuableOrder::UpdatedAt,
        Name::Priority => IssuableOrder::Priority,
        Name::LabelPriority => IssuableOrder::LabelPriority,
        Name::MilestoneDue => IssuableOrder::MilestoneDue,
        Name::Popularity => IssuableOrder::Popularity,
    }
}

/// View options of list items.
#[derive(Debug, Clone, Copy, Default)]
struct ItemViewOptions {
    issuable: IssueViewOptions,
    simple: bool,
}

impl ItemViewOptions {
    fn new(elsewhere: bool, labels_details: bool, view: Option<MergeRequestView>) -> Self {
        Self {
            issuable: IssueViewOptions {
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
        scope: ListScope,
        filter: MergeRequestFilter,
        page: PageRequest,
        options: ItemViewOptions,
    ) -> Result<Page<MergeRequest>> {
        let page = merge_requests::list(&self.backend, caller, scope, &filter, &page).await?;
        if options.issuable.labels_details {
            labels::reserve_descriptions(caller, page.items.iter().flat_map(|detail| &detail.labels))?;
        }
        let instance = &self.backend.instance;
        Ok(page.map(|detail| match options.simple {
            true => simple(&instance.base_url, &detail.project_path, detail.merge_request),
            false => merge_request(instance, detail, options.issuable),
        }))
    }

    /// Returns the merge requests of a milestone.
    async fn milestone_merge_requests(
        &self,
        space: SpaceAccess,
        milestone_id: i64,
        page: PageRequest,
    ) -> Result<Page<MergeRequest>> {
        let milestone = milestones::get(&self.backend, &space, milestone_id)
            .await?
            .milestone;
        let shared = IssuableFilter {
            milestone_id: Some(milestone.id),
            ..IssuableFilter::default()
        };
        let filter = MergeRequestFilter {
            shared,
            ..MergeRequestFilter::default()
        };
        let scope = match &space.project {
            Some(project) => ListScope::Project(project.id),
            None => ListScope::Instance,
        };
        let options = ItemViewOptions::new(space.project.is_none(), false, None);
        self.merge_requests(&space.caller, scope, filter, page, options)
            .await
    }

    pub(crate) fn merge_request(&self, detail: MergeRequestDetail, access: &ProjectAccess) -> MergeRequest {
        let options = IssueViewOptions {
            elsewhere: detail.merge_request.target_project_id != access.project.id,
            ..IssueViewOptions::default()
        };
        merge_request(&self.backend.instance, detail, options)
    }

    async fn update_merge_request_times(
        &self,
        access: ProjectAccess,
        iid: i64,
        update: TimeTrackingUpdate,
    ) -> Result<TimeStats> {
        let kind = IssuableKind::MergeRequest;
        let times = time_tracking::update(&self.backend, &access, kind, iid, update).await?;
        Ok(time_stats(times))
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
        filter.shared.scope.get_or_insert(IssuableScope::CreatedByMe);
        let options = ItemViewOptions::new(true, request.with_labels_details, request.view);
        self.merge_requests(&access.caller, ListScope::Instance, filter, page, options)
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
        let options = ItemViewOptions::new(true, request.with_labels_details, request.view);
        let scope = ListScope::Group(access.group.id);
        self.merge_requests(&access.caller, scope, filter, page, options)
            .await
    }

    async fn list_project_merge_requests(
        &self,
        access: ProjectAccess,
        request: ListProjectMergeRequestsRequest,
        page: PageRequest,
    ) -> Result<Page<MergeRequest>> {
        let filter = merge_request_filter(request.merge_request_filter, request.issuable_filter)?;
        let options = ItemViewOptions::new(false, request.with_labels_details, request.view);
        let scope = ListScope::Project(access.project.id);
        self.merge_requests(&access.caller, scope, filter, page, options)
            .await
    }

    async fn create_merge_request(
        &self,
        access: ProjectAccess,
        request: CreateMergeRequestRequest,
    ) -> Result<MergeRequest> {
        let body = request.body;
        let assignee_ids = Patch::set_if_some(body.assignee_ids);
        let new = NewMergeRequest {
            source_branch: body.source_branch,
            target_branch: body.target_branch,
            target_project_id: body.target_project_id,
            title: body.title,
            description: body.description,
            metadata: IssuableMetadata {
                discussion_locked: body.discussion_locked,
                assignee_ids: merge_assignee_ids(assignee_ids, Patch::set_if_some(body.assignee_id)),
                reviewer_ids: Patch::set_if_some(body.reviewer_ids),
                milestone_id: Patch::set_if_some(body.milestone_id),
                labels: Patch::set_if_some(body.labels),
                ..IssuableMetadata::default()
            },
            remove_source_branch: body.remove_source_branch,
            squash: body.squash,
            allow_collaboration: body.allow_collaboration,
        };
        let detail = merge_requests::create(&self.backend, &access, new).await?;
        Ok(self.merge_request(detail, &access))
    }

    async fn get_merge_request(
        &self,
        access: ProjectAccess,
        request: GetMergeRequestRequest,
    ) -> Result<MergeRequest> {
        let include = MergeRequestInclude {
            diverged_commits_count: request.include_diverged_commits_count,
            rebase_in_progress: request.include_rebase_in_progress,
            ..MergeRequestInclude::default()
        };
        let detail = merge_requests::get(&self.backend, &access, request.merge_request_iid, include).await?;
        Ok(self.merge_request(detail, &access))
    }

    async fn update_merge_request(
        &self,
        access: ProjectAccess,
        request: UpdateMergeRequestRequest,
    ) -> Result<MergeRequest> {
        let body = request.body;
        let update = MergeRequestUpdate {
            metadata: IssuableMetadata {
                discussion_locked: body.discussion_locked,
                assignee_ids: merge_assignee_ids(
                    body.assignee_ids.into_patch(),
                    body.assignee_id.into_patch(),
                ),
                reviewer_ids: body.reviewer_ids.into_patch(),
                milestone_id: body.milestone_id.into_patch(),
                labels: body.labels.into_patch(),
                add_labels: body.add_labels,
                remove_labels: body.remove_labels,
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
        let detail =
            merge_requests::update(&self.backend, &access, request.merge_request_iid, update).await?;
        Ok(self.merge_request(detail, &access))
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
        let detail = subscriptions::subscribe(&self.backend, &access, iid, true).await?;
        Ok(self.merge_request(detail, &access))
    }

    async fn unsubscribe_from_merge_request(
        &self,
        access: ProjectAccess,
        request: UnsubscribeFromMergeRequestRequest,
    ) -> Result<MergeRequest> {
        let iid = request.merge_request_iid;
        let detail = subscriptions::subscribe(&self.backend, &access, iid, false).await?;
        Ok(self.merge_request(detail, &access))
    }

    async fn list_merge_request_participants(
        &self,
        access: ProjectAccess,
        request: ListMergeRequestParticipantsRequest,
        page: PageRequest,
    ) -> Result<Page<UserReference>> {
        let (kind, iid) = (IssuableKind::MergeRequest, request.merge_request_iid);
        let page = list_participants(&self.backend, &access, kind, iid, &page).await?;
        Ok(page.map(|user| reference(&self.backend.instance.base_url, user)))
    }

    async fn list_merge_request_closes_issues(
        &self,
        access: ProjectAccess,
        request: ListMergeRequestClosesIssuesRequest,
        page: PageRequest,
    ) -> Result<Page<Issue>> {
        let iid = request.merge_request_iid;
        let page = closing_issues::list_closed_issues(&self.backend, &access, iid, &page).await?;
        Ok(page.map(|detail| {
            let options = IssueViewOptions {
                elsewhere: detail.issue.project_id != access.project.id,
                ..IssueViewOptions::default()
            };
            issue(&self.backend.instance, detail, options)
        }))
    }

    async fn get_merge_request_time_stats(
        &self,
        access: ProjectAccess,
        request: GetMergeRequestTimeStatsRequest,
    ) -> Result<TimeStats> {
        let times = time_tracking::get(
            &self.backend,
            &access,
            IssuableKind::MergeRequest,
            request.merge_request_iid,
        )
        .await?;
        Ok(time_stats(times))
    }

    async fn set_merge_request_time_estimate(
        &self,
        access: ProjectAccess,
        request: SetMergeRequestTimeEstimateRequest,
    ) -> Result<TimeStats> {
        let update = TimeTrackingUpdate::Estimate(request.body.duration);
        self.update_merge_request_times(access, request.merge_request_iid, update)
            .await
    }

    async fn reset_merge_request_time_estimate(
        &self,
        access: ProjectAccess,
        request: ResetMergeRequestTimeEstimateRequest,
    ) -> Result<TimeStats> {
        let update = TimeTrackingUpdate::ResetEstimate;
        self.update_merge_request_times(access, request.merge_request_iid, update)
            .await
    }

    async fn add_merge_request_spent_time(
        &self,
        access: ProjectAccess,
        request: AddMergeRequestSpentTimeRequest,
    ) -> Result<TimeStats> {
        let update = TimeTrackingUpdate::Spend(request.body.duration);
        self.update_merge_request_times(access, request.merge_request_iid, update)
            .await
    }

    async fn reset_merge_request_spent_time(
        &self,
        access: ProjectAccess,
        request: ResetMergeRequestSpentTimeRequest,
    ) -> Result<TimeStats> {
        let update = TimeTrackingUpdate::ResetSpent;
        self.update_merge_request_times(access, request.merge_request_iid, update)
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
        filter.deployments.id = Some(deployment.id);
        let options = ItemViewOptions::new(false, request.with_labels_details, request.view);
        let scope = ListScope::Project(access.project.id);
        self.merge_requests(&access.caller, scope, filter, page, options)
            .await
    }

    async fn list_issue_closing_merge_requests(
        &self,
        access: ProjectAccess,
        request: ListIssueClosingMergeRequestsRequest,
        page: PageRequest,
    ) -> Result<Page<MergeRequest>> {
        let page =
            closing_issues::list_closing_merge_requests(&self.backend, &access, request.issue_iid, &page)
                .await?;
        Ok(page.map(|detail| self.merge_request(detail, &access)))
    }

    async fn list_issue_related_merge_requests(
        &self,
        access: ProjectAccess,
        request: ListIssueRelatedMergeRequestsRequest,
        page: PageRequest,
    ) -> Result<Page<MergeRequest>> {
        let page =
            closing_issues::list_related_merge_requests(&self.backend, &access, request.issue_iid, &page)
                .await?;
        Ok(page.map(|detail| self.merge_request(detail, &access)))
    }
}
