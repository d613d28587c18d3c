//! Identities of members at the single sign-on of their group, which are visible to its Owners.

use std::collections::HashMap;

use sea_orm::ConnectionTrait;
use storage::entities::access::group_level;
use storage::entities::{AccessLevel, now, saml_providers, scim_identities};

use super::{MemberSource, Membership};
use crate::kernel::Backend;
use crate::kernel::error::Result;
use crate::kernel::policy::InstancePlan;

/// Adds the identity of one member.
///
/// # Errors
/// Returns an error if a database query fails.
pub(super) async fn with_identity(
    backend: &Backend,
    member_source: &MemberSource,
    member: Membership,
) -> Result<Membership> {
    let mut one = [member];
    add_identities(backend, member_source, &mut one).await?;
    let [member] = one;
    Ok(member)
}

/// Adds the identities of these members, in at most three statements regardless of their number.
///
/// # Errors
/// Returns an error if a database query fails.
pub(super) async fn add_identities(
    backend: &Backend,
    member_source: &MemberSource,
    members: &mut [Membership],
) -> Result<()> {
    // An Owner of the group with the single sign-on manages all of its subgroups and projects.
    if members.is_empty() || !member_source.manages || backend.instance.plan < InstancePlan::Premium {
        return Ok(());
    }
    let db = backend.database.read();
    let Some(provider) = saml_providers::effective(db, member_source.namespace.id).await? else {
        return Ok(());
    };
    if !owns(db, member_source, &provider).await? {
        return Ok(());
    }
    let users = members.iter().map(|member| member.user.id);
    let found = scim_identities::of_users(provider.id, users).all(db).await?;
    let mut found: HashMap<i64, scim_identities::Model> = found
        .into_iter()
        .map(|identity| (identity.user_id, identity))
        .collect();
    for member in members {
        member.identity = found.remove(&member.user.id);
    }
    Ok(())
}

async fn owns(
    db: &impl ConnectionTrait,
    member_source: &MemberSource,
    provider: &saml_providers::Model,
) -> Result<bool> {
    let Some(user) = member_source.caller.as_user() else {
        return Ok(false);
    };
    if user.admin {
        return Ok(true);
    }
    let level = group_level(db, user.id, provider.namespace_id, now().date_naive()).await?;
    Ok(level >= Some(AccessLevel::Owner))
}
