//! Issues.

use domain::identity::access::{GroupAccess, InstanceAccess, ProjectAccess};
use domain::identity::space_access;
use domain::kernel::caller::Caller;
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};
use domain::kernel::patch::Patch;
use domain::planning::issuables::time_tracking::Change as TimesChange;
use domain::planning::issuables::{self, Place, Scope, assignees};
use domain::planning::issues::{self, Change, Filter, Metadata, NewIssue, Order, time_tracking};
use domain::planning::milestones;
use domain::planning::state_event::StateEvent;

use crate::api::routes::IssuesApi;
use crate::app::App;
use crate::handlers::patch::IntoPatch;
use crate::handlers::planning::issuables::{issuable_filter, said};
use crate::views::accounts::users::reference;
use crate::views::planning::issue::{IssueViewOptions, issue, state_filter, time_stats};
use contract::timestamp::Timestamp;
use contract::{
    AddIssueSpentTimeRequest, CreateIssueRequest, DeleteIssueRequest, GetIssueRequest,
    GetIssueTimeStatsRequest, IssuableFilter, Issue, IssueFilter, IssueOrder, IssueStateEvent,
    ListGroupIssuesRequest, ListGroupMilestoneIssuesRequest, ListIssueParticipantsRequest, ListIssuesRequest,
    ListProjectIssuesRequest, ListProjectMilestoneIssuesRequest, MoveIssueRequest,
    ResetIssueSpentTimeRequest, ResetIssueTimeEstimateRequest, SetIssueTimeEstimateRequest,
    SubscribeToIssueRequest, TimeStats, UnsubscribeFromIssueRequest, UpdateIssueRequest, UserReference,
};

/// Returns the filter of a list of issues.
///
/// # Errors
/// If the scope is unknown.
fn issue_filter(filter: IssueFilter, shared: IssuableFilter) -> Result<Filter> {
    Ok(Filter {
        state: filter.state.and_then(state_filter),
        weight: filter.weight.and_then(said),
        confidential: filter.confidential,
        order: order(filter.order_by),
        shared: issuable_filter(shared)?,
    })
}

fn order(order: Option<IssueOrder>) -> Order {
    match order {
        None | Some(IssueOrder::CreatedAt) => Order::CreatedAt,
        Some(IssueOrder::UpdatedAt) => Order::UpdatedAt,
        Some(IssueOrder::Priority) => Order::Priority,
        Some(IssueOrder::DueDate) => Order::DueDate,
        Some(IssueOrder::RelativePosition) => Order::RelativePosition,
        Some(IssueOrder::LabelPriority) => Order::LabelPriority,
        Some(IssueOrder::MilestoneDue) => Order::MilestoneDue,
        Some(IssueOrder::Popularity) => Order::Popularity,
        Some(IssueOrder::Weight) => Order::Weight,
    }
}

impl App {
    async fn issues(
        &self,
        caller: &Caller,
        place: Place,
        filter: Filter,
        page: PageRequest,
        labels_details: bool,
    ) -> Result<Page<Issue>> {
        let parts = IssueViewOptions {
            elsewhere: !matches!(place, Place::Project(_)),
            labels_details,
        };
        let page = issues::list(&self.backend, caller, place, &filter, &page).await?;
        Ok(page.map(|row| issue(&self.backend.instance, row, parts)))
    }

    /// Returns the issues of a milestone.
    async fn milestone_issues(
        &self,
        place: space_access::SpaceAccess,
        milestone_id: i64,
        page: PageRequest,
    ) -> Result<Page<Issue>> {
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
        self.issues(&place.caller, within, filter, page, false).await
    }

    fn issue(&self, row: issues::Row) -> Issue {
        issue(&self.backend.instance, row, IssueViewOptions::default())
    }

    async fn issue_times(&self, access: ProjectAccess, iid: i64, change: TimesChange) -> Result<TimeStats> {
        let changed = time_tracking::change(&self.backend, &access, iid, change).await?;
        Ok(time_stats(changed))
    }
}

impl IssuesApi for App {
    async fn list_issues(
        &self,
        access: InstanceAccess,
        request: ListIssuesRequest,
        page: PageRequest,
    ) -> Result<Page<Issue>> {
        let mut filter = issue_filter(request.issue_filter, request.issuable_filter)?;
        filter.shared.non_archived = request.non_archived;
        filter.shared.scope.get_or_insert(Scope::CreatedByMe);
        let details = request.with_labels_details;
        self.issues(&access.caller, Place::Everywhere, filter, page, details)
            .await
    }

    async fn list_group_issues(
        &self,
        access: GroupAccess,
        request: ListGroupIssuesRequest,
        page: PageRequest,
    ) -> Result<Page<Issue>> {
        let mut filter = issue_filter(request.issue_filter, request.issuable_filter)?;
        filter.shared.non_archived = request.non_archived;
        let place = Place::Group(access.group.id);
        self.issues(&access.caller, place, filter, page, request.with_labels_details)
            .await
    }

