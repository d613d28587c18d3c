//! Protected tags of projects.

use domain::code::protected_refs::tags::{self, NewTagRule};
use domain::identity::access::ProjectAccess;
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};

use super::protected_branches::access_list;
use crate::api::routes::ProtectedTagsApi;
use crate::app::App;
use crate::views::code::protection::tag_protection;
use contract::{
    CreateTagProtectionRequest, DeleteTagProtectionRequest, GetTagProtectionRequest,
    ListTagProtectionsRequest, TagProtection,
};

impl ProtectedTagsApi for App {
    async fn list_tag_protections(
        &self,
        access: ProjectAccess,
        request: ListTagProtectionsRequest,
        page: PageRequest,
    ) -> Result<Page<TagProtection>> {
        let page = tags::list(&self.backend, &access, request.search.as_deref(), &page).await?;
        Ok(page.map(tag_protection))
    }

    async fn create_tag_protection(
        &self,
        access: ProjectAccess,
        request: CreateTagProtectionRequest,
    ) -> Result<TagProtection> {
        let body = request.body;
        let new = NewTagRule {
            name: body.name,
            create: access_list(body.create_access_level, body.allowed_to_create),
        };
        let created = tags::create(&self.backend, &access, new).await?;
        Ok(tag_protection(created))
    }

    async fn get_tag_protection(
        &self,
        access: ProjectAccess,
        request: GetTagProtectionRequest,
    ) -> Result<TagProtection> {
        let found = tags::get(&self.backend, &access, &request.name).await?;
        Ok(tag_protection(found))
    }

    async fn delete_tag_protection(
        &self,
        access: ProjectAccess,
        request: DeleteTagProtectionRequest,
    ) -> Result<()> {
        let since = request.if_unmodified_since.as_deref();
        tags::delete(&self.backend, &access, &request.name, since).await
    }
}
