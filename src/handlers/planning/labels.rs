//! Labels of projects and groups.

use domain::identity::access::{GroupAccess, ProjectAccess};
use domain::identity::space_access::SpaceAccess;
use domain::kernel::error::{Error, Result};
use domain::kernel::page::{Page, PageRequest};
use domain::kernel::patch::Patch;
use domain::planning::labels::{self, LabelDetail, NewLabel};

use crate::api::routes::LabelsApi;
use crate::app::App;
use crate::handlers::patch::IntoPatch;
use crate::views::planning::label::{group_label, project_label};
use contract::{
    CreateGroupLabelRequest, CreateProjectLabelRequest, DeleteGroupLabelByNameRequest,
    DeleteGroupLabelRequest, DeleteProjectLabelByNameRequest, DeleteProjectLabelRequest,
    GetGroupLabelRequest, GetProjectLabelRequest, GroupLabel, LabelFilter, LabelUpdate,
    ListGroupLabelsRequest, ListProjectLabelsRequest, ProjectLabel, PromoteProjectLabelRequest,
    SubscribeToGroupLabelRequest, SubscribeToProjectLabelRequest, UnsubscribeFromGroupLabelRequest,
    UnsubscribeFromProjectLabelRequest, UpdateGroupLabelByNameRequest, UpdateGroupLabelRequest,
    UpdateProjectLabelByNameRequest, UpdateProjectLabelRequest,
};

/// Returns the filter of a list.
fn label_filter(filter: LabelFilter) -> labels::LabelFilter {
    labels::LabelFilter {
        with_counts: filter.with_counts,
        include_ancestors: filter.include_ancestor_groups,
        search: filter.search,
    }
}

/// Returns the update of a label.
fn label_update(update: LabelUpdate, priority: Patch<i64>) -> labels::LabelUpdate {
    labels::LabelUpdate {
        title: update.new_name,
        color: update.color,
        description: update.description.into_patch(),
        priority,
    }
}

/// Returns the name or ID of the label in a body that has exactly one of them.
fn name_or_id(name: Option<String>, label_id: Option<String>) -> Result<String> {
    match (name, label_id) {
        (Some(one), None) | (None, Some(one)) => Ok(one),
        (Some(_), Some(_)) => Err(Error::parameter("label_id, name are mutually exclusive")),
        (None, None) => Err(Error::parameter(
            "label_id, name are missing, exactly one parameter must be provided",
        )),
    }
}

impl App {
    async fn list_labels(
        &self,
        space: impl Into<SpaceAccess>,
        filter: labels::LabelFilter,
        page: PageRequest,
    ) -> Result<Page<LabelDetail>> {
        labels::list(&self.backend, &space.into(), &filter, &page).await
    }

    async fn update_label(
        &self,
        space: impl Into<SpaceAccess>,
        name: &str,
        update: labels::LabelUpdate,
    ) -> Result<LabelDetail> {
        labels::update(&self.backend, &space.into(), name, update).await
    }

    async fn delete_label(
        &self,
        space: impl Into<SpaceAccess>,
        name: &str,
        condition: Option<String>,
    ) -> Result<()> {
        labels::delete(&self.backend, &space.into(), name, condition.as_deref()).await
    }

    async fn set_label_subscribed(
        &self,
        space: impl Into<SpaceAccess>,
        name: &str,
        subscribed: bool,
    ) -> Result<LabelDetail> {
        labels::set_subscribed(&self.backend, &space.into(), name, subscribed).await
    }
}

impl LabelsApi for App {
    async fn list_project_labels(
        &self,
        access: ProjectAccess,
        request: ListProjectLabelsRequest,
        page: PageRequest,
    ) -> Result<Page<ProjectLabel>> {
        let page = self
            .list_labels(access, label_filter(request.label_filter), page)
            .await?;
        Ok(page.map(project_label))
    }

    async fn create_project_label(
        &self,
        access: ProjectAccess,
        request: CreateProjectLabelRequest,
    ) -> Result<ProjectLabel> {
        let body = request.body;
        let new = NewLabel {
            title: body.name,
            color: body.color,
            description: body.description.take(),
            priority: body.priority.take(),
        };
        let label = labels::create(&self.backend, &access.into(), new).await?;
        Ok(project_label(label))
    }

    async fn update_project_label_by_name(
        &self,
        access: ProjectAccess,
        request: UpdateProjectLabelByNameRequest,
    ) -> Result<ProjectLabel> {
        let body = request.body;
        let name = name_or_id(body.name, body.label_id)?;
        let update = label_update(body.label_update, body.priority.into_patch());
        Ok(project_label(self.update_label(access, &name, update).await?))
    }

