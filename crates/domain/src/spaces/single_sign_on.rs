//! Single sign-on of groups, and the tokens with which their identity providers provision users.

use chrono::{DateTime, Utc};
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, EntityTrait, IntoActiveModel,
    QueryFilter,
};
use storage::entities::{
    AccessLevel, namespaces, now, row_changes, saml_providers, scim_tokens, verified_domains,
};

use crate::audit::{self, Actor, AuditEntity, AuditEvent, AuditKind};
use crate::identity::access::GroupAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::preconditions::check_unmodified_since;
use crate::secrets::{Secret, Token};

/// Prefix of tokens, which secret scanners recognize.
const PREFIX: &str = "hfscim-";

/// Default role of provisioned members.
const DEFAULT_ROLE: AccessLevel = AccessLevel::Guest;

/// Highest role of provisioned members: only Owners can appoint Owners.
const MAX_ROLE: AccessLevel = AccessLevel::Maintainer;

/// The single sign-on of a group.
#[derive(Debug, Clone)]
pub struct SingleSignOn {
    /// The ID of the settings; `None` if it was never enabled.
    pub id: Option<i64>,
    /// Whether it is enabled.
    pub enabled: bool,
    /// The role of provisioned members.
    pub default_membership_role: AccessLevel,
    /// The creation time of the SCIM token, if one exists.
    pub token_created_at: Option<DateTime<Utc>>,
    /// The verified email domains, oldest first.
    pub verified_domains: Vec<String>,
}

/// Returns the single sign-on of a group, with defaults if it was never configured.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn get(backend: &Backend, access: &GroupAccess) -> Result<SingleSignOn> {
    let db = backend.database.read();
    let provider = saml_providers::of_group(access.group.id).one(db).await?;
    from_rows(db, access.group.id, provider).await
}

async fn from_rows(
    db: &impl ConnectionTrait,
    group_id: i64,
    provider: Option<saml_providers::Model>,
) -> Result<SingleSignOn> {
    let domains = verified_domains::of_group(group_id).all(db).await?;
    let verified_domains = domains.into_iter().map(|row| row.domain).collect();
    let Some(provider) = provider else {
        return Ok(SingleSignOn {
            id: None,
            enabled: false,
            default_membership_role: DEFAULT_ROLE,
            token_created_at: None,
            verified_domains,
        });
    };
    let token = scim_tokens::of_provider(provider.id).one(db).await?;
    Ok(SingleSignOn {
        id: Some(provider.id),
        enabled: provider.enabled,
        default_membership_role: provider.default_membership_role,
        token_created_at: token.map(|token| token.created_at),
        verified_domains,
    })
}

/// Updates the single sign-on of a group; absent values are unchanged.
///
/// # Errors
/// Returns a validation error if no value is given, if it is to be enabled for a subgroup, or if the role is
/// invalid.
pub async fn update(
    backend: &Backend,
    access: &GroupAccess,
    enabled: Option<bool>,
    default_membership_role: Option<i64>,
) -> Result<SingleSignOn> {
    if enabled.is_none() && default_membership_role.is_none() {
        return Err(Error::no_parameters(&["enabled", "default_membership_role"]));
    }
    let role = default_membership_role.map(|number| {
        let role = AccessLevel::from_number(number).filter(|role| *role <= MAX_ROLE);
        role.ok_or_else(|| Error::attribute("default_membership_role", "is not included in the list"))
    });
    let role = role.transpose()?;
    backend
        .database
        .transaction(async |transaction| {
            let group = lock(transaction, access.group.id).await?;
            let known = saml_providers::of_group(group.id).one(transaction).await?;
            let former = known.as_ref().map(saml_text);
            let was = known.as_ref().is_some_and(|provider| provider.enabled);
            if enabled == Some(true) && !was && group.parent_id.is_some() {
                let text = "can be true only for top-level groups";
                return Err(Error::attribute("enabled", text));
            }
            let provider = match known {
                Some(provider) => {
                    let mut row = provider.clone().into_active_model();
                    if let Some(enabled) = enabled {
                        row.enabled = Set(enabled);
                    }
                    if let Some(role) = role {
                        row.default_membership_role = Set(role);
                    }
                    row_changes::update_if_changed(transaction, &provider, row).await?
                }
                None => {
                    let at = now();
                    let row = saml_providers::ActiveModel {
                        namespace_id: Set(group.id),
                        enabled: Set(enabled.unwrap_or(false)),
                        default_membership_role: Set(role.unwrap_or(DEFAULT_ROLE)),
                        created_at: Set(at),
                        updated_at: Set(at),
                        ..Default::default()
                    };
                    row.insert(transaction).await?
                }
            };
            let text = saml_text(&provider);
            if former.as_ref() != Some(&text) {
                let event = AuditEvent::of(AuditKind::GroupSamlChanged, AuditEntity::namespace(&group));
                let event = event.from(former.unwrap_or_default()).to(text);
                audit::record(transaction, &access.caller, event).await?;
            }
            from_rows(transaction, group.id, Some(provider)).await
        })
        .await
}

