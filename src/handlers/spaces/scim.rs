//! SCIM provisioning.

use domain::identity::access::ScimAccess;
use domain::kernel::error::{Error, Result};
use domain::spaces::scim::{self, NewScimUser};

use crate::api::response::WithHeaders;
use crate::api::routes::ScimApi;
use crate::app::App;
use crate::views::spaces::scim::selection::AttributeSelection;
use crate::views::spaces::scim::{ScimLocation, account, discovery, operation, replacement};
use contract::{
    CreateScimUserRequest, DeleteScimUserRequest, GetScimResourceTypeRequest, GetScimSchemaRequest,
    GetScimServiceProviderConfigRequest, GetScimUserRequest, ListScimResourceTypesRequest,
    ListScimSchemasRequest, ListScimUsersRequest, ReplaceScimUserRequest, ScimResourceType,
    ScimResourceTypeList, ScimSchema, ScimSchemaList, ScimSearch, ScimSelection, ScimServiceProviderConfig,
    ScimUser, ScimUserList, SearchScimResourcesRequest, SearchScimUsersRequest, UpdateScimUserRequest,
};

impl App {
    fn provisioning(&self, access: &ScimAccess) -> ScimLocation {
        ScimLocation::new(&self.backend.instance.base_url, &access.group)
    }

    async fn search_users(&self, access: ScimAccess, search: ScimSearch) -> Result<ScimUserList> {
        let selection = AttributeSelection::new(search.attributes, search.excluded_attributes)?;
        let (filter, start, count) = (search.filter.as_deref(), search.start_index, search.count);
        let found = scim::list(&self.backend, &access, filter, start, count).await?;
        Ok(selection.of_users(self.provisioning(&access).users(found)))
    }
}

fn selection(requested: ScimSelection) -> Result<AttributeSelection> {
    AttributeSelection::new(requested.attributes, requested.excluded_attributes)
}

/// Rejects a filter of a description of the service (RFC 7644, section 4).
fn check_no_filter(filter: Option<&str>) -> Result<()> {
    match filter {
        Some(_) => Err(Error::forbidden_because("Filters are not supported here")),
        None => Ok(()),
    }
}

impl ScimApi for App {
    async fn list_scim_users(
        &self,
        access: ScimAccess,
        request: ListScimUsersRequest,
    ) -> Result<ScimUserList> {
        let search = ScimSearch {
            schemas: None,
            attributes: request.scim_selection.attributes,
            excluded_attributes: request.scim_selection.excluded_attributes,
            filter: request.filter,
            start_index: request.start_index,
            count: request.count,
        };
        self.search_users(access, search).await
    }

    async fn search_scim_users(
        &self,
        access: ScimAccess,
        request: SearchScimUsersRequest,
    ) -> Result<ScimUserList> {
        self.search_users(access, request.body).await
    }

    async fn search_scim_resources(
        &self,
        access: ScimAccess,
        request: SearchScimResourcesRequest,
    ) -> Result<ScimUserList> {
        self.search_users(access, request.body).await
    }

    async fn create_scim_user(
        &self,
        access: ScimAccess,
        request: CreateScimUserRequest,
    ) -> Result<WithHeaders<ScimUser>> {
        let selection = selection(request.scim_selection)?;
        let new: NewScimUser = account(request.body);
        let created = scim::create(&self.backend, &access, new).await?;
        let provisioning = self.provisioning(&access);
        Ok(WithHeaders {
            headers: vec![("Location", provisioning.url_of(&created))],
            body: selection.of_user(provisioning.user(created)),
        })
    }

    async fn get_scim_user(&self, access: ScimAccess, request: GetScimUserRequest) -> Result<ScimUser> {
        let selection = selection(request.scim_selection)?;
        let found = scim::get(&self.backend, &access, &request.id).await?;
        Ok(selection.of_user(self.provisioning(&access).user(found)))
    }

    async fn update_scim_user(
        &self,
        access: ScimAccess,
        request: UpdateScimUserRequest,
    ) -> Result<Option<ScimUser>> {
        let selection = selection(request.scim_selection)?;
        let operations = request.body.operations.into_iter().map(operation).collect();
        let (user, active) = scim::update(&self.backend, &access, &request.id, operations).await?;
        Ok(selection.is_requested().then(|| {
            let user = self.provisioning(&access).user_with_state(user, active);
            selection.of_user(user)
        }))
    }

    async fn replace_scim_user(
        &self,
        access: ScimAccess,
        request: ReplaceScimUserRequest,
    ) -> Result<ScimUser> {
        let selection = selection(request.scim_selection)?;
        let operations = vec![replacement(request.body)];
        let (user, active) = scim::update(&self.backend, &access, &request.id, operations).await?;
        let user = self.provisioning(&access).user_with_state(user, active);
        Ok(selection.of_user(user))
    }

    async fn delete_scim_user(&self, access: ScimAccess, request: DeleteScimUserRequest) -> Result<()> {
        scim::deprovision(&self.backend, &access, &request.id).await
    }

    async fn get_scim_service_provider_config(
        &self,
        access: ScimAccess,
        request: GetScimServiceProviderConfigRequest,
    ) -> Result<ScimServiceProviderConfig> {
        check_no_filter(request.filter.as_deref())?;
        Ok(discovery::supported(&self.provisioning(&access)))
    }

    async fn list_scim_resource_types(
        &self,
        access: ScimAccess,
        request: ListScimResourceTypesRequest,
    ) -> Result<ScimResourceTypeList> {
        check_no_filter(request.filter.as_deref())?;
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

    async fn list_scim_schemas(
        &self,
        access: ScimAccess,
        request: ListScimSchemasRequest,
    ) -> Result<ScimSchemaList> {
        check_no_filter(request.filter.as_deref())?;
        Ok(discovery::schemas(&self.provisioning(&access)))
    }

    async fn get_scim_schema(&self, access: ScimAccess, request: GetScimSchemaRequest) -> Result<ScimSchema> {
        let all = discovery::schemas(&self.provisioning(&access)).resources;
        let found = all.into_iter().find(|one| one.id == request.id);
        found.ok_or_else(|| Error::not_found(format!("Resource {}", request.id)))
    }
}