    async fn list_project_issues(
        &self,
        access: ProjectAccess,
        request: ListProjectIssuesRequest,
        page: PageRequest,
    ) -> Result<Page<Issue>> {
        let place = Place::Project(access.project.id);
        let filter = issue_filter(request.issue_filter, request.issuable_filter)?;
        self.issues(&access.caller, place, filter, page, request.with_labels_details)
            .await
    }

    async fn create_issue(&self, access: ProjectAccess, request: CreateIssueRequest) -> Result<Issue> {
        let body = request.body;
        let all = Patch::set_if_some(body.assignee_ids);
        let new = NewIssue {
            metadata: Metadata {
                shared: issuables::Metadata {
                    discussion_locked: body.discussion_locked,
                    assignee_ids: assignees(all, Patch::set_if_some(body.assignee_id)),
                    milestone_id: Patch::set_if_some(body.milestone_id),
                    labels: Patch::set_if_some(body.labels),
                    ..issuables::Metadata::default()
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
        let row = issues::read(&self.backend, &access, request.issue_iid).await?;
        Ok(self.issue(row))
    }

    async fn update_issue(&self, access: ProjectAccess, request: UpdateIssueRequest) -> Result<Issue> {
        let body = request.body;
        let change = Change {
            metadata: Metadata {
                shared: issuables::Metadata {
                    discussion_locked: body.discussion_locked,
                    assignee_ids: assignees(body.assignee_ids.into_patch(), body.assignee_id.into_patch()),
                    milestone_id: body.milestone_id.into_patch(),
                    labels: body.labels.into_patch(),
                    add_labels: body.add_labels.unwrap_or_default(),
                    remove_labels: body.remove_labels.unwrap_or_default(),
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
            via: None,
        };
        let row = issues::edit(&self.backend, &access, request.issue_iid, change).await?;
        Ok(self.issue(row))
    }

    async fn delete_issue(&self, access: ProjectAccess, request: DeleteIssueRequest) -> Result<()> {
        let unmodified_since = request.if_unmodified_since.as_deref();
        issues::delete(&self.backend, &access, request.issue_iid, unmodified_since).await
    }

    async fn move_issue(&self, access: ProjectAccess, request: MoveIssueRequest) -> Result<Issue> {
        let to = request.body.to_project_id;
        let row = issues::move_to(&self.backend, &access, request.issue_iid, to).await?;
        Ok(self.issue(row))
    }

    async fn subscribe_to_issue(
        &self,
        access: ProjectAccess,
        request: SubscribeToIssueRequest,
    ) -> Result<Issue> {
        let row = issues::subscriptions::subscribe(&self.backend, &access, request.issue_iid, true).await?;
        Ok(self.issue(row))
    }

    async fn unsubscribe_from_issue(
        &self,
        access: ProjectAccess,
        request: UnsubscribeFromIssueRequest,
    ) -> Result<Issue> {
        let row = issues::subscriptions::subscribe(&self.backend, &access, request.issue_iid, false).await?;
        Ok(self.issue(row))
    }

    async fn get_issue_time_stats(
        &self,
        access: ProjectAccess,
        request: GetIssueTimeStatsRequest,
    ) -> Result<TimeStats> {
        let times = time_tracking::read(&self.backend, &access, request.issue_iid).await?;
        Ok(time_stats(times))
    }

    async fn set_issue_time_estimate(
        &self,
        access: ProjectAccess,
        request: SetIssueTimeEstimateRequest,
    ) -> Result<TimeStats> {
        let change = TimesChange::Estimate(request.body.duration);
        self.issue_times(access, request.issue_iid, change).await
    }

    async fn reset_issue_time_estimate(
        &self,
        access: ProjectAccess,
        request: ResetIssueTimeEstimateRequest,
    ) -> Result<TimeStats> {
        let change = TimesChange::ResetEstimate;
        self.issue_times(access, request.issue_iid, change).await
    }

    async fn add_issue_spent_time(
        &self,
        access: ProjectAccess,
        request: AddIssueSpentTimeRequest,
    ) -> Result<TimeStats> {
        let change = TimesChange::Spend(request.body.duration);
        self.issue_times(access, request.issue_iid, change).await
    }

    async fn reset_issue_spent_time(
        &self,
        access: ProjectAccess,
        request: ResetIssueSpentTimeRequest,
    ) -> Result<TimeStats> {
        let change = TimesChange::ResetSpent;
        self.issue_times(access, request.issue_iid, change).await
    }

    async fn list_issue_participants(
        &self,
        access: ProjectAccess,
        request: ListIssueParticipantsRequest,
        page: PageRequest,
    ) -> Result<Page<UserReference>> {
        let page = issues::participants(&self.backend, &access, request.issue_iid, &page).await?;
        Ok(page.map(|user| reference(&self.backend.instance.base_url, &user)))
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
