//! Subscriptions to issues and merge requests. The author, the assignees and the commenters are subscribed by
//! default.

use sea_orm::{
    ActiveValue::Set, ColumnTrait, ConnectionTrait, EntityTrait, PaginatorTrait, QueryFilter,
    sea_query::OnConflict,
};
use storage::database::Violation;
use storage::entities::{notes, now, subscriptions, users};

use super::{Issuable, IssuableKind, not_found};
use crate::kernel::error::{Error, Result};

/// Returns whether the user is subscribed.
///
/// # Errors
/// Returns an error if the database fails.
pub(crate) async fn is_subscribed<T: Issuable>(
    db: &impl ConnectionTrait,
    issuable: &T,
    assignees: &[users::Model],
    user_id: i64,
) -> Result<bool> {
    let explicit = subscriptions::Entity::find()
        .filter(column(T::KIND).eq(issuable.id()))
        .filter(subscriptions::Column::UserId.eq(user_id))
        .one(db)
        .await?;
    if let Some(explicit) = explicit {
        return Ok(explicit.subscribed);
    }
    let participates =
        issuable.author_id() == Some(user_id) || assignees.iter().any(|assignee| assignee.id == user_id);
    if participates {
        return Ok(true);
    }
    let noteable = match T::KIND {
        IssuableKind::Issue => notes::Column::IssueId,
        IssuableKind::MergeRequest => notes::Column::MergeRequestId,
    };
    let comments = notes::Entity::find()
        .filter(noteable.eq(issuable.id()))
        .filter(notes::Column::AuthorId.eq(user_id))
        .filter(notes::Column::System.eq(false));
    Ok(comments.count(db).await? > 0)
}

/// Stores whether the user is subscribed, and updates `current`, the present state.
///
/// # Errors
/// Returns `Error::NotModified` if nothing changes. Returns `Error::NotFound` if the issuable was deleted
/// meanwhile.
pub(crate) async fn set_subscribed<T: Issuable>(
    db: &impl ConnectionTrait,
    issuable: &T,
    user_id: i64,
    current: &mut Option<bool>,
    subscribed: bool,
) -> Result<()> {
    if *current == Some(subscribed) {
        return Err(Error::NotModified);
    }
    let at = now();
    let mut row = subscriptions::ActiveModel {
        user_id: Set(user_id),
        subscribed: Set(subscribed),
        created_at: Set(at),
        updated_at: Set(at),
        ..Default::default()
    };
    match T::KIND {
        IssuableKind::Issue => row.issue_id = Set(Some(issuable.id())),
        IssuableKind::MergeRequest => row.merge_request_id = Set(Some(issuable.id())),
    }
    let conflict = OnConflict::columns([column(T::KIND), subscriptions::Column::UserId])
        .update_columns([
            subscriptions::Column::Subscribed,
            subscriptions::Column::UpdatedAt,
        ])
        .to_owned();
    let insert = subscriptions::Entity::insert(row).on_conflict(conflict);
    match insert.exec_without_returning(db).await {
        Ok(_) => {
            *current = Some(subscribed);
            Ok(())
        }
        Err(error) => Err(match Violation::of(&error) {
            // The issuable was deleted meanwhile.
            Some(Violation::ForeignKey(_)) => not_found(T::KIND),
            _ => error.into(),
        }),
    }
}

fn column(kind: IssuableKind) -> subscriptions::Column {
    match kind {
        IssuableKind::Issue => subscriptions::Column::IssueId,
        IssuableKind::MergeRequest => subscriptions::Column::MergeRequestId,
    }
}
