//! Instance settings that administrators change at run time.
//!
//! Each setting that was ever changed is a row; the others have defaults. They are read on demand in one
//! statement, so that a change applies on every node immediately.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use storage::entities::{Visibility, settings};

use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::error::{Error, Result};

/// The current settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// Whether webhooks may reach loopback and private addresses.
    pub allow_local_requests_from_hooks_and_services: bool,
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
    /// Visibility levels that only administrators may use.
    pub restricted_visibility_levels: Vec<Visibility>,
    /// Whether new users are external.
    pub user_default_external: bool,
}

/// Changes to the settings. `None` keeps a setting.
#[derive(Debug, Clone, Default)]
pub struct SettingsUpdate {
    /// Whether webhooks may reach loopback and private addresses.
    pub allow_local_requests_from_hooks_and_services: Option<bool>,
    /// Default visibility of groups.
    pub default_group_visibility: Option<Visibility>,
    /// Default visibility of projects.
    pub default_project_visibility: Option<Visibility>,
    /// Maximum number of personal projects of new users.
    pub default_projects_limit: Option<i64>,
    /// Days between the removal and the deletion of a project or group.
    pub deletion_adjourned_period: Option<i64>,
    /// Whether impersonation tokens are accepted.
    pub impersonation_enabled: Option<bool>,
    /// Maximum size of an uploaded file, in units of 1,048,576 bytes.
    pub max_attachment_size: Option<i64>,
    /// Whether passwords are accepted for Git over HTTP.
    pub password_authentication_enabled_for_git: Option<bool>,
    /// Visibilities that only administrators may choose.
    pub restricted_visibility_levels: Option<Vec<Visibility>>,
    /// Must be [`SIGNUP_ENABLED`].
    pub signup_enabled: Option<bool>,
    /// Whether new users are external.
    pub user_default_external: Option<bool>,
    /// Must be [`USER_OAUTH_APPLICATIONS`].
    pub user_oauth_applications: Option<bool>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            allow_local_requests_from_hooks_and_services: false,
            default_group_visibility: Visibility::Private,
            default_project_visibility: Visibility::Private,
            default_projects_limit: 100_000,
            deletion_adjourned_period: 7,
            impersonation_enabled: true,
            max_attachment_size: 10,
            password_authentication_enabled_for_git: true,
            restricted_visibility_levels: Vec::new(),
            user_default_external: false,
        }
    }
}

/// Self-registration is not supported.
pub const SIGNUP_ENABLED: bool = false;
/// Users cannot register OAuth applications; only administrators can.
pub const USER_OAUTH_APPLICATIONS: bool = false;

impl Settings {
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
    pub fn closest_visibility(&self, caller: &Caller, wanted: Visibility) -> Visibility {
        let all = [Visibility::Public, Visibility::Internal, Visibility::Private];
        let mut narrower = all.into_iter().filter(|one| *one <= wanted);
        let allowed = narrower.find(|one| self.visibility_fault(caller, *one).is_none());
        allowed.unwrap_or(Visibility::Private)
    }

    /// Refuses a visibility that the caller may not use for a project.
    ///
    /// # Errors
    /// Returns a validation error for `visibility_level`.
    pub fn check_visibility(&self, caller: &Caller, visibility: Visibility) -> Result<()> {
        let fault = self.visibility_fault(caller, visibility);
        fault.map_or(Ok(()), |fault| Err(Error::attribute("visibility_level", fault)))
    }
}

/// Reads the current settings in one statement.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn read(backend: &Backend) -> Result<Settings> {
    let look_up = async {
        let rows = settings::all(backend.database.read()).await?;
        let mut found = Map::new();
        for row in rows {
            let value: Value = serde_json::from_str(&row.value).map_err(Error::internal)?;
            found.insert(row.key, value);
        }
        serde_json::from_value(Value::Object(found)).map_err(Error::internal)
    };
    backend
        .memory
        .settings
        .recall(&backend.database, (), look_up)
        .await
}

/// Updates the given settings and returns the current ones.
///
/// # Errors
/// Returns a validation error if no setting is given or a value is not supported by this server.
pub async fn update(backend: &Backend, change: SettingsUpdate) -> Result<Settings> {
    let fixed = [
        ("signup_enabled", change.signup_enabled, SIGNUP_ENABLED),
        (
            "user_oauth_applications",
            change.user_oauth_applications,
            USER_OAUTH_APPLICATIONS,
        ),
    ];
    let mut sent = false;
    for (name, wanted, only) in fixed {
        sent |= wanted.is_some();
        if wanted.is_some_and(|wanted| wanted != only) {
            return Err(Error::attribute(name, "is not supported by this server"));
        }
    }
    let changed = rows(change)?;
    if changed.is_empty() && !sent {
        return Err(Error::nothing_sent(&["settings"]));
    }
    backend
        .database
        .transaction(async |transaction| {
            for (key, value) in &changed {
                settings::put(transaction, key, &value.to_string()).await?;
            }
            Ok::<_, Error>(())
        })
        .await?;
    read(backend).await
}

/// Converts the given settings to rows.
fn rows(change: SettingsUpdate) -> Result<Vec<(&'static str, Value)>> {
    let levels = change.restricted_visibility_levels.map(|mut levels| {
        levels.sort_unstable();
        levels.dedup();
        levels
    });
    macro_rules! rows {
        ($($name:ident: $value:expr),* $(,)?) => {[
            $((stringify!($name), $value.map(serde_json::to_value).transpose())),*
        ]};
    }
    let rows = rows! {
        allow_local_requests_from_hooks_and_services: change.allow_local_requests_from_hooks_and_services,
        default_group_visibility: change.default_group_visibility,
        default_project_visibility: change.default_project_visibility,
        default_projects_limit: change.default_projects_limit,
        deletion_adjourned_period: change.deletion_adjourned_period,
        impersonation_enabled: change.impersonation_enabled,
        max_attachment_size: change.max_attachment_size,
        password_authentication_enabled_for_git: change.password_authentication_enabled_for_git,
        restricted_visibility_levels: levels,
        user_default_external: change.user_default_external,
    };
    let mut changed = Vec::new();
    for (name, value) in rows {
        if let Some(value) = value.map_err(Error::internal)? {
            changed.push((name, value));
        }
    }
    Ok(changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_never_set_has_its_default() {
        let settings: Settings =
            serde_json::from_str("{\"deletion_adjourned_period\":0,\"unknown\":1}").expect("settings");
        let defaults = Settings::default();
        assert_eq!(settings.deletion_adjourned_period, 0);
        assert_eq!(settings.max_attachment_bytes(), 10 << 20);
        assert_eq!(
            Settings {
                deletion_adjourned_period: 7,
                ..settings
            },
            defaults
        );
    }
}
