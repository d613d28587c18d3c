//! Members that directory synchronisation makes, whose role may be told to differ from the one the directory says.

use sea_orm::{ActiveModelTrait, ActiveValue::Set, IntoActiveModel};

use super::{Membership, Place, locked_member};
use crate::entities::now;
use crate::error::{Error, Result};
use crate::services::Backend;

/// Lets the role of a member differ from the one the directory says, or not any more.
///
/// # Errors
/// 404 for who is no direct member, 403 for a member that the directory did not make.
pub async fn set_override(
    backend: &Backend,
    place: &Place,
    user_id: i64,
    overridden: bool,
) -> Result<Membership> {
    backend
        .database
        .transaction(async |transaction| {
            let (member, user) = locked_member(transaction, place, user_id).await?;
            if !member.ldap {
                return Err(Error::forbidden());
            }
            let mut row = member.into_active_model();
            row.r#override = Set(overridden);
            row.updated_at = Set(now());
            let row = row.update(transaction).await?;
            Ok(Membership::new(row, user))
        })
        .await
}
