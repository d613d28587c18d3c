//! Issues.

use crate::api::contract::{
    AddIssueSpentTimeRequest, CreateIssueRequest, DeleteIssueRequest, GetIssueRequest,
    GetIssueTimeStatsRequest, Issue, IssueNot, IssueOrder, IssueStateEvent, IssuesApi,
    ListGroupIssuesRequest, ListIssueParticipantsRequest, ListIssuesRequest, ListProjectIssuesRequest,
    MoveIssueRequest, ResetIssueSpentTimeRequest, ResetIssueTimeEstimateRequest, SetIssueTimeEstimateRequest,
    SortDirection, SubscribeToIssueRequest, TimeStats, UnsubscribeFromIssueRequest, UpdateIssueRequest,
    UserReference,
};
use crate::api::types::{MaybeUndefined, Page, PageRequest, Timestamp};
use crate::app::App;

use crate::error::{Error, Result};
use crate::services::access::{GroupAccess, InstanceAccess, ProjectAccess};
use crate::services::authentication::Caller;
use crate::services::issues::list::{Conditions, Place};
use crate::services::issues::{self, Change, Filter, Metadata, NewIssue, Order, Scope, StateEvent, times};
use crate::views::issue::{Parts, issue, only, time_stats};
use crate::views::users::reference;

/// The filters that all lists have.
macro_rules! filter {
    ($request:expr) => {
        Filter {
            state: $request.state.and_then(only),
            scope: $request.scope.map(scope).transpose()?,
            wanted: Conditions {
                labels: $request.labels.unwrap_or_default(),
                milestone: $request.milestone,
                author_id: $request.author_id,
                author_username: $request.author_username,
                assignee_id: $request.assignee_id,
                assignee_usernames: $request.assignee_username.unwrap_or_default(),
                my_reaction_emoji: $request.my_reaction_emoji,
                iids: $request.iids,
                search: $request.search,
                fields: $request.r#in,
            },
            unwanted: $request.not.map(conditions).unwrap_or_default(),
            weight: $request.weight,
            created_after: $request.created_after.map(Timestamp::to_utc),
            created_before: $request.created_before.map(Timestamp::to_utc),
            updated_after: $request.updated_after.map(Timestamp::to_utc),
            updated_before: $request.updated_before.map(Timestamp::to_utc),
            confidential: $request.confidential,
            order: order($request.order_by),
            ascending: $request.sort == Some(SortDirection::Asc),
            ..Filter::default()
        }
    };
}

/// What members say of an issue; that of a new one and of a changed one have the same names.
macro_rules! metadata {
    ($body:expr, $($field:ident: $value:expr),*) => {
        Metadata {
            confidential: $body.confidential,
            discussion_locked: $body.discussion_locked,
            $($field: $value),*
        }
    };
}

