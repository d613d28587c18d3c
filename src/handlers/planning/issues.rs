//! Issues.

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
use domain::planning::issues::{
    self, IssueDetail, IssueFilter, IssueMetadata, IssueOrder, IssueUpdate, NewIssue,
};
use domain::planning::labels;
use domain::planning::milestones;
use domain::planning::state_event::StateEvent;

use crate::api::routes::IssuesApi;
use crate::app::App;
use crate::handlers::patch::IntoPatch;
use crate::handlers::planning::issuables::{issuable_filter, non_blank};
use crate::views::accounts::users::reference;
use crate::views::planning::issue::{IssueViewOptions, issue, state_filter, time_stats};
use contract::timestamp::Timestamp;
use contract::{
    AddIssueSpentTimeRequest, CreateIssueRequest, DeleteIssueRequest, GetIssueByIdRequest, GetIssueRequest,
    GetIssueTimeStatsRequest, Issue, IssueStateEvent, ListGroupIssuesRequest,
    ListGroupMilestoneIssuesRequest, ListIssueParticipantsRequest, ListIssuesRequest,
    ListProjectIssuesRequest, ListProjectMilestoneIssuesRequest, MoveIssueRequest,
    ResetIssueSpentTimeRequest, ResetIssueTimeEstimateRequest, SetIssueTimeEstimateRequest, SortDirection,
    SubscribeToIssueRequest, TimeStats, UnsubscribeFromIssueRequest, UpdateIssueRequest, UserReference,
};

/// Returns the filter of issues of all states.
///
/// # Errors
/// If the scope is unknown.
pub(crate) fn issue_filter(
    filter: contract::IssueFilter,
    shared: contract::IssuableFilter,
) -> Result<IssueFilter> {
    Ok(IssueFilter {
        weight: filter.weight.and_then(non_blank),
        confidential: filter.confidential,
        shared: issuable_filter(shared)?,
        ..IssueFilter::default()
    })
}

/// Returns the filter of a list with its state and sort order.
fn listed(mut filter: IssueFilter, listing: contract::IssueListing) -> IssueFilter {
    filter.shared.ascending = listing.sort == Some(SortDirection::Asc);
    IssueFilter {
        state: listing.state.and_then(state_filter),
        order: listing.order_by.map(issue_order).unwrap_or_default(),
        ..filter
    }
}

fn issue_order(order: contract::IssueOrder) -> IssueOrder {
    use contract::IssueOrder as Name;
    IssueOrder::Shared(match order {
        Name::CreatedAt => IssuableOrder::CreatedAt,
        Name::UpdatedAt => IssuableOrder::UpdatedAt,
        Name::Priority => IssuableOrder::Priority,
        Name::LabelPriority => IssuableOrder::LabelPriority,
        Name::MilestoneDue => IssuableOrder::MilestoneDue,
        Name::Popularity => IssuableOrder::Popularity,
        Name::DueDate => return IssueOrder::DueDate,
        Name::RelativePosition => return IssueOrder::RelativePosition,
        Name::Weight => return IssueOrder::Weight,
    })
}

impl App {
    async fn issues(
        &self,
        caller: &Caller,
        scope: ListScope,
        filter: IssueFilter,
        page: PageRequest,
        labels_details: bool,
    ) -> Result<Page<Issue>> {
        let options = IssueViewOptions {
            elsewhere: !matches!(scope, ListScope::Project(_)),
            labels_details,
        };
        let page = issues::list(&self.backend, caller, scope, &filter, &page).await?;
        if labels_details {
            labels::reserve_descriptions(caller, page.items.iter().flat_map(|detail| &detail.labels))?;
        }
        Ok(page.map(|detail| issue(&self.backend.instance, detail, options)))
    }

    /// Returns the issues of a milestone.
    async fn milestone_issues(
        &self,
        space: SpaceAccess,
        milestone_id: i64,
        page: PageRequest,
    ) -> Result<Page<Issue>> {
        let milestone = milestones::get(&self.backend, &space, milestone_id)
            .await?
            .milestone;
        let shared = IssuableFilter {
            milestone_id: Some(milestone.id),
            ..IssuableFilter::default()
        };
        let filter = IssueFilter {
            shared,
            ..IssueFilter::default()
        };
        let scope = match &space.project {
            Some(project) => ListScope::Project(project.id),
            None => ListScope::Instance,
        };
        self.issues(&space.caller, scope, filter, page, false).await
    }

