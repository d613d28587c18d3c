//! Adds and removes award emoji.

use sea_orm::sea_query::{Expr, ExprTrait, Query};
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait,
    PaginatorTrait, QueryFilter,
};
use storage::entities::award_emoji::{ActiveModel, Column, Entity};
use storage::entities::{now, users};

use super::names::{THUMBS_DOWN, THUMBS_UP, known};
use super::{Award, Awardable, Key, find};
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
pub async fn create(backend: &Backend, place: &SpaceAccess, key: Key, name: &str) -> Result<Award> {
    let user = place.caller.signed_in()?;
    backend
        .database
        .transaction(async |transaction| {
            let to = Awardable::lock(transaction, place, key).await?;
            to.on().check_unlocked(place)?;
            let name = known(name).ok_or_else(|| refused("Name is not a valid emoji name"))?;
            if matches!(name, THUMBS_UP | THUMBS_DOWN) && to.author_id() == Some(user.id) {
                return Err(refused("Name must not be a vote on your own item"));
            }
            enter(transaction, user, &to, name).await
        })
        .await
}

/// Inserts an award emoji on a target that the caller has locked.
///
/// # Errors
/// Returns `Error::NotFound` if the user already awarded the emoji, or the target is a system note.
pub(crate) async fn enter(
    transaction: &DatabaseTransaction,
    user: &users::Model,
    to: &Awardable,
    name: &str,
) -> Result<Award> {
    if matches!(to, Awardable::Note(note, _) if note.system) {
        return Err(Error::not_found("Award Emoji"));
    }
    let same = Entity::find()
        .filter(to.holds())
        .filter(Column::UserId.eq(user.id))
        .filter(Column::Name.eq(name));
    if same.count(transaction).await? > 0 {
        return Err(refused("Name has already been taken"));
    }
    let at = now();
    let row = ActiveModel {
        user_id: Set(user.id),
        name: Set(name.to_owned()),
        created_at: Set(at),
        updated_at: Set(at),
        ..to.row()
    };
    let award = row.insert(transaction).await?;
    count_votes(transaction, to, name).await?;
    if let Some(target) = to.on().id().todo_target() {
        todo_writer::complete(transaction, user.id, target).await?;
    }
    Ok(Award {
        award,
        user: user.clone(),
    })
}

/// Removes an award emoji.
///
/// # Errors
/// Returns `Error::NotFound` if it does not exist. Returns `Error::Unauthorized` if the caller is neither its
/// owner nor an administrator. Returns `Error::PreconditionFailed` if it changed after `unmodified_since`.
pub async fn delete(
    backend: &Backend,
    place: &SpaceAccess,
    key: Key,
    id: i64,
    unmodified_since: Option<&str>,
) -> Result<()> {
    let caller = place.caller.signed_in()?.id;
    backend
        .database
        .transaction(async |transaction| {
            let to = Awardable::lock(transaction, place, key).await?;
            let award = find(transaction, &to, id).await?;
            if award.user_id != caller && !place.caller.is_admin() {
                return Err(Error::Unauthorized);
            }
            preconditions::check_unmodified_since(unmodified_since, award.updated_at)?;
            Entity::delete_by_id(id).exec(transaction).await?;
            count_votes(transaction, &to, &award.name).await
        })
        .await
}

fn refused(why: &str) -> Error {
    Error::not_found(format!("Award Emoji {why}"))
}

/// Updates the vote counts of the target, if it has any and this emoji is a vote.
async fn count_votes(transaction: &DatabaseTransaction, to: &Awardable, name: &str) -> Result<()> {
    let Awardable::Noteable(on) = to else {
        return Ok(());
    };
    let (table, id) = match on {
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
    let votes = Entity::find().filter(to.holds()).filter(Column::Name.eq(name));
    let votes = i32::try_from(votes.count(transaction).await?).unwrap_or(i32::MAX);
    let update = Query::update()
        .table(table)
        .value(column, votes)
        .and_where(Expr::col("id").eq(id))
        .take();
    transaction.execute(&update).await?;
    Ok(())
}
