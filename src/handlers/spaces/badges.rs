//! Badges of projects and groups.

use domain::identity::access::{GroupAccess, ProjectAccess};
use domain::identity::space_access::SpaceAccess;
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};
use domain::spaces::badges::{self};

use crate::api::routes::BadgesApi;
use crate::app::App;
use crate::handlers::patch::IntoPatch;
use crate::views::spaces::badge::{badge, preview};
use contract::{
    Badge, BadgeCreate, BadgePreview, BadgeUpdate, CreateGroupBadgeRequest, CreateProjectBadgeRequest,
    DeleteGroupBadgeRequest, DeleteProjectBadgeRequest, GetGroupBadgeRequest, GetProjectBadgeRequest,
    ListGroupBadgesRequest, ListProjectBadgesRequest, PreviewGroupBadgeRequest, PreviewProjectBadgeRequest,
    UpdateGroupBadgeRequest, UpdateProjectBadgeRequest,
};

impl App {
    async fn badges(
        &self,
        space: impl Into<SpaceAccess>,
        name: Option<String>,
        page: PageRequest,
    ) -> Result<Page<Badge>> {
        let page = badges::list(&self.backend, &space.into(), name.as_deref(), &page).await?;
        Ok(page.map(badge))
    }

    async fn create_badge(&self, space: impl Into<SpaceAccess>, body: BadgeCreate) -> Result<Badge> {
        let name = body.name.take();
        let (link, image) = (body.link_url, body.image_url);
        let created = badges::create(&self.backend, &space.into(), name, link, image).await?;
        Ok(badge(created))
    }

    async fn preview_badge(
        &self,
        space: impl Into<SpaceAccess>,
        link: String,
        image: String,
    ) -> Result<BadgePreview> {
        let rendered = badges::preview(&self.backend, &space.into(), &link, &image).await?;
        Ok(preview(link, image, rendered))
    }

    async fn badge(&self, space: impl Into<SpaceAccess>, id: i64) -> Result<Badge> {
        Ok(badge(badges::get(&self.backend, &space.into(), id).await?))
    }

    async fn update_badge(&self, space: impl Into<SpaceAccess>, id: i64, body: BadgeUpdate) -> Result<Badge> {
        let change = badges::BadgeUpdate {
            name: body.name.into_patch(),
            link_url: body.link_url,
            image_url: body.image_url,
        };
        Ok(badge(
            badges::update(&self.backend, &space.into(), id, change).await?,
        ))
    }

    async fn delete_badge(
        &self,
        space: impl Into<SpaceAccess>,
        id: i64,
        condition: Option<String>,
    ) -> Result<()> {
        badges::delete(&self.backend, &space.into(), id, condition.as_deref()).await
    }
}

impl BadgesApi for App {
    async fn list_project_badges(
        &self,
        access: ProjectAccess,
        request: ListProjectBadgesRequest,
        page: PageRequest,
    ) -> Result<Page<Badge>> {
        self.badges(access, request.name, page).await
    }

    async fn create_project_badge(
        &self,
        access: ProjectAccess,
        request: CreateProjectBadgeRequest,
    ) -> Result<Badge> {
        self.create_badge(access, request.body).await
    }

    async fn preview_project_badge(
        &self,
        access: ProjectAccess,
        request: PreviewProjectBadgeRequest,
    ) -> Result<BadgePreview> {
        self.preview_badge(access, request.link_url, request.image_url)
            .await
    }

    async fn get_project_badge(
        &self,
        access: ProjectAccess,
        request: GetProjectBadgeRequest,
    ) -> Result<Badge> {
        self.badge(access, request.badge_id).await
    }

    async fn update_project_badge(
        &self,
        access: ProjectAccess,
        request: UpdateProjectBadgeRequest,
    ) -> Result<Badge> {
        self.update_badge(access, request.badge_id, request.body).await
    }

    async fn delete_project_badge(
        &self,
        access: ProjectAccess,
        request: DeleteProjectBadgeRequest,
    ) -> Result<()> {
        self.delete_badge(access, request.badge_id, request.if_unmodified_since)
            .await
    }

    async fn list_group_badges(
        &self,
        access: GroupAccess,
        request: ListGroupBadgesRequest,
        page: PageRequest,
    ) -> Result<Page<Badge>> {
        self.badges(access, request.name, page).await
    }

    async fn create_group_badge(
        &self,
        access: GroupAccess,
        request: CreateGroupBadgeRequest,
    ) -> Result<Badge> {
        self.create_badge(access, request.body).await
    }

    async fn preview_group_badge(
        &self,
        access: GroupAccess,
        request: PreviewGroupBadgeRequest,
    ) -> Result<BadgePreview> {
        self.preview_badge(access, request.link_url, request.image_url)
            .await
    }

    async fn get_group_badge(&self, access: GroupAccess, request: GetGroupBadgeRequest) -> Result<Badge> {
        self.badge(access, request.badge_id).await
    }

    async fn update_group_badge(
        &self,
        access: GroupAccess,
        request: UpdateGroupBadgeRequest,
    ) -> Result<Badge> {
        self.update_badge(access, request.badge_id, request.body).await
    }

    async fn delete_group_badge(&self, access: GroupAccess, request: DeleteGroupBadgeRequest) -> Result<()> {
        self.delete_badge(access, request.badge_id, request.if_unmodified_since)
            .await
    }
}