/// What the issues have to do with the caller. That the words have two spellings each, no enumeration of the contract can
/// say: generators of clients make the same name of both.
fn scope(scope: String) -> Result<Scope> {
    match scope.replace('-', "_").as_str() {
        "created_by_me" => Ok(Scope::CreatedByMe),
        "assigned_to_me" => Ok(Scope::AssignedToMe),
        "all" => Ok(Scope::All),
        _ => Err(Error::parameter("scope does not have a valid value")),
    }
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

fn conditions(not: IssueNot) -> Conditions {
    Conditions {
        labels: not.labels.unwrap_or_default(),
        milestone: not.milestone,
        author_id: not.author_id,
        author_username: not.author_username,
        assignee_id: not.assignee_id,
        assignee_usernames: not.assignee_username.unwrap_or_default(),
        my_reaction_emoji: not.my_reaction_emoji,
        iids: not.iids,
        search: not.search,
        fields: not.r#in,
    }
}

/// Those it is assigned to: the list, or else the one in the older field.
fn assignees(all: MaybeUndefined<Vec<i64>>, one: MaybeUndefined<i64>) -> MaybeUndefined<Vec<i64>> {
    match all {
        MaybeUndefined::Undefined => one.map_value(|id| vec![id]),
        all => all,
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
        let parts = Parts {
            elsewhere: !matches!(place, Place::Project(_)),
            labels_details,
        };
        let page = issues::list(&self.backend, caller, place, &filter, &page).await?;
        Ok(page.map(|row| issue(&self.backend.instance, row, parts)))
    }

    fn issue(&self, row: issues::Row) -> Issue {
        issue(&self.backend.instance, row, Parts::default())
    }

    async fn issue_times(&self, access: ProjectAccess, iid: i64, change: times::Change) -> Result<TimeStats> {
        let changed = times::change(&self.backend, &access, iid, change).await?;
        Ok(time_stats(&changed))
    }
}

impl IssuesApi for App {
    async fn list_issues(&self, access: InstanceAccess, request: ListIssuesRequest) -> Result<Page<Issue>> {
        let mut filter = Filter {
            non_archived: request.non_archived,
            ..filter!(request)
        };
        filter.scope.get_or_insert(Scope::CreatedByMe);
        let details = request.with_labels_details;
        self.issues(&access.caller, Place::Everywhere, filter, request.page, details)
            .await
    }

    async fn list_group_issues(
        &self,
        access: GroupAccess,
        request: ListGroupIssuesRequest,
    ) -> Result<Page<Issue>> {
        let filter = Filter {
            non_archived: request.non_archived,
            ..filter!(request)
        };
        let place = Place::Group(access.group.id);
        self.issues(
            &access.caller,
            place,
            filter,
            request.page,
            request.with_labels_details,
        )
        .await
    }

    async fn list_project_issues(
        &self,
        access: ProjectAccess,
        request: ListProjectIssuesRequest,
    ) -> Result<Page<Issue>> {
        let place = Place::Project(access.project.id);
        let filter = filter!(request);
        self.issues(
            &access.caller,
            place,
            filter,
            request.page,
            request.with_labels_details,
        )
        .await
    }

    async fn create_issue(&self, access: ProjectAccess, request: CreateIssueRequest) -> Result<Issue> {
        let body = request.body;
        let one = |value: Option<i64>| value.map_or(MaybeUndefined::Undefined, MaybeUndefined::Value);
        let all = body
            .assignee_ids
            .map_or(MaybeUndefined::Undefined, MaybeUndefined::Value);
        let new = NewIssue {
            metadata: metadata!(
                body,
                assignee_ids: assignees(all, one(body.assignee_id)),
                milestone_id: one(body.milestone_id),
                labels: body.labels.map_or(MaybeUndefined::Undefined, MaybeUndefined::Value),
                add_labels: Vec::new(),
                remove_labels: Vec::new(),
                due_date: body.due_date.map_or(MaybeUndefined::Undefined, MaybeUndefined::Value),
                weight: one(body.weight)
            ),
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
            metadata: metadata!(
                body,
                assignee_ids: assignees(body.assignee_ids, body.assignee_id),
                milestone_id: body.milestone_id,
                labels: body.labels,
                add_labels: body.add_labels.unwrap_or_default(),
                remove_labels: body.remove_labels.unwrap_or_default(),
                due_date: body.due_date,
                weight: body.weight
            ),
            title: body.title,
            description: body.description,
            state_event: body.state_event.map(|event| match event {
                IssueStateEvent::Close => StateEvent::Close,
                IssueStateEvent::Reopen => StateEvent::Reopen,
            }),
            updated_at: body.updated_at.map(Timestamp::to_utc),
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
        let issue = times::read(&self.backend, &access, request.issue_iid).await?;
        Ok(time_stats(&issue))
    }

    async fn set_issue_time_estimate(
        &self,
        access: ProjectAccess,
        request: SetIssueTimeEstimateRequest,
    ) -> Result<TimeStats> {
        let change = times::Change::Estimate(request.body.duration);
        self.issue_times(access, request.issue_iid, change).await
    }

    async fn reset_issue_time_estimate(
        &self,
        access: ProjectAccess,
        request: ResetIssueTimeEstimateRequest,
    ) -> Result<TimeStats> {
        let change = times::Change::ResetEstimate;
        self.issue_times(access, request.issue_iid, change).await
    }

    async fn add_issue_spent_time(
        &self,
        access: ProjectAccess,
        request: AddIssueSpentTimeRequest,
    ) -> Result<TimeStats> {
        let change = times::Change::Spend(request.body.duration);
        self.issue_times(access, request.issue_iid, change).await
    }

    async fn reset_issue_spent_time(
        &self,
        access: ProjectAccess,
        request: ResetIssueSpentTimeRequest,
    ) -> Result<TimeStats> {
        let change = times::Change::ResetSpent;
        self.issue_times(access, request.issue_iid, change).await
    }

    async fn list_issue_participants(
        &self,
        access: ProjectAccess,
        request: ListIssueParticipantsRequest,
    ) -> Result<Page<UserReference>> {
        let page = issues::participants(&self.backend, &access, request.issue_iid, &request.page).await?;
        Ok(page.map(|user| reference(&self.backend.instance.base_url, &user)))
    }
}
