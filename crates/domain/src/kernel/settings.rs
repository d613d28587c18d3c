//! Values of the instance settings.

use serde::{Deserialize, Serialize};
use storage::entities::Visibility;

use crate::kernel::caller::Caller;
use crate::kernel::error::{Error, Result};

/// Default branch of new projects, unless the settings name another one.
const DEFAULT_BRANCH: &str = "main";

/// Name of the setting that allows requests to loopback and private addresses.
pub(crate) const ALLOW_LOCAL_REQUESTS: &str = "allow_local_requests_from_hooks_and_services";
/// Name of the setting with the maximum size of an uploaded file.
pub const ATTACHMENT_SIZE: &str = "max_attachment_size";
/// Name of the option of the server with the maximum size of a file of a package.
pub const PACKAGE_FILE_SIZE: &str = "max_package_file_bytes";
/// Name of the option of the server with the maximum total size of the packages of a project.
pub const PROJECT_PACKAGES_SIZE: &str = "max_project_package_bytes";

/// The current settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct InstanceSettings {
    /// Whether identity providers of groups may create accounts.
    pub allow_account_creation_by_groups: bool,
    /// Whether webhooks may reach loopback and private addresses.
    pub allow_local_requests_from_hooks_and_services: bool,
    /// Days after which audit events are deleted; 0 never deletes them.
    pub audit_event_retention_days: u64,
    /// Default branch of new projects.
    pub default_branch_name: String,
    /// Default visibility of new groups.
    pub default_group_visibility: Visibility,
    /// Default visibility of new projects.
    pub default_project_visibility: Visibility,
    /// Maximum number of personal projects of new users.
    pub default_projects_limit: i32,
    /// Days between marking a project for deletion and deleting it; 0 deletes immediately.
    pub deletion_adjourned_period: u64,
    /// Whether impersonation tokens are accepted.
    pub impersonation_enabled: bool,
    /// Maximum size of an uploaded file, in MiB.
    pub max_attachment_size: u64,
    /// Whether Git over HTTP accepts passwords.
    pub password_authentication_enabled_for_git: bool,
    /// Whether users have to set up a second factor.
    pub require_two_factor_authentication: bool,
    /// Visibility levels that only administrators may use.
    pub restricted_visibility_levels: Vec<Visibility>,
    /// Hours within which users set up a required second factor.
    pub two_factor_grace_period: i32,
    /// Whether new users are external.
    pub user_default_external: bool,
}

impl Default for InstanceSettings {
    fn default() -> Self {
        Self {
            allow_account_creation_by_groups: true,
            allow_local_requests_from_hooks_and_services: false,
            audit_event_retention_days: 0,
            default_branch_name: DEFAULT_BRANCH.to_owned(),
            default_group_visibility: Visibility::Private,
            default_project_visibility: Visibility::Private,
            default_projects_limit: 100_000,
            deletion_adjourned_period: 7,
            impersonation_enabled: true,
            max_attachment_size: 10,
            password_authentication_enabled_for_git: true,
            require_two_factor_authentication: false,
            restricted_visibility_levels: Vec::new(),
            two_factor_grace_period: 48,
            user_default_external: false,
        }
    }
}

impl InstanceSettings {
    /// Returns the maximum size of an uploaded file, in bytes.
    #[must_use]
    pub fn max_attachment_bytes(&self) -> u64 {
        self.max_attachment_size.saturating_mul(1 << 20)
    }

    /// Returns why a caller may not use this visibility, or `None` if they may.
    #[must_use]
    pub fn visibility_fault(&self, caller: &Caller, visibility: Visibility) -> Option<String> {
        let restricted = !caller.is_admin() && self.restricted_visibility_levels.contains(&visibility);
        let word = visibility.as_str();
        restricted.then(|| format!("{word} has been restricted by your administrator"))
    }

    /// Returns the widest visibility that a caller may use and that does not exceed this one.
    #[must_use]
    pub fn closest_visibility(&self, caller: &Caller, requested: Visibility) -> Visibility {
        let all = [Visibility::Public, Visibility::Internal, Visibility::Private];
        let mut candidates = all.into_iter().filter(|one| *one <= requested);
        let allowed = candidates.find(|one| self.visibility_fault(caller, *one).is_none());
        allowed.unwrap_or(Visibility::Private)
    }

    /// Refuses a visibility that the caller may not use for a project.
    ///
    /// # Errors
    /// Returns a validation error for `visibility_level` that names the setting.
    pub fn check_visibility(&self, caller: &Caller, visibility: Visibility) -> Result<()> {
        let fault = self.visibility_fault(caller, visibility);
        fault.map_or(Ok(()), |fault| {
            Err(Error::attribute("visibility_level", fault).because_of("restricted_visibility_levels"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unset_settings_have_defaults() {
        let settings: InstanceSettings =
            serde_json::from_str("{\"deletion_adjourned_period\":0,\"unknown\":1}").expect("settings");
        let defaults = InstanceSettings::default();
        assert_eq!(settings.deletion_adjourned_period, 0);
        assert_eq!(settings.max_attachment_bytes(), 10 << 20);
        assert_eq!(
            InstanceSettings {
                deletion_adjourned_period: 7,
                ..settings
            },
            defaults
        );
    }
}
