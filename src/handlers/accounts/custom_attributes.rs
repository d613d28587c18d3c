//! Custom attributes of projects, groups and users.

use domain::accounts::custom_attributes as attributes;
use domain::accounts::custom_attributes::AttributeOwner;
use domain::identity::access::{GroupAccess, ProjectAccess, UserAccess};
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};

use crate::api::routes::CustomAttributesApi;
use crate::app::App;
use crate::views::accounts::custom_attribute::custom_attribute;
use contract::{
    CustomAttribute, DeleteGroupCustomAttributeRequest, DeleteProjectCustomAttributeRequest,
    DeleteUserCustomAttributeRequest, GetGroupCustomAttributeRequest, GetProjectCustomAttributeRequest,
    GetUserCustomAttributeRequest, SetGroupCustomAttributeRequest, SetProjectCustomAttributeRequest,
    SetUserCustomAttributeRequest,
};

impl App {
    async fn attributes(&self, owner: AttributeOwner, page: &PageRequest) -> Result<Page<CustomAttribute>> {
        let page = attributes::list(&self.backend, owner, page).await?;
        Ok(page.map(|row| custom_attribute(&row)))
    }

    async fn attribute(&self, owner: AttributeOwner, key: &str) -> Result<CustomAttribute> {
        let found = attributes::get(&self.backend, owner, key).await?;
        Ok(custom_attribute(&found))
    }

    async fn set_attribute(&self, owner: AttributeOwner, key: &str, value: &str) -> Result<CustomAttribute> {
        let set = attributes::set(&self.backend, owner, key, value).await?;
        Ok(custom_attribute(&set))
    }
}

impl CustomAttributesApi for App {
    async fn list_project_custom_attributes(
        &self,
        access: ProjectAccess,
        page: PageRequest,
    ) -> Result<Page<CustomAttribute>> {
        self.attributes(AttributeOwner::Project(access.project.id), &page)
            .await
    }

    async fn get_project_custom_attribute(
        &self,
        access: ProjectAccess,
        request: GetProjectCustomAttributeRequest,
    ) -> Result<CustomAttribute> {
        self.attribute(AttributeOwner::Project(access.project.id), &request.key)
            .await
    }

    async fn set_project_custom_attribute(
        &self,
        access: ProjectAccess,
        request: SetProjectCustomAttributeRequest,
    ) -> Result<CustomAttribute> {
        let owner = AttributeOwner::Project(access.project.id);
        self.set_attribute(owner, &request.key, &request.body.value).await
    }

    async fn delete_project_custom_attribute(
        &self,
        access: ProjectAccess,
        request: DeleteProjectCustomAttributeRequest,
    ) -> Result<()> {
        attributes::delete(
            &self.backend,
            AttributeOwner::Project(access.project.id),
            &request.key,
        )
        .await
    }

    async fn list_group_custom_attributes(
        &self,
        access: GroupAccess,
        page: PageRequest,
    ) -> Result<Page<CustomAttribute>> {
        self.attributes(AttributeOwner::Group(access.group.id), &page)
            .await
    }

    async fn get_group_custom_attribute(
        &self,
        access: GroupAccess,
        request: GetGroupCustomAttributeRequest,
    ) -> Result<CustomAttribute> {
        self.attribute(AttributeOwner::Group(access.group.id), &request.key)
            .await
    }

    async fn set_group_custom_attribute(
        &self,
        access: GroupAccess,
        request: SetGroupCustomAttributeRequest,
    ) -> Result<CustomAttribute> {
        let owner = AttributeOwner::Group(access.group.id);
        self.set_attribute(owner, &request.key, &request.body.value).await
    }

    async fn delete_group_custom_attribute(
        &self,
        access: GroupAccess,
        request: DeleteGroupCustomAttributeRequest,
    ) -> Result<()> {
        attributes::delete(
            &self.backend,
            AttributeOwner::Group(access.group.id),
            &request.key,
        )
        .await
    }

    async fn list_user_custom_attributes(
        &self,
        access: UserAccess,
        page: PageRequest,
    ) -> Result<Page<CustomAttribute>> {
        self.attributes(AttributeOwner::User(access.user.id), &page).await
    }

    async fn get_user_custom_attribute(
        &self,
        access: UserAccess,
        request: GetUserCustomAttributeRequest,
    ) -> Result<CustomAttribute> {
        self.attribute(AttributeOwner::User(access.user.id), &request.key)
            .await
    }

    async fn set_user_custom_attribute(
        &self,
        access: UserAccess,
        request: SetUserCustomAttributeRequest,
    ) -> Result<CustomAttribute> {
        let owner = AttributeOwner::User(access.user.id);
        self.set_attribute(owner, &request.key, &request.body.value).await
    }

    async fn delete_user_custom_attribute(
        &self,
        access: UserAccess,
        request: DeleteUserCustomAttributeRequest,
    ) -> Result<()> {
        attributes::delete(&self.backend, AttributeOwner::User(access.user.id), &request.key).await
    }
}