    fn issue(&self, detail: IssueDetail) -> Issue {
        issue(&self.backend.instance, detail, IssueViewOptions::default())
    }

    async fn update_issue_times(
        &self,
        access: ProjectAccess,
        iid: i64,
        update: TimeTrackingUpdate,
    ) -> Result<TimeStats> {
        let kind = IssuableKind::Issue;
        let times = time_tracking::update(&self.backend, &access, kind, iid, update).await?;
        Ok(time_stats(times))
    }
}

impl IssuesApi for App {
    async fn list_issues(
        &self,
        access: InstanceAccess,
        request: ListIssuesRequest,
        page: PageRequest,
    ) -> Result<Page<Issue>> {
        let filter = issue_filter(request.issue_filter, request.issuable_filter)?;
        let mut filter = listed(filter, request.issue_listing);
        filter.shared.non_archived = request.non_archived;
        filter.shared.scope.get_or_insert(IssuableScope::CreatedByMe);
        let details = request.with_labels_details;
        self.issues(&access.caller, ListScope::Instance, filter, page, details)
            .await
    }

    async fn list_group_issues(
        &self,
        access: GroupAccess,
        request: ListGroupIssuesRequest,
        page: PageRequest,
    ) -> Result<Page<Issue>> {
        let filter = issue_filter(request.issue_filter, request.issuable_filter)?;
        let mut filter = listed(filter, request.issue_listing);
        filter.shared.non_archived = request.non_archived;
        let scope = ListScope::Group(access.group.id);
        self.issues(&access.caller, scope, filter, page, request.with_labels_details)
            .await
    }

    async fn list_project_issues(
        &self,
        access: ProjectAccess,
        request: ListProjectIssuesRequest,
        page: PageRequest,
    ) -> Result<Page<Issue>> {
        let scope = ListScope::Project(access.project.id);
        let filter = issue_filter(request.issue_filter, request.issuable_filter)?;
        let filter = listed(filter, request.issue_listing);
        self.issues(&access.caller, scope, filter, page, request.with_labels_details)
            .await
    }

    async fn create_issue(&self, access: ProjectAccess, request: CreateIssueRequest) -> Result<Issue> {
        let body = request.body;
        let assignee_ids = Patch::set_if_some(body.assignee_ids);
        let new = NewIssue {
            metadata: IssueMetadata {
                shared: IssuableMetadata {
                    discussion_locked: body.discussion_locked,
                    assignee_ids: merge_assignee_ids(assignee_ids, Patch::set_if_some(body.assignee_id)),
                    milestone_id: Patch::set_if_some(body.milestone_id),
                    labels: Patch::set_if_some(body.labels),
                    ..IssuableMetadata::default()
                },
                confidential: body.confidential,
                due_date: Patch::set_if_some(body.due_date),
                weight: Patch::set_if_some(body.weight),
            },
            title: body.title,
            description: body.description,
            iid: body.iid,
            created_at: body.created_at.map(Timestamp::to_utc),
        };
        Ok(self.issue(issues::create(&self.backend, &access, new).await?))
    }

    async fn get_issue(&self, access: ProjectAccess, request: GetIssueRequest) -> Result<Issue> {
        let detail = issues::get(&self.backend, &access, request.issue_iid).await?;
        Ok(self.issue(detail))
    }

    async fn get_issue_by_id(&self, access: InstanceAccess, request: GetIssueByIdRequest) -> Result<Issue> {
        let detail = issues::get_by_id(&self.backend, &access.caller, request.id).await?;
        Ok(self.issue(detail))
    }

    async fn update_issue(&self, access: ProjectAccess, request: UpdateIssueRequest) -> Result<Issue> {
        let body = request.body;
        let update = IssueUpdate {
            metadata: IssueMetadata {
                shared: IssuableMetadata {
                    discussion_locked: body.discussion_locked,
                    assignee_ids: merge_assignee_ids(
                        body.assignee_ids.into_patch(),
                        body.assignee_id.into_patch(),
                    ),
                    milestone_id: body.milestone_id.into_patch(),
                    labels: body.labels.into_patch(),
                    add_labels: body.add_labels,
                    remove_labels: body.remove_labels,
                    ..IssuableMetadata::default()
                },
                confidential: body.confidential,
                due_date: body.due_date.into_patch(),
                weight: body.weight.into_patch(),
            },
            title: body.title,
            description: body.description.into_patch(),
            state_event: body.state_event.map(|event| match event {
                IssueStateEvent::Close => StateEvent::Close,
                IssueStateEvent::Reopen => StateEvent::Reopen,
            }),
            updated_at: body.updated_at.map(Timestamp::to_utc),
            closed_by: None,
        };
        let detail = issues::update(&self.backend, &access, request.issue_iid, update).await?;
        Ok(self.issue(detail))
    }

