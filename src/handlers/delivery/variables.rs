//! CI/CD variables of the instance, projects and groups.

use domain::delivery::variables::{self, VariableEditor, VariableKey, VariableOwner};
use domain::identity::access::{GroupAccess, InstanceAccess, ProjectAccess};
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};

use crate::api::routes::VariablesApi;
use crate::app::App;
use crate::views::delivery::variable::{instance_variable, variable};
use crate::views::enums::Convert;
use contract::{
    CreateGroupVariableRequest, CreateInstanceVariableRequest, CreateProjectVariableRequest,
    DeleteGroupVariableRequest, DeleteInstanceVariableRequest, DeleteProjectVariableRequest,
    GetGroupVariableRequest, GetInstanceVariableRequest, GetProjectVariableRequest, InstanceVariable,
    UpdateGroupVariableRequest, UpdateInstanceVariableRequest, UpdateProjectVariableRequest, Variable,
    VariableCreate, VariableFilter, VariableUpdate,
};

/// Returns the name of an instance variable, which applies to all environments.
fn everywhere(key: String) -> VariableKey {
    VariableKey {
        key,
        environment_scope: None,
    }
}

/// Returns the name of a project or group variable.
fn name(key: String, filter: Option<VariableFilter>) -> VariableKey {
    VariableKey {
        key,
        environment_scope: filter.and_then(|filter| filter.environment_scope),
    }
}

impl App {
    async fn variables(&self, holder: impl Into<VariableOwner>, page: PageRequest) -> Result<Page<Variable>> {
        let page = variables::list(&self.backend, holder.into(), &page).await?;
        Ok(page.map(variable))
    }

    async fn create_variable(
        &self,
        editor: impl Into<VariableEditor>,
        body: VariableCreate,
    ) -> Result<Variable> {
        let new = variables::VariableUpdate {
            value: Some(body.value.into()),
            kind: body.variable_type.map(Convert::convert),
            protected: body.protected,
            masked: body.masked,
            masked_and_hidden: body.masked_and_hidden,
            environment_scope: body.environment_scope,
        };
        let created = variables::create(&self.backend, editor.into(), body.key, new).await?;
        Ok(variable(created))
    }

    async fn variable(&self, holder: impl Into<VariableOwner>, name: VariableKey) -> Result<Variable> {
        let found = variables::get(&self.backend, holder.into(), &name).await?;
        Ok(variable(found))
    }

    async fn update_variable(
        &self,
        editor: impl Into<VariableEditor>,
        name: VariableKey,
        body: VariableUpdate,
    ) -> Result<Variable> {
        let change = variables::VariableUpdate {
            value: body.value.map(Into::into),
            kind: body.variable_type.map(Convert::convert),
            protected: body.protected,
            masked: body.masked,
            masked_and_hidden: false,
            environment_scope: body.environment_scope,
        };
        let changed = variables::update(&self.backend, editor.into(), &name, change).await?;
        Ok(variable(changed))
    }
}

impl VariablesApi for App {
    async fn list_instance_variables(
        &self,
        access: InstanceAccess,
        page: PageRequest,
    ) -> Result<Page<InstanceVariable>> {
        let page = variables::list(&self.backend, access.into(), &page).await?;
        Ok(page.map(instance_variable))
    }

    async fn create_instance_variable(
        &self,
        access: InstanceAccess,
        request: CreateInstanceVariableRequest,
    ) -> Result<InstanceVariable> {
        let body = request.body;
        let new = variables::VariableUpdate {
            value: Some(body.value.into()),
            kind: body.variable_type.map(Convert::convert),
            protected: body.protected,
            masked: body.masked,
            masked_and_hidden: body.masked_and_hidden,
            environment_scope: None,
        };
        let created = variables::create(&self.backend, access.into(), body.key, new).await?;
        Ok(instance_variable(created))
    }

    async fn get_instance_variable(
        &self,
        access: InstanceAccess,
        request: GetInstanceVariableRequest,
    ) -> Result<InstanceVariable> {
        let name = everywhere(request.key);
        let found = variables::get(&self.backend, access.into(), &name).await?;
        Ok(instance_variable(found))
    }

    async fn update_instance_variable(
        &self,
        access: InstanceAccess,
        request: UpdateInstanceVariableRequest,
    ) -> Result<InstanceVariable> {
        let (name, body) = (everywhere(request.key), request.body);
        let change = variables::VariableUpdate {
            value: Some(body.value.into()),
            kind: body.variable_type.map(Convert::convert),
            protected: body.protected,
            masked: body.masked,
            masked_and_hidden: false,
            environment_scope: None,
        };
        let changed = variables::update(&self.backend, access.into(), &name, change).await?;
        Ok(instance_variable(changed))
    }

    async fn delete_instance_variable(
        &self,
        access: InstanceAccess,
        request: DeleteInstanceVariableRequest,
    ) -> Result<()> {
        let (name, since) = (everywhere(request.key), request.if_unmodified_since);
        variables::delete(&self.backend, access.into(), &name, since.as_deref()).await
    }

    async fn list_project_variables(
        &self,
        access: ProjectAccess,
        page: PageRequest,
    ) -> Result<Page<Variable>> {
        self.variables(access, page).await
    }

    async fn create_project_variable(
        &self,
        access: ProjectAccess,
        request: CreateProjectVariableRequest,
    ) -> Result<Variable> {
        self.create_variable(access, request.body).await
    }

    async fn get_project_variable(
        &self,
        access: ProjectAccess,
        request: GetProjectVariableRequest,
    ) -> Result<Variable> {
        self.variable(access, name(request.key, request.filter)).await
    }

    async fn update_project_variable(
        &self,
        access: ProjectAccess,
        request: UpdateProjectVariableRequest,
    ) -> Result<Variable> {
        let name = name(request.key, request.filter);
        self.update_variable(access, name, request.body).await
    }

    async fn delete_project_variable(
        &self,
        access: ProjectAccess,
        request: DeleteProjectVariableRequest,
    ) -> Result<()> {
        let (name, since) = (name(request.key, request.filter), request.if_unmodified_since);
        variables::delete(&self.backend, access.into(), &name, since.as_deref()).await
    }

    async fn list_group_variables(&self, access: GroupAccess, page: PageRequest) -> Result<Page<Variable>> {
        self.variables(access, page).await
    }

    async fn create_group_variable(
        &self,
        access: GroupAccess,
        request: CreateGroupVariableRequest,
    ) -> Result<Variable> {
        self.create_variable(access, request.body).await
    }

    async fn get_group_variable(
        &self,
        access: GroupAccess,
        request: GetGroupVariableRequest,
    ) -> Result<Variable> {
        self.variable(access, name(request.key, request.filter)).await
    }

    async fn update_group_variable(
        &self,
        access: GroupAccess,
        request: UpdateGroupVariableRequest,
    ) -> Result<Variable> {
        let name = name(request.key, request.filter);
        self.update_variable(access, name, request.body).await
    }

    async fn delete_group_variable(
        &self,
        access: GroupAccess,
        request: DeleteGroupVariableRequest,
    ) -> Result<()> {
        let (name, since) = (name(request.key, request.filter), request.if_unmodified_since);
        variables::delete(&self.backend, access.into(), &name, since.as_deref()).await
    }
}
