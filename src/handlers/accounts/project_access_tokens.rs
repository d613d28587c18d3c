//! Project access tokens.

use domain::accounts::project_access_tokens as tokens;
use domain::accounts::project_access_tokens::NewProjectToken;
use domain::identity::access::ProjectAccess;
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};

use crate::api::routes::ProjectAccessTokensApi;
use crate::app::App;
use crate::views;
use contract::{
    CreateProjectAccessTokenRequest, GetProjectAccessTokenRequest, ListProjectAccessTokensRequest,
    ProjectAccessToken, RevokeProjectAccessTokenRequest,
};

impl ProjectAccessTokensApi for App {
    async fn list_project_access_tokens(
        &self,
        access: ProjectAccess,
        request: ListProjectAccessTokensRequest,
        page: PageRequest,
    ) -> Result<Page<ProjectAccessToken>> {
        let state = views::identity::access_tokens::token_activity(request.state);
        let page = tokens::list(&self.backend, access.project.id, state, &page).await?;
        Ok(page.map(|token| views::identity::access_tokens::project(token, None)))
    }

    async fn create_project_access_token(
        &self,
        access: ProjectAccess,
        request: CreateProjectAccessTokenRequest,
    ) -> Result<ProjectAccessToken> {
        let body = request.body;
        let new = NewProjectToken {
            name: body.name,
            scopes: body.scopes.unwrap_or_default(),
            expires_at: body.expires_at.take(),
            access_level: body.access_level,
        };
        let (token, secret) = tokens::create(&self.backend, &access, new).await?;
        Ok(views::identity::access_tokens::project(token, Some(secret)))
    }

    async fn get_project_access_token(
        &self,
        access: ProjectAccess,
        request: GetProjectAccessTokenRequest,
    ) -> Result<ProjectAccessToken> {
        let token = tokens::get(&self.backend, access.project.id, request.token_id).await?;
        Ok(views::identity::access_tokens::project(token, None))
    }

    async fn revoke_project_access_token(
        &self,
        access: ProjectAccess,
        request: RevokeProjectAccessTokenRequest,
    ) -> Result<()> {
        let (id, since) = (request.token_id, request.if_unmodified_since);
        tokens::revoke(&self.backend, &access, id, since.as_deref()).await
    }
}
