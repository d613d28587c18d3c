//! Awarding emoji, and taking them back.

use sea_orm::sea_query::{Expr, ExprTrait, Query};
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait,
    PaginatorTrait, QueryFilter,
};
use storage::entities::award_emoji::{ActiveModel, Column, Entity};
use storage::entities::{now, users};

use super::names::{THUMBS_DOWN, THUMBS_UP, known};
use super::{Award, Awardable, Key, find};
use crate::error::{Error, Result};
use crate::services::Backend;
use crate::services::notes::Noteable;
use crate::services::places::Place;
use crate::services::preconditions;
use crate::services::todos;

/// Awards an emoji to something.
///
/// # Errors
/// 404, also for a name that no emoji has, for one that the caller awarded already, for a vote for or against what the caller
/// made, and for a note that nobody wrote; 403 for others than members where the discussion is locked.
pub async fn create(backend: &Backend, place: &Place, key: Key, name: &str) -> Result<Award> {
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

/// Enters an award to something that the caller holds the lock of.
///
/// # Errors
/// 404 for one that the user awarded already, and for a note that nobody wrote.
pub(in crate::services) async fn enter(
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
    if let Some(target) = to.on().parent().todo_target() {
        todos::settle(transaction, user.id, target).await?;
    }
    Ok(Award {
        award,
        user: user.clone(),
    })
}

/// Takes an award back.
///
/// # Errors
/// 404, 401 for others than who awarded it and administrators, 412 when it changed after the caller's date.
pub async fn delete(
    backend: &Backend,
    place: &Place,
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
            preconditions::unmodified_since(unmodified_since, award.updated_at)?;
            Entity::delete_by_id(id).exec(transaction).await?;
            count_votes(transaction, &to, &award.name).await
        })
        .await
}

fn refused(why: &str) -> Error {
    Error::not_found(format!("Award Emoji {why}"))
}

/// Brings the votes that a thing shows up to date, where it shows any and this emoji is one.
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
