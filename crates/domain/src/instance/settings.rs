//! Instance settings that administrators change at run time.
//!
//! Each setting that was ever changed is a row; the others have defaults. They are read on demand in one
//! statement, so that a change applies on every node immediately.

use sea_orm::ConnectionTrait;
use serde_json::{Map, Value};
use storage::entities::{Visibility, settings};

use crate::audit::{self, Actor, AuditEntity, AuditEvent, AuditKind};
use crate::integrations::git_remotes::RejectedRemote;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::settings::{ALLOW_LOCAL_REQUESTS, InstanceSettings};

/// Changes to the settings. `None` keeps a setting.
#[derive(Debug, Clone, Default)]
pub struct SettingsUpdate {
    /// Whether identity providers of groups may create accounts.
    pub allow_account_creation_by_groups: Option<bool>,
    /// Whether webhooks may reach loopback and private addresses.
    pub allow_local_requests_from_hooks_and_services: Option<bool>,
    /// Days after which audit events are deleted; 0 never deletes them.
    pub audit_event_retention_days: Option<i64>,
    /// Default branch of new projects.
    pub default_branch_name: Option<String>,
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
    /// Whether users have to set up a second factor.
    pub require_two_factor_authentication: Option<bool>,
    /// Visibilities that only administrators may choose.
    pub restricted_visibility_levels: Option<Vec<Visibility>>,
    /// Must be [`SIGNUP_ENABLED`].
    pub signup_enabled: Option<bool>,
    /// Hours within which users set up a required second factor.
    pub two_factor_grace_period: Option<i64>,
    /// Whether new users are external.
    pub user_default_external: Option<bool>,
    /// Must be [`USER_OAUTH_APPLICATIONS`].
    pub user_oauth_applications: Option<bool>,
}

/// Self-registration is not supported.
pub const SIGNUP_ENABLED: bool = false;
/// Users cannot register OAuth applications; only administrators can.
pub const USER_OAUTH_APPLICATIONS: bool = false;

/// Reads the current settings in one statement.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn get(backend: &Backend) -> Result<InstanceSettings> {
    backend
        .caches
        .settings
        .get_or_load(&backend.database, (), look_up(backend.database.read()))
        .await
}

/// Returns whether requests to URLs of users, such as those of webhooks and mirrors, may reach loopback and private
/// addresses: if the operator or the current settings allow it.
///
/// # Errors
/// Returns an error if a database query fails.
pub(crate) async fn allows_local_requests(backend: &Backend) -> Result<bool> {
    if backend.webhooks.is_local_allowed() {
        return Ok(true);
    }
    Ok(get(backend).await?.allow_local_requests_from_hooks_and_services)
}

/// Returns the error for a URL of a remote repository that is not accepted. It names the setting that forbids local
/// hosts.
pub(crate) fn rejected_remote(attribute: &'static str, rejected: RejectedRemote) -> Error {
    let error = Error::attribute(attribute, rejected.to_string());
    match rejected {
        RejectedRemote::Local => error.because_of(ALLOW_LOCAL_REQUESTS),
        _ => error,
    }
}

async fn look_up(db: &impl ConnectionTrait) -> Result<InstanceSettings> {
    let rows = settings::all(db).await?;
    let mut found = Map::new();
    for row in rows {
        let value: Value = serde_json::from_str(&row.value).map_err(Error::internal)?;
        found.insert(row.key, value);
    }
    serde_json::from_value(Value::Object(found)).map_err(Error::internal)
}

/// Updates the given settings and returns the current ones.
///
/// # Errors
/// Returns a validation error if no setting is given or a value is not supported by this server.
pub async fn update(backend: &Backend, actor: &Actor, change: SettingsUpdate) -> Result<InstanceSettings> {
    let fixed = [
        ("signup_enabled", change.signup_enabled, SIGNUP_ENABLED),
        (
            "user_oauth_applications",
            change.user_oauth_applications,
            USER_OAUTH_APPLICATIONS,
        ),
    ];
    let mut sent = false;
    for (name, requested, fixed_value) in fixed {
        sent |= requested.is_some();
        if requested.is_some_and(|requested| requested != fixed_value) {
            return Err(Error::attribute(name, "is not supported by this server"));
        }
    }
    if let Some(name) = &change.default_branch_name {
        git::check_branch_name(name)
            .map_err(|_| Error::attribute("default_branch_name", "is not a valid branch name"))?;
    }
    let changed = rows(change)?;
    if changed.is_empty() && !sent {
        return Err(Error::no_parameters(&["settings"]));
    }
    backend
        .database
        .transaction(async |transaction| {
            // The values before the change must be those that the events name.
            settings::lock(transaction).await?;
            let events = events(&look_up(transaction).await?, &changed)?;
            for (key, value) in &changed {
                settings::put(transaction, key, &value.to_string()).await?;
            }
            audit::record_all(transaction, actor, events).await
        })
        .await?;
    get(backend).await
}

/// Returns the events of settings whose value changes.
fn events(before: &InstanceSettings, changed: &[(&'static str, Value)]) -> Result<Vec<AuditEvent>> {
    let before = serde_json::to_value(before).map_err(Error::internal)?;
    let differs = |(key, value): &&(&'static str, Value)| before.get(*key) != Some(value);
    let text = |value: Option<&Value>| match value {
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
        None => String::new(),
    };
    let event = |(key, value): &(&'static str, Value)| {
        AuditEvent::of(AuditKind::ApplicationSettingChanged, AuditEntity::instance())
            .attribute(key)
            .from(text(before.get(*key)))
            .to(text(Some(value)))
    };
    Ok(changed.iter().filter(differs).map(event).collect())
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
        allow_account_creation_by_groups: change.allow_account_creation_by_groups,
        allow_local_requests_from_hooks_and_services: change.allow_local_requests_from_hooks_and_services,
        audit_event_retention_days: change.audit_event_retention_days,
        default_branch_name: change.default_branch_name,
        default_group_visibility: change.default_group_visibility,
        default_project_visibility: change.default_project_visibility,
        default_projects_limit: change.default_projects_limit,
        deletion_adjourned_period: change.deletion_adjourned_period,
        impersonation_enabled: change.impersonation_enabled,
        max_attachment_size: change.max_attachment_size,
        password_authentication_enabled_for_git: change.password_authentication_enabled_for_git,
        require_two_factor_authentication: change.require_two_factor_authentication,
        restricted_visibility_levels: levels,
        two_factor_grace_period: change.two_factor_grace_period,
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
