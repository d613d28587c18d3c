//! Adds and removes award emoji.

use sea_orm::sea_query::{Expr, ExprTrait, Query};
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait,
    PaginatorTrait, QueryFilter,
};
use storage::entities::award_emoji::{ActiveModel, Column, Entity};
use storage::entities::{now, users};

use super::names::{THUMBS_DOWN, THUMBS_UP, stored_name};
use super::{AwardEmojiDetail, Awardable, AwardableKey, find};
use crate::discussion::noteable::Noteable;
use crate::identity::space_access::SpaceAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::preconditions;
use crate::planning::todo_writer;

/// Adds an award emoji to a noteable or a note.
///
/// # Errors
/// Returns `Error::NotFound` if the target is not visible, the emoji name is unknown or the caller already
/// awarded it. The same applies to a vote on the caller's own noteable and for a system note. Returns
/// `Error::Forbidden` if the discussion is locked and the caller is not a member.
pub async fn create(
    backend: &Backend,
    space: &SpaceAccess,
    key: AwardableKey,
    name: &str,
) -> Result<AwardEmojiDetail> {
    let user = space.caller.signed_in()?;
    backend
        .database
        .transaction(async |transaction| {
            let awardable = Awardable::lock(transaction, space, key).await?;
            awardable.noteable().check_unlocked(space)?;
            let name = stored_name(name).ok_or_else(|| rejected("Name is not a valid emoji name"))?;
            if matches!(name, THUMBS_UP | THUMBS_DOWN) && awardable.author_id() == Some(user.id) {
                return Err(rejected("Name must not be a vote on your own item"));
            }
            insert(transaction, user, &awardable, name).await
        })
        .await
}

/// Inserts an award emoji on a target that the caller has locked.
///
/// # Errors
/// Returns `Error::NotFound` if the user already awarded the emoji, or the target is a system note.
pub(crate) async fn insert(
    transaction: &DatabaseTransaction,
    user: &users::Model,
    awardable: &Awardable,
    name: &str,
) -> Result<AwardEmojiDetail> {
    if matches!(awardable, Awardable::Note(note, _) if note.system) {
        return Err(Error::not_found("Award Emoji"));
    }
    let existing = Entity::find()
        .filter(awardable.condition())
        .filter(Column::UserId.eq(user.id))
        .filter(Column::Name.eq(name));
    if existing.count(transaction).await? > 0 {
        return Err(rejected("Name has already been taken"));
    }
    let at = now();
    let row = ActiveModel {
        user_id: Set(user.id),
        name: Set(name.to_owned()),
        created_at: Set(at),
        updated_at: Set(at),
        ..awardable.to_row()
    };
    let award_emoji = row.insert(transaction).await?;
    update_vote_count(transaction, awardable, name).await?;
    if let Some(target) = awardable.noteable().id().todo_target() {
        todo_writer::complete(transaction, user.id, target).await?;
    }
    Ok(AwardEmojiDetail {
        award_emoji,
        user: user.into(),
    })
}

/// Removes an award emoji.
///
/// # Errors
/// Returns `Error::NotFound` if it does not exist. Returns `Error::Unauthorized` if the caller is neither its
/// owner nor an administrator. Returns `Error::PreconditionFailed` if it changed after `unmodified_since`.
pub async fn delete(
    backend: &Backend,
    space: &SpaceAccess,
    key: AwardableKey,
    id: i64,
    unmodified_since: Option<&str>,
) -> Result<()> {
    let caller_id = space.caller.signed_in()?.id;
    backend
        .database
        .transaction(async |transaction| {
            let awardable = Awardable::lock(transaction, space, key).await?;
            let award_emoji = find(transaction, &awardable, id).await?;
            if award_emoji.user_id != caller_id && !space.caller.is_admin() {
                return Err(Error::Unauthorized);
            }
            preconditions::check_unmodified_since(unmodified_since, award_emoji.updated_at)?;
            Entity::delete_by_id(id).exec(transaction).await?;
            update_vote_count(transaction, &awardable, &award_emoji.name).await
        })
        .await
}

fn rejected(reason: &str) -> Error {
    Error::not_found(format!("Award Emoji {reason}"))
}

/// Updates the vote count of the target if it has one and this emoji is a vote.
async fn update_vote_count(
    transaction: &DatabaseTransaction,
    awardable: &Awardable,
    name: &str,
) -> Result<()> {
    let Awardable::Noteable(noteable) = awardable else {
        return Ok(());
    };
    let (table, id) = match noteable {
        Noteable::Issue(issue) => ("issues", issue.id),
        Noteable::MergeRequest(merge_request) => ("merge_requests", merge_request.id),
        Noteable::Epic(epic) => ("epics", epic.id),
        Noteable::Snippet(_) => return Ok(()),
    };
    let column = match name {
        THUMBS_UP => "upvotes",
        THUMBS_DOWN => "downvotes",
        _ => return Ok(()),
    };
    let votes = Entity::find()
        .filter(awardable.condition())
        .filter(Column::Name.eq(name));
    let votes = i32::try_from(votes.count(transaction).await?).unwrap_or(i32::MAX);
    let update = Query::update()
        .table(table)
        .value(column, votes)
        .and_where(Expr::col("id").eq(id))
        .take();
    transaction.execute(&update).await?;
    Ok(())
}