    async fn delete_project_label_by_name(
        &self,
        access: ProjectAccess,
        request: DeleteProjectLabelByNameRequest,
    ) -> Result<()> {
        let condition = request.if_unmodified_since;
        self.delete_label(access, &request.name, condition).await
    }

    async fn get_project_label(
        &self,
        access: ProjectAccess,
        request: GetProjectLabelRequest,
    ) -> Result<ProjectLabel> {
        let label = labels::get(&self.backend, &access.into(), &request.label_id).await?;
        Ok(project_label(label))
    }

    async fn update_project_label(
        &self,
        access: ProjectAccess,
        request: UpdateProjectLabelRequest,
    ) -> Result<ProjectLabel> {
        let update = label_update(request.body.label_update, request.body.priority.into_patch());
        Ok(project_label(
            self.update_label(access, &request.label_id, update).await?,
        ))
    }

    async fn delete_project_label(
        &self,
        access: ProjectAccess,
        request: DeleteProjectLabelRequest,
    ) -> Result<()> {
        let condition = request.if_unmodified_since;
        self.delete_label(access, &request.label_id, condition).await
    }

    async fn promote_project_label(
        &self,
        access: ProjectAccess,
        request: PromoteProjectLabelRequest,
    ) -> Result<GroupLabel> {
        let promoted = labels::promote(&self.backend, &access.into(), &request.label_id).await?;
        Ok(group_label(promoted))
    }

    async fn subscribe_to_project_label(
        &self,
        access: ProjectAccess,
        request: SubscribeToProjectLabelRequest,
    ) -> Result<ProjectLabel> {
        let label = self.set_label_subscribed(access, &request.label_id, true).await?;
        Ok(project_label(label))
    }

    async fn unsubscribe_from_project_label(
        &self,
        access: ProjectAccess,
        request: UnsubscribeFromProjectLabelRequest,
    ) -> Result<ProjectLabel> {
        let label = self
            .set_label_subscribed(access, &request.label_id, false)
            .await?;
        Ok(project_label(label))
    }

    async fn list_group_labels(
        &self,
        access: GroupAccess,
        request: ListGroupLabelsRequest,
        page: PageRequest,
    ) -> Result<Page<GroupLabel>> {
        let page = self
            .list_labels(access, label_filter(request.label_filter), page)
            .await?;
        Ok(page.map(group_label))
    }

    async fn create_group_label(
        &self,
        access: GroupAccess,
        request: CreateGroupLabelRequest,
    ) -> Result<GroupLabel> {
        let body = request.body;
        let new = NewLabel {
            title: body.name,
            color: body.color,
            description: body.description.take(),
            priority: None,
        };
        let label = labels::create(&self.backend, &access.into(), new).await?;
        Ok(group_label(label))
    }

    async fn update_group_label_by_name(
        &self,
        access: GroupAccess,
        request: UpdateGroupLabelByNameRequest,
    ) -> Result<GroupLabel> {
        let body = request.body;
        let name = name_or_id(body.name, body.label_id)?;
        let update = label_update(body.label_update, Patch::Keep);
        Ok(group_label(self.update_label(access, &name, update).await?))
    }

    async fn delete_group_label_by_name(
        &self,
        access: GroupAccess,
        request: DeleteGroupLabelByNameRequest,
    ) -> Result<()> {
        let condition = request.if_unmodified_since;
        self.delete_label(access, &request.name, condition).await
    }

    async fn get_group_label(
        &self,
        access: GroupAccess,
        request: GetGroupLabelRequest,
    ) -> Result<GroupLabel> {
        let label = labels::get(&self.backend, &access.into(), &request.label_id).await?;
        Ok(group_label(label))
    }

    async fn update_group_label(
        &self,
        access: GroupAccess,
        request: UpdateGroupLabelRequest,
    ) -> Result<GroupLabel> {
        let update = label_update(request.body.label_update, Patch::Keep);
        Ok(group_label(
            self.update_label(access, &request.label_id, update).await?,
        ))
    }

    async fn delete_group_label(&self, access: GroupAccess, request: DeleteGroupLabelRequest) -> Result<()> {
        let condition = request.if_unmodified_since;
        self.delete_label(access, &request.label_id, condition).await
    }

    async fn subscribe_to_group_label(
        &self,
        access: GroupAccess,
        request: SubscribeToGroupLabelRequest,
    ) -> Result<GroupLabel> {
        let label = self.set_label_subscribed(access, &request.label_id, true).await?;
        Ok(group_label(label))
    }

    async fn unsubscribe_from_group_label(
        &self,
        access: GroupAccess,
        request: UnsubscribeFromGroupLabelRequest,
    ) -> Result<GroupLabel> {
        let label = self
            .set_label_subscribed(access, &request.label_id, false)
            .await?;
        Ok(group_label(label))
    }
}
