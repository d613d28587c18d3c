//! Second factors of users.

use domain::audit::Actor;
use domain::identity::access::{InstanceAccess, UserAccess};
use domain::identity::two_factor::enrollment;
use domain::kernel::error::Result;

use crate::api::routes::TwoFactorAuthenticationApi;
use crate::app::App;
use crate::views::accounts::two_factor_authentication as views;
use contract::{
    ConfirmTwoFactorRequest, CreateRecoveryCodesRequest, DisableTwoFactorRequest, StartTwoFactorRequest,
    TwoFactorRecoveryCodes, TwoFactorSetup, TwoFactorStatus,
};

impl TwoFactorAuthenticationApi for App {
    async fn get_two_factor(&self, access: InstanceAccess) -> Result<TwoFactorStatus> {
        let user = access.caller.signed_in()?;
        let found = enrollment::status(&self.backend, user).await?;
        Ok(views::status(&found))
    }

    async fn start_two_factor(
        &self,
        access: InstanceAccess,
        request: StartTwoFactorRequest,
    ) -> Result<TwoFactorSetup> {
        let user = access.caller.signed_in()?;
        let password = request.body.current_password;
        let setup = enrollment::start(&self.backend, &Actor::from(&access.caller), user, password).await?;
        Ok(views::setup(setup))
    }

    async fn confirm_two_factor(
        &self,
        access: InstanceAccess,
        request: ConfirmTwoFactorRequest,
    ) -> Result<TwoFactorRecoveryCodes> {
        let user = access.caller.signed_in()?;
        let codes = enrollment::confirm(
            &self.backend,
            &Actor::from(&access.caller),
            user,
            &request.body.code,
            None,
        )
        .await?;
        Ok(views::recovery_codes(codes))
    }

    async fn disable_two_factor(
        &self,
        access: InstanceAccess,
        request: DisableTwoFactorRequest,
    ) -> Result<()> {
        let user = access.caller.signed_in()?;
        enrollment::disable(
            &self.backend,
            &Actor::from(&access.caller),
            user,
            &request.body.code,
            None,
        )
        .await
    }

    async fn create_recovery_codes(
        &self,
        access: InstanceAccess,
        request: CreateRecoveryCodesRequest,
    ) -> Result<TwoFactorRecoveryCodes> {
        let user = access.caller.signed_in()?;
        let codes = enrollment::replace_recovery_codes(
            &self.backend,
            &Actor::from(&access.caller),
            user,
            &request.body.code,
        )
        .await?;
        Ok(views::recovery_codes(codes))
    }

    async fn disable_user_two_factor(&self, access: UserAccess) -> Result<()> {
        enrollment::reset_by_api(&self.backend, &Actor::from(&access.caller), &access.user).await
    }
}
