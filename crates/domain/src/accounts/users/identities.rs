//! Identities of users at identity providers.

use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};
use storage::entities::user_identities::{Column, Entity};
use storage::entities::users;

use crate::accounts::users::auditing;
use crate::audit::{self, Actor};
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};

/// Removes the identity of a user at a provider.
///
/// # Errors
/// Returns `NotFound` if the user has no identity there.
pub async fn remove(backend: &Backend, actor: &Actor, user: &users::Model, provider: &str) -> Result<()> {
    backend
        .database
        .transaction(async |transaction| {
            let identity = Entity::find()
                .filter(Column::UserId.eq(user.id))
                .filter(Column::Provider.eq(provider))
                .one(transaction)
                .await?
                .ok_or_else(not_found)?;
            let deleted = Entity::delete_by_id(identity.id).exec(transaction).await?;
            if deleted.rows_affected == 0 {
                return Err(not_found());
            }
            audit::record(transaction, actor, auditing::identity_removed(user, &identity)).await
        })
        .await
}

fn not_found() -> Error {
    Error::not_found("Identity")
}
