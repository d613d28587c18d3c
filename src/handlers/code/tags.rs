//! Tags of a repository.

use domain::code::tags::{self, NewTag, TagFilter};
use domain::identity::access::ProjectAccess;
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};

use crate::api::routes::TagsApi;
use crate::app::App;
use crate::views;
use contract::{
    CreateTagRequest, DeleteTagRequest, GetTagRequest, ListTagsRequest, SortDirection, Tag, TagOrder,
};

impl TagsApi for App {
    async fn list_tags(
        &self,
        access: ProjectAccess,
        request: ListTagsRequest,
        page: PageRequest,
    ) -> Result<Page<Tag>> {
        let filter = TagFilter {
            search: request.search,
            order: match request.order_by {
                Some(TagOrder::Name) => tags::TagOrder::Name,
                Some(TagOrder::Updated) | None => tags::TagOrder::Updated,
            },
            descending: !matches!(request.sort, Some(SortDirection::Asc)),
        };
        let page = tags::list(&self.backend, &access, filter, &page).await?;
        let url = self.project_url(&access);
        Ok(page.map(|detail| views::code::tag::tag(detail, &url)))
    }

    async fn create_tag(&self, access: ProjectAccess, request: CreateTagRequest) -> Result<Tag> {
        let new = NewTag {
            name: request.body.tag_name,
            revision: request.body.r#ref,
            message: request.body.message,
        };
        let detail = tags::create(&self.backend, &access, new).await?;
        Ok(views::code::tag::tag(detail, &self.project_url(&access)))
    }

    async fn get_tag(&self, access: ProjectAccess, request: GetTagRequest) -> Result<Tag> {
        let detail = tags::get(&self.backend, &access, &request.tag_name).await?;
        Ok(views::code::tag::tag(detail, &self.project_url(&access)))
    }

    async fn delete_tag(&self, access: ProjectAccess, request: DeleteTagRequest) -> Result<()> {
        let condition = request.if_unmodified_since.as_deref();
        tags::delete(&self.backend, &access, &request.tag_name, condition).await
    }
}