    async fn delete_issue(&self, access: ProjectAccess, request: DeleteIssueRequest) -> Result<()> {
        let unmodified_since = request.if_unmodified_since.as_deref();
        issues::delete(&self.backend, &access, request.issue_iid, unmodified_since).await
    }

    async fn move_issue(&self, access: ProjectAccess, request: MoveIssueRequest) -> Result<Issue> {
        let to = request.body.to_project_id;
        let detail = issues::move_to(&self.backend, &access, request.issue_iid, to).await?;
        let options = IssueViewOptions {
            elsewhere: true,
            ..IssueViewOptions::default()
        };
        Ok(issue(&self.backend.instance, detail, options))
    }

    async fn subscribe_to_issue(
        &self,
        access: ProjectAccess,
        request: SubscribeToIssueRequest,
    ) -> Result<Issue> {
        let detail =
            issues::subscriptions::subscribe(&self.backend, &access, request.issue_iid, true).await?;
        Ok(self.issue(detail))
    }

    async fn unsubscribe_from_issue(
        &self,
        access: ProjectAccess,
        request: UnsubscribeFromIssueRequest,
    ) -> Result<Issue> {
        let detail =
            issues::subscriptions::subscribe(&self.backend, &access, request.issue_iid, false).await?;
        Ok(self.issue(detail))
    }

    async fn get_issue_time_stats(
        &self,
        access: ProjectAccess,
        request: GetIssueTimeStatsRequest,
    ) -> Result<TimeStats> {
        let times =
            time_tracking::get(&self.backend, &access, IssuableKind::Issue, request.issue_iid).await?;
        Ok(time_stats(times))
    }

    async fn set_issue_time_estimate(
        &self,
        access: ProjectAccess,
        request: SetIssueTimeEstimateRequest,
    ) -> Result<TimeStats> {
        let update = TimeTrackingUpdate::Estimate(request.body.duration);
        self.update_issue_times(access, request.issue_iid, update).await
    }

    async fn reset_issue_time_estimate(
        &self,
        access: ProjectAccess,
        request: ResetIssueTimeEstimateRequest,
    ) -> Result<TimeStats> {
        let update = TimeTrackingUpdate::ResetEstimate;
        self.update_issue_times(access, request.issue_iid, update).await
    }

    async fn add_issue_spent_time(
        &self,
        access: ProjectAccess,
        request: AddIssueSpentTimeRequest,
    ) -> Result<TimeStats> {
        let update = TimeTrackingUpdate::Spend(request.body.duration);
        self.update_issue_times(access, request.issue_iid, update).await
    }

    async fn reset_issue_spent_time(
        &self,
        access: ProjectAccess,
        request: ResetIssueSpentTimeRequest,
    ) -> Result<TimeStats> {
        let update = TimeTrackingUpdate::ResetSpent;
        self.update_issue_times(access, request.issue_iid, update).await
    }

    async fn list_issue_participants(
        &self,
        access: ProjectAccess,
        request: ListIssueParticipantsRequest,
        page: PageRequest,
    ) -> Result<Page<UserReference>> {
        let page = list_participants(
            &self.backend,
            &access,
            IssuableKind::Issue,
            request.issue_iid,
            &page,
        )
        .await?;
        Ok(page.map(|user| reference(&self.backend.instance.base_url, user)))
    }

    async fn list_project_milestone_issues(
        &self,
        access: ProjectAccess,
        request: ListProjectMilestoneIssuesRequest,
        page: PageRequest,
    ) -> Result<Page<Issue>> {
        self.milestone_issues(access.into(), request.milestone_id, page)
            .await
    }

    async fn list_group_milestone_issues(
        &self,
        access: GroupAccess,
        request: ListGroupMilestoneIssuesRequest,
        page: PageRequest,
    ) -> Result<Page<Issue>> {
        self.milestone_issues(access.into(), request.milestone_id, page)
            .await
    }
}
