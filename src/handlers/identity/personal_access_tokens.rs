//! Personal access tokens.

use domain::audit::Actor;
use domain::identity::access::{InstanceAccess, UserAccess};
use domain::identity::access_tokens::{self, NewToken, TokenKind};
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};

use crate::api::routes::PersonalAccessTokensApi;
use crate::app::App;
use crate::views;
use contract::{
    CreatePersonalAccessTokenRequest, ListPersonalAccessTokensRequest, PersonalAccessToken,
    RevokePersonalAccessTokenRequest,
};

impl PersonalAccessTokensApi for App {
    async fn list_personal_access_tokens(
        &self,
        access: InstanceAccess,
        request: ListPersonalAccessTokensRequest,
        page: PageRequest,
    ) -> Result<Page<PersonalAccessToken>> {
        let (user, state) = (
            request.user_id,
            views::identity::access_tokens::token_activity(request.state),
        );
        let page = access_tokens::list_personal(&self.backend, &access.caller, user, state, &page).await?;
        Ok(page.map(|token| views::identity::access_tokens::personal(token, None)))
    }

    async fn get_own_personal_access_token(&self, access: InstanceAccess) -> Result<PersonalAccessToken> {
        let token = access_tokens::current(&access.caller)?;
        Ok(views::identity::access_tokens::personal(token, None))
    }

    async fn revoke_personal_access_token(
        &self,
        access: InstanceAccess,
        request: RevokePersonalAccessTokenRequest,
    ) -> Result<()> {
        let since = request.if_unmodified_since;
        access_tokens::revoke_personal(&self.backend, &access.caller, request.id, since.as_deref()).await
    }

    async fn create_personal_access_token(
        &self,
        access: UserAccess,
        request: CreatePersonalAccessTokenRequest,
    ) -> Result<PersonalAccessToken> {
        let body = request.body;
        let new = NewToken {
            user_id: access.user.id,
            name: body.name,
            kind: TokenKind::Personal,
            scopes: body.scopes.unwrap_or_default(),
            expires_at: body.expires_at.take(),
            created_by_id: access.caller.as_user().map(|user| user.id),
            secret: None,
        };
        let (token, secret) = access_tokens::create(&self.backend, &Actor::from(&access.caller), new).await?;
        Ok(views::identity::access_tokens::personal(token, Some(secret)))
    }
}
