//! Subscriptions to issues and merge requests. The author, the assignees and the commenters are subscribed by
//! default.

use sea_orm::{
    ActiveValue::Set, ColumnTrait, ConnectionTrait, EntityTrait, PaginatorTrait, QueryFilter,
    sea_query::OnConflict,
};
use storage::database::Violation;
use storage::entities::{notes, now, subscriptions, users};

use super::{Issuable, IssuableKind};
use crate::kernel::error::{Error, Result};

/// Returns whether the user is subscribed.
///
/// # Errors
/// Returns an error if the database fails.
pub(crate) async fn is_subscribed<T: Issuable>(
    db: &impl ConnectionTrait,
    to: &T,
    assignees: &[users::Model],
    user_id: i64,
) -> Result<bool> {
    let said = subscriptions::Entity::find()
        .filter(column(T::KIND).eq(to.id()))
        .filter(subscriptions::Column::UserId.eq(user_id))
        .one(db)
        .await?;
    if let Some(said) = said {
        return Ok(said.subscribed);
    }
    let takes_part =
        to.author_id() == Some(user_id) || assignees.iter().any(|assignee| assignee.id == user_id);
    if takes_part {
        return Ok(true);
    }
    let on = match T::KIND {
        IssuableKind::Issue => notes::Column::IssueId,
        IssuableKind::MergeRequest => notes::Column::MergeRequestId,
    };
    let written = notes::Entity::find()
        .filter(on.eq(to.id()))
        .filter(notes::Column::AuthorId.eq(user_id))
        .filter(notes::Column::System.eq(false));
    Ok(written.count(db).await? > 0)
}

/// Stores whether the user is subscribed.
///
/// # Errors
/// Returns `Error::NotFound` if the issuable was deleted meanwhile.
pub(crate) async fn say<T: Issuable>(
    db: &impl ConnectionTrait,
    to: &T,
    user_id: i64,
    subscribed: bool,
) -> Result<()> {
    let at = now();
    let mut said = subscriptions::ActiveModel {
        user_id: Set(user_id),
        subscribed: Set(subscribed),
        created_at: Set(at),
        updated_at: Set(at),
        ..Default::default()
    };
    match T::KIND {
        IssuableKind::Issue => said.issue_id = Set(Some(to.id())),
        IssuableKind::MergeRequest => said.merge_request_id = Set(Some(to.id())),
    }
    let changed = OnConflict::columns([column(T::KIND), subscriptions::Column::UserId])
        .update_columns([
            subscriptions::Column::Subscribed,
            subscriptions::Column::UpdatedAt,
        ])
        .to_owned();
    let said = subscriptions::Entity::insert(said).on_conflict(changed);
    match said.exec_without_returning(db).await {
        Ok(_) => Ok(()),
        Err(error) => Err(match Violation::of(&error) {
            // The issuable was deleted meanwhile.
            Some(Violation::ForeignKey(_)) => Error::not_found(match T::KIND {
                IssuableKind::Issue => "Issue",
                IssuableKind::MergeRequest => "MergeRequest",
            }),
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
