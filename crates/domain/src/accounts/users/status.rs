//! Status messages of users.

use sea_orm::sea_query::OnConflict;
use sea_orm::{ActiveValue::Set, ColumnTrait, EntityTrait, QueryFilter};
use storage::database::Violation;
use storage::entities::user_statuses::{self, Column, Entity, Model};

use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};

/// The default emoji of a status.
const DEFAULT_EMOJI: &str = "speech_balloon";

/// Returns the status of a user, if set.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn get(backend: &Backend, user_id: i64) -> Result<Option<Model>> {
    let found = Entity::find().filter(Column::UserId.eq(user_id));
    Ok(found.one(backend.database.read()).await?)
}

/// Sets the status of a user, or deletes it if neither an emoji nor a message is given.
///
/// # Errors
/// Returns a validation error for an unknown `emoji`. Returns `NotFound` if the user was deleted in the meantime.
pub async fn set(
    backend: &Backend,
    user_id: i64,
    emoji: Option<String>,
    message: Option<String>,
) -> Result<Option<Model>> {
    let emoji = emoji.filter(|emoji| !emoji.is_empty());
    let message = message.unwrap_or_default();
    if emoji
        .as_deref()
        .is_some_and(|name| emojis::get_by_shortcode(name).is_none())
    {
        return Err(Error::attribute("emoji", "is not included in the list"));
    }
    let db = backend.database.write();
    if emoji.is_none() && message.trim().is_empty() {
        Entity::delete_many()
            .filter(Column::UserId.eq(user_id))
            .exec(db)
            .await?;
        return Ok(None);
    }
    let row = user_statuses::ActiveModel {
        user_id: Set(user_id),
        emoji: Set(emoji.unwrap_or_else(|| DEFAULT_EMOJI.to_owned())),
        message: Set(message),
        ..Default::default()
    };
    let replace = OnConflict::column(Column::UserId)
        .update_columns([Column::Emoji, Column::Message])
        .to_owned();
    Entity::insert(row)
        .on_conflict(replace)
        .exec_without_returning(db)
        .await
        .map_err(|error| match Violation::of(&error) {
            Some(Violation::ForeignKey(_)) => Error::not_found("User"),
            _ => error.into(),
        })?;
    let set = Entity::find().filter(Column::UserId.eq(user_id)).one(db).await?;
    Ok(set)
}
