//! Email addresses that a provider states for its users.

use sea_orm::{ColumnTrait, DatabaseTransaction, QueryFilter};
use storage::entities::{fold, scim_identities, users, verified_domains};

use crate::accounts::users::{emails, provisioning};
use crate::audit::Actor;
use crate::identity::access::ScimAccess;
use crate::kernel::error::Result;

/// Returns whether the provider may confirm an address, because an administrator verified its domain for the
/// group. In this case, unconfirmed addresses of other users no longer block the address: any user can add one,
/// and any group can provision one.
///
/// # Errors
/// Returns an error if a database query fails.
pub(super) async fn claim(
    transaction: &DatabaseTransaction,
    access: &ScimAccess,
    user_id: Option<i64>,
    address: &str,
) -> Result<bool> {
    let key = fold(address);
    if !verified_domains::contain(transaction, access.group.id, &key).await? {
        return Ok(false);
    }
    let actor = Actor::from(&access.caller);
    emails::release_unconfirmed(transaction, &actor, user_id, &key).await?;
    let Some(found) = users::by_email(transaction, &key).await? else {
        return Ok(true);
    };
    if Some(found.id) != user_id
        && let Some(found) = users::lock(transaction, found.id).await?
        && is_unconfirmed_account_of_other_group(transaction, access, &found).await?
    {
        provisioning::replace_unconfirmed(transaction, &actor, found).await?;
    }
    Ok(true)
}

/// Returns whether the provider of another group created an account, whose address is unconfirmed. Administrators
/// state the addresses of all other accounts.
async fn is_unconfirmed_account_of_other_group(
    transaction: &DatabaseTransaction,
    access: &ScimAccess,
    user: &users::Model,
) -> Result<bool> {
    if !user.provisioned || user.admin || user.confirmed_at.is_some() {
        return Ok(false);
    }
    let own = scim_identities::created_by(access.provider.id)
        .filter(scim_identities::Column::UserId.eq(user.id))
        .one(transaction)
        .await?;
    Ok(own.is_none())
}
