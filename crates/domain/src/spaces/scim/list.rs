//! Reads provisioned users.

use parsers::scim::{UserSelector, parse_filter};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, EntityTrait, PaginatorTrait, QueryFilter, QuerySelect,
};
use storage::entities::{fold, scim_identities, user_emails, users};

use super::usernames::sanitize;
use super::{ScimUser, not_found};
use crate::identity::access::ScimAccess;
use crate::kernel::Backend;
use crate::kernel::error::Result;

/// Maximum number of users on a page.
pub const MAX_PER_PAGE: i64 = 100;

/// A page of users.
#[derive(Debug, Clone)]
pub struct ScimUserPage {
    /// The users.
    pub users: Vec<ScimUser>,
    /// The number of users on all pages.
    pub total: i64,
    /// The index of the first user, starting at 1.
    pub start: i64,
}

/// Lists the users of the provider in the order of provisioning, optionally filtered.
///
/// # Errors
/// Returns `InvalidScimRequest` for an unsupported filter.
pub async fn list(
    backend: &Backend,
    access: &ScimAccess,
    filter: Option<&str>,
    start: i64,
    count: i64,
) -> Result<ScimUserPage> {
    let db = backend.database.read();
    let selector = match filter.map(parse_filter).transpose()? {
        Some(selector) => condition(db, access.provider.id, selector).await?,
        None => Condition::all(),
    };
    let found = scim_identities::provisioned(access.provider.id)
        .filter(selector)
        .find_also_related(users::Entity);
    let total = found.clone().count(db).await?;
    let (start, count) = (start.max(1), count.clamp(0, MAX_PER_PAGE));
    let rows = match u64::try_from(count) {
        Ok(count @ 1..) => {
            let before = u64::try_from(start - 1).unwrap_or(0);
            found.offset(before).limit(count).all(db).await?
        }
        _ => Vec::new(),
    };
    let users = rows.into_iter().filter_map(|(identity, user)| {
        Some(ScimUser {
            identity,
            user: user?,
        })
    });
    Ok(ScimUserPage {
        users: users.collect(),
        total: i64::try_from(total).unwrap_or(i64::MAX),
        start,
    })
}

/// Returns the condition on identities. A name matches the name at the provider, the user name derived from
/// it, the primary address, or a confirmed secondary address. The provider itself states the primary address,
/// so it matches unconfirmed as well; a user can add any secondary address. A user name with an added number
/// does not match, because the provider uses that name for another user.
async fn condition(db: &impl ConnectionTrait, provider: i64, selector: UserSelector) -> Result<Condition> {
    let name = match selector {
        UserSelector::Uid(uid) => {
            return Ok(Condition::all().add(scim_identities::Column::ExternUidKey.eq(fold(&uid))));
        }
        UserSelector::Name(name) => fold(&name),
    };
    let mut having: Vec<i64> = user_emails::Entity::find()
        .select_only()
        .column(user_emails::Column::UserId)
        .filter(user_emails::Column::EmailKey.eq(name.as_str()))
        .filter(user_emails::Column::ConfirmedAt.is_not_null())
        .into_tuple()
        .all(db)
        .await?;
    if let Some(user) = users::by_username(db, &name).await? {
        let called = scim_identities::of_users(provider, [user.id]).one(db).await?;
        let called = called.map(|identity| fold(&sanitize(&identity.user_name_key)));
        having.extend((called.as_deref() == Some(name.as_str())).then_some(user.id));
    }
    let primary = users::by_email(db, &name).await?;
    having.extend(primary.map(|user| user.id));
    Ok(Condition::any()
        .add(scim_identities::Column::UserNameKey.eq(name))
        .add(scim_identities::Column::UserId.is_in(having)))
}

/// Returns the user with this ID at the provider.
///
/// # Errors
/// Returns `NotFound` if the user does not exist.
pub async fn get(backend: &Backend, access: &ScimAccess, extern_uid: &str) -> Result<ScimUser> {
    let found =
        scim_identities::by_extern_uid(backend.database.read(), access.provider.id, extern_uid).await?;
    let (identity, user) = found.ok_or_else(|| not_found(extern_uid))?;
    Ok(ScimUser { identity, user })
}
