//! Secondary email addresses of users.

use domain::accounts::users::emails;
use domain::audit::Actor;
use domain::identity::access::{InstanceAccess, UserAccess};
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};

use crate::api::routes::UserEmailsApi;
use crate::app::App;
use crate::views::accounts::account::email;
use contract::{
    CreateOwnEmailRequest, CreateUserEmailRequest, DeleteOwnEmailRequest, DeleteUserEmailRequest,
    GetOwnEmailRequest, UserEmail,
};

impl UserEmailsApi for App {
    async fn list_own_emails(&self, access: InstanceAccess, page: PageRequest) -> Result<Page<UserEmail>> {
        let user = access.caller.signed_in()?;
        Ok(emails::list(&self.backend, user.id, &page).await?.map(email))
    }

    async fn create_own_email(
        &self,
        access: InstanceAccess,
        request: CreateOwnEmailRequest,
    ) -> Result<UserEmail> {
        let user = access.caller.signed_in()?;
        emails::add(
            &self.backend,
            &Actor::from(&access.caller),
            user,
            request.body.email,
            false,
        )
        .await
        .map(email)
    }

    async fn get_own_email(&self, access: InstanceAccess, request: GetOwnEmailRequest) -> Result<UserEmail> {
        let user = access.caller.signed_in()?;
        emails::get(&self.backend, user.id, request.email_id)
            .await
            .map(email)
    }

    async fn delete_own_email(&self, access: InstanceAccess, request: DeleteOwnEmailRequest) -> Result<()> {
        let (user, since) = (access.caller.signed_in()?, request.if_unmodified_since);
        emails::remove(
            &self.backend,
            &Actor::from(&access.caller),
            user,
            request.email_id,
            since.as_deref(),
        )
        .await
    }

    async fn list_user_emails(&self, access: UserAccess, page: PageRequest) -> Result<Page<UserEmail>> {
        let page = emails::list(&self.backend, access.user.id, &page).await?;
        Ok(page.map(email))
    }

    async fn create_user_email(
        &self,
        access: UserAccess,
        request: CreateUserEmailRequest,
    ) -> Result<UserEmail> {
        let body = request.body;
        let confirmed = body.skip_confirmation == Some(true);
        emails::add(
            &self.backend,
            &Actor::from(&access.caller),
            &access.user,
            body.email,
            confirmed,
        )
        .await
        .map(email)
    }

    async fn delete_user_email(&self, access: UserAccess, request: DeleteUserEmailRequest) -> Result<()> {
        let since = request.if_unmodified_since;
        emails::remove(
            &self.backend,
            &Actor::from(&access.caller),
            &access.user,
            request.email_id,
            since.as_deref(),
        )
        .await
    }
}
