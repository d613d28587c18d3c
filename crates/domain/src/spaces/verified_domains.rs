//! Email domains that administrators verified for groups. The identity provider of a group confirms only
//! addresses in these domains.

use chrono::{DateTime, Utc};
use sea_orm::sea_query::Expr;
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait,
    QueryFilter, QuerySelect, QueryTrait, Select,
};
use storage::entities::{fold, namespaces, now, saml_providers, scim_identities, users, verified_domains};

use crate::accounts::users::names;
use crate::audit::{self, Actor, AuditEntity, AuditEvent, AuditKind, AuditTarget};
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::query::ends_with;
use crate::spaces::single_sign_on::lock;

/// Maximum number of verified domains of a group.
const MAX_DOMAINS: usize = 100;

/// Lists the verified domains of a group, given by its full path or ID.
///
/// # Errors
/// Returns `NotFound` if the group does not exist.
pub async fn list(backend: &Backend, group: &str) -> Result<Vec<String>> {
    let db = backend.database.read();
    let group = find(db, group).await?;
    let found = verified_domains::of_group(group.id).all(db).await?;
    Ok(found.into_iter().map(|row| row.domain).collect())
}

/// Adds a verified domain to a group. Confirms the addresses in the domain of all users that the provider of the
/// group currently provisions, and returns their number. A domain that was added before is unchanged.
///
/// # Errors
/// Returns `NotFound` if the group does not exist. Returns a validation error for an invalid domain, for a
/// subgroup without single sign-on, and beyond the maximum number of domains.
pub async fn add(backend: &Backend, group: &str, domain: &str) -> Result<u64> {
    let domain = folded(domain)?;
    backend
        .database
        .transaction(async |transaction| {
            let group = find(transaction, group).await?;
            let group = lock(transaction, group.id).await?;
            let provider = saml_providers::of_group(group.id).one(transaction).await?;
            if group.parent_id.is_some() && provider.is_none() {
                let text = "must be a top-level group or have single sign-on";
                return Err(Error::attribute("group", text));
            }
            if insert(transaction, group.id, &domain).await? {
                record(transaction, AuditKind::VerifiedDomainAdded, &group, &domain).await?;
            }
            let Some(provider) = provider else {
                return Ok(0);
            };
            let current = scim_identities::created_by(provider.id)
                .filter(scim_identities::Column::ExternUidKey.is_not_null());
            confirm(transaction, current, &domain, Some(now())).await
        })
        .await
}

/// Removes a verified domain from a group. The addresses in the domain of all users that the provider of the
/// group created become unconfirmed; returns their number.
///
/// # Errors
/// Returns `NotFound` if the group does not exist or the domain is not verified for it.
pub async fn remove(backend: &Backend, group: &str, domain: &str) -> Result<u64> {
    let domain = fold(domain);
    backend
        .database
        .transaction(async |transaction| {
            let group = find(transaction, group).await?;
            let group = lock(transaction, group.id).await?;
            let done = verified_domains::Entity::delete_many()
                .filter(verified_domains::Column::NamespaceId.eq(group.id))
                .filter(verified_domains::Column::Domain.eq(domain.as_str()))
                .exec(transaction)
                .await?;
            if done.rows_affected == 0 {
                return Err(Error::not_found("Domain"));
            }
            record(transaction, AuditKind::VerifiedDomainRemoved, &group, &domain).await?;
            let Some(provider) = saml_providers::of_group(group.id).one(transaction).await? else {
                return Ok(0);
            };
            confirm(
                transaction,
                scim_identities::created_by(provider.id),
                &domain,
                None,
            )
            .await
        })
        .await
}

async fn find(db: &impl ConnectionTrait, group: &str) -> Result<namespaces::Model> {
    let found = namespaces::group_by_reference(db, group).await?;
    found.ok_or_else(|| Error::not_found("Group"))
}

/// Returns the form of a domain in folded addresses.
fn folded(domain: &str) -> Result<String> {
    let domain = fold(domain);
    match names::check_email(&format!("user@{domain}")) {
        Ok(()) => Ok(domain),
        Err(_) => Err(Error::attribute("domain", "is invalid")),
    }
}

/// Records a change by the command line.
async fn record(
    transaction: &DatabaseTransaction,
    kind: AuditKind,
    group: &namespaces::Model,
    domain: &str,
) -> Result<()> {
    let target = AuditTarget::named("VerifiedDomain", domain);
    let event = AuditEvent::new(kind, AuditEntity::namespace(group), target);
    audit::record(transaction, Actor::command_line(), event).await
}

/// Inserts a domain; returns `false` if it exists.
async fn insert(transaction: &DatabaseTransaction, group_id: i64, domain: &str) -> Result<bool> {
    let known = verified_domains::of_group(group_id).all(transaction).await?;
    if known.iter().any(|known| known.domain == domain) {
        return Ok(false);
    }
    if known.len() >= MAX_DOMAINS {
        let text = format!("are too many (maximum is {MAX_DOMAINS})");
        return Err(Error::attribute("domains", text));
    }
    let row = verified_domains::ActiveModel {
        namespace_id: Set(group_id),
        domain: Set(domain.to_owned()),
        created_at: Set(now()),
        ..Default::default()
    };
    row.insert(transaction).await?;
    Ok(true)
}

/// Sets when the addresses of these users in a domain were confirmed, and returns the number of changes.
async fn confirm(
    transaction: &DatabaseTransaction,
    identities: Select<scim_identities::Entity>,
    domain: &str,
    confirmed_at: Option<DateTime<Utc>>,
) -> Result<u64> {
    let ids = identities
        .select_only()
        .column(scim_identities::Column::UserId)
        .into_query();
    let differs = match confirmed_at {
        Some(_) => users::Column::ConfirmedAt.is_null(),
        None => users::Column::ConfirmedAt.is_not_null(),
    };
    let done = users::Entity::update_many()
        .col_expr(users::Column::ConfirmedAt, Expr::value(confirmed_at))
        .col_expr(users::Column::UpdatedAt, Expr::value(now()))
        .filter(users::Column::Id.in_subquery(ids))
        .filter(ends_with(users::Column::EmailKey, &format!("@{domain}")))
        .filter(differs)
        .exec(transaction)
        .await?;
    Ok(done.rows_affected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domain_is_folded_and_checked() {
        assert_eq!(folded("Bank.Example").ok().as_deref(), Some("bank.example"));
        for bad in [
            "",
            "@bank.example",
            "a@bank.example",
            "bank example",
            "bank.example\n",
            "<x>",
        ] {
            assert!(folded(bad).is_err(), "{bad:?}");
        }
        assert!(folded(&"x".repeat(251)).is_err());
    }
}