fn saml_text(provider: &saml_providers::Model) -> String {
    let state = if provider.enabled { "enabled" } else { "disabled" };
    format!("{state}, {}", provider.default_membership_role.name())
}

/// Locks a group until the transaction ends, which serializes changes of its provisioning, and returns its
/// current state.
///
/// # Errors
/// Returns `NotFound` if the group was deleted concurrently.
pub(crate) async fn lock(db: &impl ConnectionTrait, group_id: i64) -> Result<namespaces::Model> {
    let group = namespaces::lock(db, group_id).await?;
    group
        .filter(|group| group.deletion_started_at.is_none())
        .ok_or_else(|| Error::not_found("Group"))
}

/// Creates the SCIM token of a group and invalidates the previous one. The secret is returned only here.
///
/// # Errors
/// Returns a validation error if single sign-on is not enabled.
pub async fn create_token(backend: &Backend, access: &GroupAccess) -> Result<Secret<String>> {
    let token = Token::generate(PREFIX);
    backend
        .database
        .transaction(async |transaction| {
            let group = lock(transaction, access.group.id).await?;
            let provider = saml_providers::of_group(group.id).one(transaction).await?;
            let provider = provider
                .filter(|provider| provider.enabled)
                .ok_or_else(|| Error::Rejected("Group SAML not enabled.".into()))?;
            scim_tokens::Entity::delete_many()
                .filter(scim_tokens::Column::SamlProviderId.eq(provider.id))
                .exec(transaction)
                .await?;
            let row = scim_tokens::ActiveModel {
                saml_provider_id: Set(provider.id),
                digest: Set(token.digest()),
                created_at: Set(now()),
                ..Default::default()
            };
            row.insert(transaction).await?;
            let event = AuditEvent::of(AuditKind::ScimTokenCreated, AuditEntity::namespace(&group));
            audit::record(transaction, &access.caller, event).await
        })
        .await?;
    Ok(Secret::new(token.expose().to_owned()))
}

/// Returns the SCIM token of a group, if one exists.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn token(backend: &Backend, group_id: i64) -> Result<Option<scim_tokens::Model>> {
    let db = backend.database.read();
    match saml_providers::of_group(group_id).one(db).await? {
        Some(provider) => Ok(scim_tokens::of_provider(provider.id).one(db).await?),
        None => Ok(None),
    }
}

/// Revokes the SCIM token of a group.
///
/// # Errors
/// Returns the errors of [`revoke_token_as`], and `PreconditionFailed` if the token was created after the given date.
pub async fn revoke_token(
    backend: &Backend,
    access: &GroupAccess,
    if_unmodified_since: Option<&str>,
) -> Result<()> {
    let actor = Actor::from(&access.caller);
    revoke_token_as(backend, &actor, access.group.id, if_unmodified_since).await
}

/// Like [`revoke_token`], for an actor who need not be a user.
///
/// # Errors
/// Returns `NotFound` if no token exists.
pub async fn revoke_token_as(
    backend: &Backend,
    actor: &Actor,
    group_id: i64,
    if_unmodified_since: Option<&str>,
) -> Result<()> {
    backend
        .database
        .transaction(async |transaction| {
            let group = lock(transaction, group_id).await?;
            let provider = saml_providers::of_group(group.id).one(transaction).await?;
            let missing = || Error::not_found("SCIM Token");
            let provider = provider.ok_or_else(missing)?;
            let token = scim_tokens::of_provider(provider.id).one(transaction).await?;
            let token = token.ok_or_else(missing)?;
            check_unmodified_since(if_unmodified_since, token.created_at)?;
            scim_tokens::Entity::delete_by_id(token.id)
                .exec(transaction)
                .await?;
            let event = AuditEvent::of(AuditKind::ScimTokenRevoked, AuditEntity::namespace(&group));
            audit::record(transaction, actor, event).await
        })
        .await
}
