//! Deploy tokens of projects and groups.

use domain::identity::access::{GroupAccess, InstanceAccess, ProjectAccess};
use domain::identity::deploy_tokens::{self, NewDeployToken};
use domain::identity::space_access::SpaceAccess;
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};

use crate::api::routes::DeployTokensApi;
use crate::app::App;
use crate::views::identity::deploy_token::deploy_token;
use contract::{
    CreateGroupDeployTokenRequest, CreateProjectDeployTokenRequest, DeleteGroupDeployTokenRequest,
    DeleteProjectDeployTokenRequest, DeployToken, DeployTokenCreate, GetGroupDeployTokenRequest,
    GetProjectDeployTokenRequest, ListDeployTokensRequest, ListGroupDeployTokensRequest,
    ListProjectDeployTokensRequest,
};

impl App {
    async fn deploy_tokens(
        &self,
        space: impl Into<SpaceAccess>,
        active: Option<bool>,
        page: PageRequest,
    ) -> Result<Page<DeployToken>> {
        let page = deploy_tokens::list(&self.backend, &space.into(), active, &page).await?;
        Ok(page.map(|token| deploy_token(token, None)))
    }

    async fn create_deploy_token(
        &self,
        space: impl Into<SpaceAccess>,
        body: DeployTokenCreate,
    ) -> Result<DeployToken> {
        let scopes = body.scopes.into_iter();
        let new = NewDeployToken {
            name: body.name,
            username: body.username.take(),
            scopes: scopes.map(|scope| scope.as_str().to_owned()).collect(),
            expires_at: body.expires_at.take().map(|end| end.to_utc()),
        };
        let (token, secret) = deploy_tokens::create(&self.backend, &space.into(), new).await?;
        Ok(deploy_token(token, Some(secret)))
    }

    async fn deploy_token(&self, space: impl Into<SpaceAccess>, id: i64) -> Result<DeployToken> {
        let token = deploy_tokens::get(&self.backend, &space.into(), id).await?;
        Ok(deploy_token(token, None))
    }

    async fn delete_deploy_token(
        &self,
        space: impl Into<SpaceAccess>,
        id: i64,
        condition: Option<String>,
    ) -> Result<()> {
        deploy_tokens::delete(&self.backend, &space.into(), id, condition.as_deref()).await
    }
}

impl DeployTokensApi for App {
    async fn list_deploy_tokens(
        &self,
        _: InstanceAccess,
        request: ListDeployTokensRequest,
        page: PageRequest,
    ) -> Result<Page<DeployToken>> {
        let page = deploy_tokens::list_all(&self.backend, request.active, &page).await?;
        Ok(page.map(|token| deploy_token(token, None)))
    }

    async fn list_project_deploy_tokens(
        &self,
        access: ProjectAccess,
        request: ListProjectDeployTokensRequest,
        page: PageRequest,
    ) -> Result<Page<DeployToken>> {
        self.deploy_tokens(access, request.active, page).await
    }

    async fn create_project_deploy_token(
        &self,
        access: ProjectAccess,
        request: CreateProjectDeployTokenRequest,
    ) -> Result<DeployToken> {
        self.create_deploy_token(access, request.body).await
    }

    async fn get_project_deploy_token(
        &self,
        access: ProjectAccess,
        request: GetProjectDeployTokenRequest,
    ) -> Result<DeployToken> {
        self.deploy_token(access, request.token_id).await
    }

    async fn delete_project_deploy_token(
        &self,
        access: ProjectAccess,
        request: DeleteProjectDeployTokenRequest,
    ) -> Result<()> {
        self.delete_deploy_token(access, request.token_id, request.if_unmodified_since)
            .await
    }

    async fn list_group_deploy_tokens(
        &self,
        access: GroupAccess,
        request: ListGroupDeployTokensRequest,
        page: PageRequest,
    ) -> Result<Page<DeployToken>> {
        self.deploy_tokens(access, request.active, page).await
    }

    async fn create_group_deploy_token(
        &self,
        access: GroupAccess,
        request: CreateGroupDeployTokenRequest,
    ) -> Result<DeployToken> {
        self.create_deploy_token(access, request.body).await
    }

    async fn get_group_deploy_token(
        &self,
        access: GroupAccess,
        request: GetGroupDeployTokenRequest,
    ) -> Result<DeployToken> {
        self.deploy_token(access, request.token_id).await
    }

    async fn delete_group_deploy_token(
        &self,
        access: GroupAccess,
        request: DeleteGroupDeployTokenRequest,
    ) -> Result<()> {
        self.delete_deploy_token(access, request.token_id, request.if_unmodified_since)
            .await
    }
}
