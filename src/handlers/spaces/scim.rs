//! SCIM provisioning.

use domain::identity::access::ScimAccess;
use domain::kernel::error::{Error, Result};
use domain::spaces::scim::{self, NewScimUser};

use crate::api::response::WithHeaders;
use crate::api::routes::ScimApi;
use crate::app::App;
use crate::views::spaces::scim::{ScimLocation, account, discovery, operation, replacement};
use contract::{
    CreateScimUserRequest, DeleteScimUserRequest, GetScimResourceTypeRequest, GetScimSchemaRequest,
    GetScimUserRequest, ListScimUsersRequest, ReplaceScimUserRequest, ScimResourceType, ScimResourceTypeList,
    ScimSchema, ScimSchemaList, ScimServiceProviderConfig, ScimUser, ScimUserList, UpdateScimUserRequest,
};

impl App {
    fn provisioning(&self, access: &ScimAccess) -> ScimLocation {
        ScimLocation::new(&self.backend.instance.base_url, &access.group)
    }
}

impl ScimApi for App {
    async fn list_scim_users(
        &self,
        access: ScimAccess,
        request: ListScimUsersRequest,
    ) -> Result<ScimUserList> {
        let (filter, start, count) = (request.filter.as_deref(), request.start_index, request.count);
        let found = scim::list(&self.backend, &access, filter, start, count).await?;
        Ok(self.provisioning(&access).users(found))
    }

    async fn create_scim_user(
        &self,
        access: ScimAccess,
        request: CreateScimUserRequest,
    ) -> Result<WithHeaders<ScimUser>> {
        let new: NewScimUser = account(request.body);
        let user = scim::create(&self.backend, &access, new).await?;
        let user = self.provisioning(&access).user(user);
        Ok(WithHeaders {
            headers: vec![("Location", user.meta.location.clone())],
            body: user,
        })
    }

    async fn get_scim_user(&self, access: ScimAccess, request: GetScimUserRequest) -> Result<ScimUser> {
        let found = scim::get(&self.backend, &access, &request.id).await?;
        Ok(self.provisioning(&access).user(found))
    }

    async fn update_scim_user(&self, access: ScimAccess, request: UpdateScimUserRequest) -> Result<()> {
        let operations = request.body.operations.into_iter().map(operation).collect();
        scim::update(&self.backend, &access, &request.id, operations).await?;
        Ok(())
    }

    async fn replace_scim_user(
        &self,
        access: ScimAccess,
        request: ReplaceScimUserRequest,
    ) -> Result<ScimUser> {
        let operations = vec![replacement(request.body)];
        let (user, active) = scim::update(&self.backend, &access, &request.id, operations).await?;
        let user = self.provisioning(&access).user(user);
        Ok(ScimUser { active, ..user })
    }

    async fn delete_scim_user(&self, access: ScimAccess, request: DeleteScimUserRequest) -> Result<()> {
        scim::deprovision(&self.backend, &access, &request.id).await
    }

    async fn get_scim_service_provider_config(
        &self,
        access: ScimAccess,
    ) -> Result<ScimServiceProviderConfig> {
        Ok(discovery::supported(&self.provisioning(&access)))
    }

    async fn list_scim_resource_types(&self, access: ScimAccess) -> Result<ScimResourceTypeList> {
        Ok(discovery::resource_types(&self.provisioning(&access)))
    }

    async fn get_scim_resource_type(
        &self,
        access: ScimAccess,
        request: GetScimResourceTypeRequest,
    ) -> Result<ScimResourceType> {
        let all = discovery::resource_types(&self.provisioning(&access)).resources;
        let found = all.into_iter().find(|one| one.id == request.id);
        found.ok_or_else(|| Error::not_found(format!("Resource {}", request.id)))
    }

    async fn list_scim_schemas(&self, access: ScimAccess) -> Result<ScimSchemaList> {
        Ok(discovery::schemas(&self.provisioning(&access)))
    }

    async fn get_scim_schema(&self, access: ScimAccess, request: GetScimSchemaRequest) -> Result<ScimSchema> {
        let all = discovery::schemas(&self.provisioning(&access)).resources;
        let found = all.into_iter().find(|one| one.id == request.id);
        found.ok_or_else(|| Error::not_found(format!("Resource {}", request.id)))
    }
}
