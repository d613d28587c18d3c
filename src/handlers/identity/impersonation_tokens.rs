//! Impersonation tokens, which administrators create for other users.

use domain::audit::Actor;
use domain::identity::access::UserAccess;
use domain::identity::access_tokens::{self, NewToken, TokenKind};
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};

use crate::api::routes::ImpersonationTokensApi;
use crate::app::App;
use crate::views;
use contract::{
    CreateImpersonationTokenRequest, GetImpersonationTokenRequest, ImpersonationToken,
    ListImpersonationTokensRequest, RevokeImpersonationTokenRequest,
};

impl ImpersonationTokensApi for App {
    async fn list_impersonation_tokens(
        &self,
        access: UserAccess,
        request: ListImpersonationTokensRequest,
        page: PageRequest,
    ) -> Result<Page<ImpersonationToken>> {
        let state = views::identity::access_tokens::token_activity(request.state);
        let page = access_tokens::list_impersonation(&self.backend, access.user.id, state, &page).await?;
        Ok(page.map(|token| views::identity::access_tokens::impersonation(token, None)))
    }

    async fn create_impersonation_token(
        &self,
        access: UserAccess,
        request: CreateImpersonationTokenRequest,
    ) -> Result<ImpersonationToken> {
        let body = request.body;
        let new = NewToken {
            user_id: access.user.id,
            name: body.name,
            kind: TokenKind::Impersonation,
            scopes: body.scopes.unwrap_or_default(),
            expires_at: body.expires_at.take(),
            created_by_id: access.caller.as_user().map(|user| user.id),
            secret: None,
        };
        let (token, secret) = access_tokens::create(&self.backend, &Actor::from(&access.caller), new).await?;
        Ok(views::identity::access_tokens::impersonation(token, Some(secret)))
    }

    async fn get_impersonation_token(
        &self,
        access: UserAccess,
        request: GetImpersonationTokenRequest,
    ) -> Result<ImpersonationToken> {
        let id = request.impersonation_token_id;
        let token = access_tokens::get_impersonation(&self.backend, access.user.id, id).await?;
        Ok(views::identity::access_tokens::impersonation(token, None))
    }

    async fn revoke_impersonation_token(
        &self,
        access: UserAccess,
        request: RevokeImpersonationTokenRequest,
    ) -> Result<()> {
        let (id, since) = (request.impersonation_token_id, request.if_unmodified_since);
        access_tokens::revoke_impersonation(&self.backend, &access, id, since.as_deref()).await
    }
}
