//! Links of releases.

use domain::identity::access::ProjectAccess;
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};
use domain::kernel::patch::Patch;
use domain::releases::links::{self, LinkUpdate, NewLink};

use crate::api::routes::ReleaseLinksApi;
use crate::app::App;
use crate::handlers::patch::IntoPatch;
use crate::views::enums::Convert;
use crate::views::releases::release as view;
use contract::{
    CreateReleaseLinkRequest, DeleteReleaseLinkRequest, GetReleaseLinkRequest, ListReleaseLinksRequest,
    MaybeUndefined, ReleaseLink, ReleaseLinkCreate, UpdateReleaseLinkRequest,
};

/// Returns the link in a body.
pub(super) fn new_link(body: ReleaseLinkCreate) -> NewLink {
    NewLink {
        filepath: path(body.direct_asset_path, body.filepath).into_value(),
        name: body.name,
        url: body.url,
        link_type: body.link_type.map(Convert::convert),
    }
}

/// Returns the path of a body, which has two names.
fn path(name: MaybeUndefined<String>, alias: MaybeUndefined<String>) -> Patch<String> {
    match name.into_patch() {
        Patch::Keep => alias.into_patch(),
        path => path,
    }
}

impl ReleaseLinksApi for App {
    async fn list_release_links(
        &self,
        access: ProjectAccess,
        request: ListReleaseLinksRequest,
        page: PageRequest,
    ) -> Result<Page<ReleaseLink>> {
        let tag = request.tag_name;
        let page = links::list(&self.backend, &access, &tag, &page).await?;
        let url = self.project_url(&access);
        Ok(page.map(|link| view::link(link, &url, &tag)))
    }

    async fn create_release_link(
        &self,
        access: ProjectAccess,
        request: CreateReleaseLinkRequest,
    ) -> Result<ReleaseLink> {
        let tag = request.tag_name;
        let link = links::create(&self.backend, &access, &tag, new_link(request.body)).await?;
        Ok(view::link(link, &self.project_url(&access), &tag))
    }

    async fn get_release_link(
        &self,
        access: ProjectAccess,
        request: GetReleaseLinkRequest,
    ) -> Result<ReleaseLink> {
        let (tag, id) = (request.tag_name, request.link_id);
        let link = links::get(&self.backend, &access, &tag, id).await?;
        Ok(view::link(link, &self.project_url(&access), &tag))
    }

    async fn update_release_link(
        &self,
        access: ProjectAccess,
        request: UpdateReleaseLinkRequest,
    ) -> Result<ReleaseLink> {
        let (tag, id, body) = (request.tag_name, request.link_id, request.body);
        let update = LinkUpdate {
            filepath: path(body.direct_asset_path, body.filepath),
            name: body.name,
            url: body.url,
            link_type: body.link_type.map(Convert::convert),
        };
        let link = links::update(&self.backend, &access, &tag, id, update).await?;
        Ok(view::link(link, &self.project_url(&access), &tag))
    }

    async fn delete_release_link(
        &self,
        access: ProjectAccess,
        request: DeleteReleaseLinkRequest,
    ) -> Result<ReleaseLink> {
        let (tag, id, since) = (request.tag_name, request.link_id, request.if_unmodified_since);
        let link = links::delete(&self.backend, &access, &tag, id, since.as_deref()).await?;
        Ok(view::link(link, &self.project_url(&access), &tag))
    }
}
