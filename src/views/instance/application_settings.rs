//! Settings of the instance.

use domain::instance::settings::{SIGNUP_ENABLED, USER_OAUTH_APPLICATIONS};
use domain::kernel::policy::InstancePlan;
use domain::kernel::settings::InstanceSettings;

use contract::{ApplicationSettings, Plan};

use crate::views::enums::Convert;

/// Returns the current settings and the plan of the instance.
#[must_use]
pub fn application_settings(settings: InstanceSettings, plan: InstancePlan) -> ApplicationSettings {
    let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let levels = settings.restricted_visibility_levels;
    ApplicationSettings {
        allow_account_creation_by_groups: settings.allow_account_creation_by_groups,
        allow_local_requests_from_hooks_and_services: settings.allow_local_requests_from_hooks_and_services,
        audit_event_retention_days: number(settings.audit_event_retention_days),
        default_branch_name: settings.default_branch_name,
        default_group_visibility: settings.default_group_visibility.convert(),
        default_project_visibility: settings.default_project_visibility.convert(),
        default_projects_limit: settings.default_projects_limit.into(),
        deletion_adjourned_period: number(settings.deletion_adjourned_period),
        impersonation_enabled: settings.impersonation_enabled,
        max_attachment_size: number(settings.max_attachment_size),
        password_authentication_enabled_for_git: settings.password_authentication_enabled_for_git,
        plan: match plan {
            InstancePlan::Free => Plan::Free,
            InstancePlan::Starter => Plan::Starter,
            InstancePlan::Premium => Plan::Premium,
            InstancePlan::Ultimate => Plan::Ultimate,
        },
        require_two_factor_authentication: settings.require_two_factor_authentication,
        restricted_visibility_levels: levels.into_iter().map(Convert::convert).collect(),
        signup_enabled: SIGNUP_ENABLED,
        two_factor_grace_period: settings.two_factor_grace_period.into(),
        user_default_external: settings.user_default_external,
        user_oauth_applications: USER_OAUTH_APPLICATIONS,
    }
}
