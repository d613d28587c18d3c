//! Milestones of projects and groups.

use domain::identity::access::{GroupAccess, ProjectAccess};
use domain::identity::space_access::SpaceAccess;
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};
use domain::planning::milestones::{self, MilestoneDetail, NewMilestone};

use crate::api::routes::MilestonesApi;
use crate::app::App;
use crate::handlers::patch::IntoPatch;
use crate::views::enums::Convert;
use crate::views::planning::milestone::milestone;
use contract::{
    CreateGroupMilestoneRequest, CreateProjectMilestoneRequest, DeleteGroupMilestoneRequest,
    DeleteProjectMilestoneRequest, GetGroupMilestoneRequest, GetProjectMilestoneRequest,
    ListGroupMilestonesRequest, ListProjectMilestonesRequest, Milestone, MilestoneCreate, MilestoneFilter,
    MilestoneStateEvent, MilestoneUpdate, PromoteProjectMilestoneRequest, UpdateGroupMilestoneRequest,
    UpdateProjectMilestoneRequest,
};

/// Returns the filter of a list.
fn milestone_filter(filter: MilestoneFilter) -> milestones::MilestoneFilter {
    milestones::MilestoneFilter {
        iids: filter.iids,
        state: filter.state.map(Convert::convert),
        title: filter.title,
        search: filter.search,
        include_ancestors: filter.include_parent_milestones,
    }
}

impl App {
    fn milestone(&self, detail: MilestoneDetail) -> Milestone {
        milestone(&self.backend.instance.base_url, detail)
    }

    async fn list_milestones(
        &self,
        space: impl Into<SpaceAccess>,
        filter: milestones::MilestoneFilter,
        page: PageRequest,
    ) -> Result<Page<Milestone>> {
        let page = milestones::list(&self.backend, &space.into(), &filter, &page).await?;
        Ok(page.map(|detail| self.milestone(detail)))
    }

    async fn create_milestone(
        &self,
        space: impl Into<SpaceAccess>,
        body: MilestoneCreate,
    ) -> Result<Milestone> {
        let new = NewMilestone {
            title: body.title,
            description: body.description.take(),
            start_date: body.start_date.take(),
            due_date: body.due_date.take(),
        };
        let created = milestones::create(&self.backend, &space.into(), new).await?;
        Ok(self.milestone(created))
    }

    async fn update_milestone(
        &self,
        space: impl Into<SpaceAccess>,
        id: i64,
        body: MilestoneUpdate,
    ) -> Result<Milestone> {
        let update = milestones::MilestoneUpdate {
            title: body.title,
            description: body.description.into_patch(),
            start_date: body.start_date.into_patch(),
            due_date: body.due_date.into_patch(),
            state_event: body.state_event.map(|event| match event {
                MilestoneStateEvent::Close => milestones::MilestoneStateEvent::Close,
                MilestoneStateEvent::Activate => milestones::MilestoneStateEvent::Activate,
            }),
        };
        let updated = milestones::update(&self.backend, &space.into(), id, update).await?;
        Ok(self.milestone(updated))
    }
}

impl MilestonesApi for App {
    async fn list_project_milestones(
        &self,
        access: ProjectAccess,
        request: ListProjectMilestonesRequest,
        page: PageRequest,
    ) -> Result<Page<Milestone>> {
        self.list_milestones(access, milestone_filter(request.milestone_filter), page)
            .await
    }

    async fn create_project_milestone(
        &self,
        access: ProjectAccess,
        request: CreateProjectMilestoneRequest,
    ) -> Result<Milestone> {
        self.create_milestone(access, request.body).await
    }

    async fn get_project_milestone(
        &self,
        access: ProjectAccess,
        request: GetProjectMilestoneRequest,
    ) -> Result<Milestone> {
        let milestone = milestones::get(&self.backend, &access.into(), request.milestone_id).await?;
        Ok(self.milestone(milestone))
    }

    async fn update_project_milestone(
        &self,
        access: ProjectAccess,
        request: UpdateProjectMilestoneRequest,
    ) -> Result<Milestone> {
        self.update_milestone(access, request.milestone_id, request.body)
            .await
    }

    async fn delete_project_milestone(
        &self,
        access: ProjectAccess,
        request: DeleteProjectMilestoneRequest,
    ) -> Result<()> {
        let condition = request.if_unmodified_since.as_deref();
        milestones::delete(&self.backend, &access.into(), request.milestone_id, condition).await
    }

    async fn promote_project_milestone(
        &self,
        access: ProjectAccess,
        request: PromoteProjectMilestoneRequest,
    ) -> Result<Milestone> {
        let promoted = milestones::promote(&self.backend, &access.into(), request.milestone_id).await?;
        Ok(self.milestone(promoted))
    }

    async fn list_group_milestones(
        &self,
        access: GroupAccess,
        request: ListGroupMilestonesRequest,
        page: PageRequest,
    ) -> Result<Page<Milestone>> {
        self.list_milestones(access, milestone_filter(request.milestone_filter), page)
            .await
    }

    async fn create_group_milestone(
        &self,
        access: GroupAccess,
        request: CreateGroupMilestoneRequest,
    ) -> Result<Milestone> {
        self.create_milestone(access, request.body).await
    }

    async fn get_group_milestone(
        &self,
        access: GroupAccess,
        request: GetGroupMilestoneRequest,
    ) -> Result<Milestone> {
        let milestone = milestones::get(&self.backend, &access.into(), request.milestone_id).await?;
        Ok(self.milestone(milestone))
    }

    async fn update_group_milestone(
        &self,
        access: GroupAccess,
        request: UpdateGroupMilestoneRequest,
    ) -> Result<Milestone> {
        self.update_milestone(access, request.milestone_id, request.body)
            .await
    }

    async fn delete_group_milestone(
        &self,
        access: GroupAccess,
        request: DeleteGroupMilestoneRequest,
    ) -> Result<()> {
        let condition = request.if_unmodified_since.as_deref();
        milestones::delete(&self.backend, &access.into(), request.milestone_id, condition).await
    }
}
