//! Settings of the instance.

use domain::audit::Actor;
use domain::identity::access::InstanceAccess;
use domain::instance::settings::{self, SettingsUpdate};
use domain::kernel::error::Result;

use crate::api::routes::ApplicationSettingsApi;
use crate::app::App;
use crate::views::enums::Convert;
use crate::views::instance::application_settings::application_settings;
use contract::{ApplicationSettings, ApplicationSettingsUpdate, UpdateApplicationSettingsRequest};

impl ApplicationSettingsApi for App {
    async fn get_application_settings(&self, _: InstanceAccess) -> Result<ApplicationSettings> {
        let settings = settings::get(&self.backend).await?;
        Ok(application_settings(settings, self.backend.instance.plan))
    }

    async fn update_application_settings(
        &self,
        access: InstanceAccess,
        request: UpdateApplicationSettingsRequest,
    ) -> Result<ApplicationSettings> {
        let settings =
            settings::update(&self.backend, &Actor::from(&access.caller), update(request.body)).await?;
        Ok(application_settings(settings, self.backend.instance.plan))
    }
}

fn update(body: ApplicationSettingsUpdate) -> SettingsUpdate {
    let levels = body.restricted_visibility_levels;
    SettingsUpdate {
        allow_account_creation_by_groups: body.allow_account_creation_by_groups,
        allow_local_requests_from_hooks_and_services: body.allow_local_requests_from_hooks_and_services,
        audit_event_retention_days: body.audit_event_retention_days,
        default_branch_name: body.default_branch_name,
        default_group_visibility: body.default_group_visibility.map(Convert::convert),
        default_project_visibility: body.default_project_visibility.map(Convert::convert),
        default_projects_limit: body.default_projects_limit,
        deletion_adjourned_period: body.deletion_adjourned_period,
        impersonation_enabled: body.impersonation_enabled,
        max_attachment_size: body.max_attachment_size,
        password_authentication_enabled_for_git: body.password_authentication_enabled_for_git,
        require_two_factor_authentication: body.require_two_factor_authentication,
        restricted_visibility_levels: levels.map(|levels| levels.into_iter().map(Convert::convert).collect()),
        signup_enabled: body.signup_enabled,
        two_factor_grace_period: body.two_factor_grace_period,
        user_default_external: body.user_default_external,
        user_oauth_applications: body.user_oauth_applications,
    }
}
