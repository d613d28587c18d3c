//! Events of the labels, the state and the milestone of issues and merge requests.

use domain::identity::access::ProjectAccess;
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};
use domain::planning::issuables::IssuableKind::{self, Issue, MergeRequest};
use domain::planning::issuables::resource_events::{
    self, ResourceEvent,
    ResourceEventKind::{self, Label, Milestone, State},
};

use crate::api::routes::ResourceEventsApi;
use crate::app::App;
use crate::views::planning::resource_event::{label_event, milestone_event, state_event};
use contract::{
    GetIssueLabelEventRequest, GetIssueMilestoneEventRequest, GetIssueStateEventRequest,
    GetMergeRequestLabelEventRequest, GetMergeRequestMilestoneEventRequest, GetMergeRequestStateEventRequest,
    ListIssueLabelEventsRequest, ListIssueMilestoneEventsRequest, ListIssueStateEventsRequest,
    ListMergeRequestLabelEventsRequest, ListMergeRequestMilestoneEventsRequest,
    ListMergeRequestStateEventsRequest, ResourceLabelEvent, ResourceMilestoneEvent, ResourceStateEvent,
};

impl App {
    async fn resource_events(
        &self,
        access: &ProjectAccess,
        issuable: (IssuableKind, i64),
        kind: ResourceEventKind,
        page: PageRequest,
    ) -> Result<Page<ResourceEvent>> {
        resource_events::list(&self.backend, access, issuable, kind, &page).await
    }

    async fn resource_event(
        &self,
        access: &ProjectAccess,
        issuable: (IssuableKind, i64),
        kind: ResourceEventKind,
        id: i64,
    ) -> Result<ResourceEvent> {
        resource_events::get(&self.backend, access, issuable, kind, id).await
    }
}

impl ResourceEventsApi for App {
    async fn list_issue_label_events(
        &self,
        access: ProjectAccess,
        request: ListIssueLabelEventsRequest,
        page: PageRequest,
    ) -> Result<Page<ResourceLabelEvent>> {
        let issuable = (Issue, request.issue_iid);
        let page = self.resource_events(&access, issuable, Label, page).await?;
        Ok(page.map(|event| label_event(&self.backend.instance.base_url, event)))
    }

    async fn get_issue_label_event(
        &self,
        access: ProjectAccess,
        request: GetIssueLabelEventRequest,
    ) -> Result<ResourceLabelEvent> {
        let issuable = (Issue, request.issue_iid);
        let event = self
            .resource_event(&access, issuable, Label, request.event_id)
            .await?;
        Ok(label_event(&self.backend.instance.base_url, event))
    }

    async fn list_issue_state_events(
        &self,
        access: ProjectAccess,
        request: ListIssueStateEventsRequest,
        page: PageRequest,
    ) -> Result<Page<ResourceStateEvent>> {
        let issuable = (Issue, request.issue_iid);
        let page = self.resource_events(&access, issuable, State, page).await?;
        Ok(page.map(|event| state_event(&self.backend.instance.base_url, event)))
    }

    async fn get_issue_state_event(
        &self,
        access: ProjectAccess,
        request: GetIssueStateEventRequest,
    ) -> Result<ResourceStateEvent> {
        let issuable = (Issue, request.issue_iid);
        let event = self
            .resource_event(&access, issuable, State, request.event_id)
            .await?;
        Ok(state_event(&self.backend.instance.base_url, event))
    }

    async fn list_issue_milestone_events(
        &self,
        access: ProjectAccess,
        request: ListIssueMilestoneEventsRequest,
        page: PageRequest,
    ) -> Result<Page<ResourceMilestoneEvent>> {
        let issuable = (Issue, request.issue_iid);
        let page = self.resource_events(&access, issuable, Milestone, page).await?;
        Ok(page.map(|event| milestone_event(&self.backend.instance.base_url, event)))
    }

    async fn get_issue_milestone_event(
        &self,
        access: ProjectAccess,
        request: GetIssueMilestoneEventRequest,
    ) -> Result<ResourceMilestoneEvent> {
        let issuable = (Issue, request.issue_iid);
        let event = self
            .resource_event(&access, issuable, Milestone, request.event_id)
            .await?;
        Ok(milestone_event(&self.backend.instance.base_url, event))
    }

    async fn list_merge_request_label_events(
        &self,
        access: ProjectAccess,
        request: ListMergeRequestLabelEventsRequest,
        page: PageRequest,
    ) -> Result<Page<ResourceLabelEvent>> {
        let issuable = (MergeRequest, request.merge_request_iid);
        let page = self.resource_events(&access, issuable, Label, page).await?;
        Ok(page.map(|event| label_event(&self.backend.instance.base_url, event)))
    }

    async fn get_merge_request_label_event(
        &self,
        access: ProjectAccess,
        request: GetMergeRequestLabelEventRequest,
    ) -> Result<ResourceLabelEvent> {
        let issuable = (MergeRequest, request.merge_request_iid);
        let event = self
            .resource_event(&access, issuable, Label, request.event_id)
            .await?;
        Ok(label_event(&self.backend.instance.base_url, event))
    }

    async fn list_merge_request_state_events(
        &self,
        access: ProjectAccess,
        request: ListMergeRequestStateEventsRequest,
        page: PageRequest,
    ) -> Result<Page<ResourceStateEvent>> {
        let issuable = (MergeRequest, request.merge_request_iid);
        let page = self.resource_events(&access, issuable, State, page).await?;
        Ok(page.map(|event| state_event(&self.backend.instance.base_url, event)))
    }

    async fn get_merge_request_state_event(
        &self,
        access: ProjectAccess,
        request: GetMergeRequestStateEventRequest,
    ) -> Result<ResourceStateEvent> {
        let issuable = (MergeRequest, request.merge_request_iid);
        let event = self
            .resource_event(&access, issuable, State, request.event_id)
            .await?;
        Ok(state_event(&self.backend.instance.base_url, event))
    }

    async fn list_merge_request_milestone_events(
        &self,
        access: ProjectAccess,
        request: ListMergeRequestMilestoneEventsRequest,
        page: PageRequest,
    ) -> Result<Page<ResourceMilestoneEvent>> {
        let issuable = (MergeRequest, request.merge_request_iid);
        let page = self.resource_events(&access, issuable, Milestone, page).await?;
        Ok(page.map(|event| milestone_event(&self.backend.instance.base_url, event)))
    }

    async fn get_merge_request_milestone_event(
        &self,
        access: ProjectAccess,
        request: GetMergeRequestMilestoneEventRequest,
    ) -> Result<ResourceMilestoneEvent> {
        let issuable = (MergeRequest, request.merge_request_iid);
        let event = self
            .resource_event(&access, issuable, Milestone, request.event_id)
            .await?;
        Ok(milestone_event(&self.backend.instance.base_url, event))
    }
}
