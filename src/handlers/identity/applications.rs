//! OAuth applications.

use domain::audit::Actor;
use domain::identity::access::InstanceAccess;
use domain::identity::oauth::applications::{self, NewApplication};
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};

use crate::api::routes::ApplicationsApi;
use crate::app::App;
use crate::views::identity::application::application;
use contract::{
    Application, CreateApplicationRequest, DeleteApplicationRequest, RenewApplicationSecretRequest,
};

impl ApplicationsApi for App {
    async fn list_applications(&self, _: InstanceAccess, page: PageRequest) -> Result<Page<Application>> {
        let page = applications::list(&self.backend, &page).await?;
        Ok(page.map(|row| application(row, None)))
    }

    async fn create_application(
        &self,
        access: InstanceAccess,
        request: CreateApplicationRequest,
    ) -> Result<Application> {
        let body = request.body;
        let new = NewApplication {
            name: body.name,
            redirect_uri: body.redirect_uri,
            scopes: body.scopes,
            confidential: body.confidential,
        };
        let (row, secret) = applications::create(&self.backend, &Actor::from(&access.caller), new).await?;
        Ok(application(row, Some(secret)))
    }

    async fn delete_application(
        &self,
        access: InstanceAccess,
        request: DeleteApplicationRequest,
    ) -> Result<()> {
        let since = request.if_unmodified_since;
        applications::delete(
            &self.backend,
            &Actor::from(&access.caller),
            request.id,
            since.as_deref(),
        )
        .await
    }

    async fn renew_application_secret(
        &self,
        access: InstanceAccess,
        request: RenewApplicationSecretRequest,
    ) -> Result<Application> {
        let (row, secret) =
            applications::renew_secret(&self.backend, &Actor::from(&access.caller), request.id).await?;
        Ok(application(row, Some(secret)))
    }
}
