//! Single sign-on of groups, and the tokens by which their identity providers provision users (specification 4.19).

use chrono::{DateTime, Utc};
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, EntityTrait, IntoActiveModel,
    QueryFilter,
};
use storage::entities::{AccessLevel, namespaces, now, saml_providers, scim_tokens};

use crate::error::{Error, Result};
use crate::secrets::{Secret, Token};
use crate::services::Backend;
use crate::services::access::GroupAccess;
use crate::services::preconditions::unmodified_since;

/// What secret scanners know the tokens by.
const PREFIX: &str = "hfscim-";

/// The role of provisioned members, unless the group says another.
const DEFAULT_ROLE: AccessLevel = AccessLevel::Guest;

/// The highest role that provisioned members may get: owners are made by owners.
const HIGHEST_ROLE: AccessLevel = AccessLevel::Maintainer;

/// The single sign-on of a group.
#[derive(Debug, Clone)]
pub struct SingleSignOn {
    /// The number of the settings; none while it was never enabled.
    pub id: Option<i64>,
    /// Whether it is in force.
    pub enabled: bool,
    /// The role of provisioned members.
    pub default_membership_role: AccessLevel,
    /// When the SCIM token was made, if there is one.
    pub token_created_at: Option<DateTime<Utc>>,
}

/// The single sign-on of a group; that of one that never had any is what it would be.
///
/// # Errors
/// Whatever the database reports.
pub async fn read(backend: &Backend, access: &GroupAccess) -> Result<SingleSignOn> {
    let db = backend.database.read();
    let provider = saml_providers::of_group(access.group.id).one(db).await?;
    described(db, provider).await
}

async fn described(
    db: &impl ConnectionTrait,
    provider: Option<saml_providers::Model>,
) -> Result<SingleSignOn> {
    let Some(provider) = provider else {
        return Ok(SingleSignOn {
            id: None,
            enabled: false,
            default_membership_role: DEFAULT_ROLE,
            token_created_at: None,
        });
    };
    let token = scim_tokens::of_provider(provider.id).one(db).await?;
    Ok(SingleSignOn {
        id: Some(provider.id),
        enabled: provider.enabled,
        default_membership_role: provider.default_membership_role,
        token_created_at: token.map(|token| token.created_at),
    })
}

/// Changes the single sign-on of a group; what is absent stays as it is.
///
/// # Errors
/// 400 when nothing is to change, when it is to be enabled for a group below another, and for a role that is none.
pub async fn update(
    backend: &Backend,
    access: &GroupAccess,
    enabled: Option<bool>,
    default_membership_role: Option<i64>,
) -> Result<SingleSignOn> {
    if enabled.is_none() && default_membership_role.is_none() {
        return Err(Error::nothing_sent(&["enabled", "default_membership_role"]));
    }
    let role = default_membership_role.map(|number| {
        let role = AccessLevel::of_number(number).filter(|role| *role <= HIGHEST_ROLE);
        role.ok_or_else(|| Error::attribute("default_membership_role", "is not included in the list"))
    });
    let role = role.transpose()?;
    backend
        .database
        .transaction(async |transaction| {
            let group = hold(transaction, access.group.id).await?;
            let known = saml_providers::of_group(group.id).one(transaction).await?;
            let was = known.as_ref().is_some_and(|provider| provider.enabled);
            if enabled == Some(true) && !was && group.parent_id.is_some() {
                let text = "can be true only for top-level groups";
                return Err(Error::attribute("enabled", text));
            }
            let provider = match known {
                Some(provider) => {
                    let mut row = provider.into_active_model();
                    if let Some(enabled) = enabled {
                        row.enabled = Set(enabled);
                    }
                    if let Some(role) = role {
                        row.default_membership_role = Set(role);
                    }
                    row.updated_at = Set(now());
                    row.update(transaction).await?
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
            described(transaction, Some(provider)).await
        })
        .await
}

/// Locks a group until the transaction ends, so that its provisioning changes in one order, and answers it as it is now.
///
/// # Errors
/// 404 when it was removed in the meantime.
pub(in crate::services) async fn hold(db: &impl ConnectionTrait, group_id: i64) -> Result<namespaces::Model> {
    let group = namespaces::lock(db, group_id).await?;
    group
        .filter(|group| group.deletion_started_at.is_none())
        .ok_or_else(|| Error::not_found("Group"))
}

/// Makes the SCIM token of a group; the one before it is good for nothing from then on. The secret is given out here and never
/// again.
///
/// # Errors
/// 400 while single sign-on is not enabled.
pub async fn make_token(backend: &Backend, access: &GroupAccess) -> Result<Secret<String>> {
    let token = Token::generate(PREFIX);
    backend
        .database
        .transaction(async |transaction| {
            let group = hold(transaction, access.group.id).await?;
            let provider = saml_providers::of_group(group.id).one(transaction).await?;
            let provider = provider
                .filter(|provider| provider.enabled)
                .ok_or_else(|| Error::Refused("Group SAML not enabled.".into()))?;
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
            Ok::<_, Error>(())
        })
        .await?;
    Ok(Secret::new(token.expose().to_owned()))
}

/// Revokes the SCIM token of a group.
///
/// # Errors
/// 404 when there is none, 412 when it was made after the date.
pub async fn revoke_token(
    backend: &Backend,
    access: &GroupAccess,
    if_unmodified_since: Option<&str>,
) -> Result<()> {
    backend
        .database
        .transaction(async |transaction| {
            let group = hold(transaction, access.group.id).await?;
            let provider = saml_providers::of_group(group.id).one(transaction).await?;
            let missing = || Error::not_found("SCIM Token");
            let provider = provider.ok_or_else(missing)?;
            let token = scim_tokens::of_provider(provider.id).one(transaction).await?;
            let token = token.ok_or_else(missing)?;
            unmodified_since(if_unmodified_since, token.created_at)?;
            scim_tokens::Entity::delete_by_id(token.id)
                .exec(transaction)
                .await?;
            Ok(())
        })
        .await
}
