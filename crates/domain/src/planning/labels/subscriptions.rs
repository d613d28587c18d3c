//! Subscriptions to labels.

use sea_orm::sea_query::OnConflict;
use sea_orm::{ActiveValue::Set, ColumnTrait, EntityTrait, QueryFilter};
use storage::database::Violation;
use storage::entities::now;
use storage::entities::subscriptions::{ActiveModel, Column, Entity};

use super::{LabelDetail, detail, find, missing};
use crate::identity::space_access::SpaceAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};

/// Subscribes the caller to a label, or unsubscribes the caller.
///
/// # Errors
/// Returns `Error::NotFound` if the label does not exist. Returns `Error::Forbidden` if neither issues nor
/// merge requests are available to the caller. Returns `Error::NotModified` if nothing changes.
pub async fn set_subscribed(
    backend: &Backend,
    space: &SpaceAccess,
    reference: &str,
    subscribed: bool,
) -> Result<LabelDetail> {
    space.check_planning()?;
    let user_id = space.caller.signed_in()?.id;
    backend
        .database
        .transaction(async |transaction| {
            let label = find(transaction, space, reference).await?;
            let current = Entity::find()
                .filter(Column::LabelId.eq(label.id))
                .filter(Column::UserId.eq(user_id))
                .one(transaction)
                .await?;
            if current.is_some_and(|current| current.subscribed) == subscribed {
                return Err(Error::NotModified);
            }
            let at = now();
            let row = ActiveModel {
                user_id: Set(user_id),
                label_id: Set(Some(label.id)),
                subscribed: Set(subscribed),
                created_at: Set(at),
                updated_at: Set(at),
                ..Default::default()
            };
            let on_conflict = OnConflict::columns([Column::LabelId, Column::UserId])
                .update_columns([Column::Subscribed, Column::UpdatedAt])
                .to_owned();
            let insert = Entity::insert(row).on_conflict(on_conflict);
            let inserted = insert.exec_without_returning(transaction).await;
            inserted.map_err(|error| match Violation::of(&error) {
                Some(Violation::ForeignKey(_)) => missing(),
                _ => error.into(),
            })?;
            detail(transaction, space, label).await
        })
        .await
}
