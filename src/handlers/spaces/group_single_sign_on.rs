//! Single sign-on settings of groups, and their SCIM tokens.

use domain::identity::access::GroupAccess;
use domain::kernel::error::Result;
use domain::spaces::single_sign_on;

use crate::api::routes::GroupSingleSignOnApi;
use crate::app::App;
use crate::views::spaces::scim::group_saml;
use contract::{DeleteScimTokenRequest, GroupSaml, ScimToken, UpdateGroupSamlRequest};

impl GroupSingleSignOnApi for App {
    async fn get_group_saml(&self, access: GroupAccess) -> Result<GroupSaml> {
        let found = single_sign_on::get(&self.backend, &access).await?;
        Ok(group_saml(&self.backend.instance.base_url, &access.group, found))
    }

    async fn update_group_saml(
        &self,
        access: GroupAccess,
        request: UpdateGroupSamlRequest,
    ) -> Result<GroupSaml> {
        let (enabled, role) = (request.body.enabled, request.body.default_membership_role);
        let changed = single_sign_on::update(&self.backend, &access, enabled, role).await?;
        Ok(group_saml(
            &self.backend.instance.base_url,
            &access.group,
            changed,
        ))
    }

    async fn create_scim_token(&self, access: GroupAccess) -> Result<ScimToken> {
        let token = single_sign_on::create_token(&self.backend, &access).await?;
        Ok(ScimToken {
            token: token.into_exposed(),
        })
    }

    async fn delete_scim_token(&self, access: GroupAccess, request: DeleteScimTokenRequest) -> Result<()> {
        let since = request.if_unmodified_since;
        single_sign_on::revoke_token(&self.backend, &access, since.as_deref()).await
    }
}
