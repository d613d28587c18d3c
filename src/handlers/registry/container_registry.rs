//! Repositories and tags of the container registry.

use domain::identity::access::{GroupAccess, InstanceAccess, ProjectAccess};
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};
use domain::registry::deletion::{delete_repository, delete_tag};
use domain::registry::listing::{self, RepositoryDetailOptions};
use domain::registry::tag_cleanup::{self, CleanupRequest};

use crate::api::routes::ContainerRegistryApi;
use crate::app::App;
use crate::views;
use crate::views::registry::{repository, tag, tag_details};
use contract::{
    DeleteRegistryRepositoryRequest, DeleteRegistryTagRequest, DeleteRegistryTagsRequest,
    GetRegistryRepositoryRequest, GetRegistryTagRequest, ListGroupRegistryRepositoriesRequest,
    ListRegistryRepositoriesRequest, ListRegistryTagsRequest, Message, RegistryRepository, RegistryTag,
    RegistryTagDetails,
};

impl ContainerRegistryApi for App {
    async fn list_registry_repositories(
        &self,
        access: ProjectAccess,
        request: ListRegistryRepositoriesRequest,
        page: PageRequest,
    ) -> Result<Page<RegistryRepository>> {
        let with = RepositoryDetailOptions {
            tags: request.tags,
            tags_count: request.tags_count,
        };
        let page = listing::list_of_project(&self.backend, &access, request.name, with, &page).await?;
        Ok(page.map(|row| repository(&self.backend.instance.base_url, row)))
    }

    async fn list_group_registry_repositories(
        &self,
        access: GroupAccess,
        request: ListGroupRegistryRepositoriesRequest,
        page: PageRequest,
    ) -> Result<Page<RegistryRepository>> {
        let with = RepositoryDetailOptions {
            tags: request.tags,
            tags_count: request.tags_count,
        };
        let page = listing::list_of_group(&self.backend, &access, request.name, with, &page).await?;
        Ok(page.map(|row| repository(&self.backend.instance.base_url, row)))
    }

    async fn get_registry_repository(
        &self,
        access: InstanceAccess,
        request: GetRegistryRepositoryRequest,
    ) -> Result<RegistryRepository> {
        let with = RepositoryDetailOptions {
            tags: request.tags,
            tags_count: request.tags_count,
        };
        let found = listing::get(&self.backend, &access, request.repository_id, with).await?;
        Ok(repository(&self.backend.instance.base_url, found))
    }

    async fn delete_registry_repository(
        &self,
        access: ProjectAccess,
        request: DeleteRegistryRepositoryRequest,
    ) -> Result<Message> {
        delete_repository(&self.backend, &access, request.repository_id).await?;
        Ok(views::accepted())
    }

    async fn list_registry_tags(
        &self,
        access: ProjectAccess,
        request: ListRegistryTagsRequest,
        page: PageRequest,
    ) -> Result<Page<RegistryTag>> {
        let (id, page_request) = (request.repository_id, page);
        let (path, page) = listing::list_tags(&self.backend, &access, id, &page_request).await?;
        Ok(page.map(|row| tag(&self.backend.instance.base_url, &path, row.name)))
    }

    async fn delete_registry_tags(
        &self,
        access: ProjectAccess,
        request: DeleteRegistryTagsRequest,
    ) -> Result<Message> {
        let cleanup = CleanupRequest {
            name_regex_delete: request.name_regex_delete,
            name_regex: request.name_regex,
            name_regex_keep: request.name_regex_keep,
            keep_n: request.keep_n.map(i64::unsigned_abs),
            older_than: request.older_than,
        };
        tag_cleanup::enqueue(&self.backend, &access, request.repository_id, cleanup).await?;
        Ok(views::accepted())
    }

    async fn get_registry_tag(
        &self,
        access: ProjectAccess,
        request: GetRegistryTagRequest,
    ) -> Result<RegistryTagDetails> {
        let (id, name) = (request.repository_id, request.tag_name);
        let (path, row, manifest) = listing::get_tag(&self.backend, &access, id, &name).await?;
        Ok(tag_details(&self.backend.instance.base_url, &path, row, manifest))
    }

    async fn delete_registry_tag(
        &self,
        access: ProjectAccess,
        request: DeleteRegistryTagRequest,
    ) -> Result<Message> {
        let (id, since) = (request.repository_id, request.if_unmodified_since);
        delete_tag(&self.backend, &access, id, &request.tag_name, since.as_deref()).await?;
        Ok(Message {
            message: "200 OK".to_owned(),
        })
    }
}
