//! Who is told of what happens to an issue: who says so, and otherwise its author, those it is assigned to and those who
//! comment.

use sea_orm::{
    ActiveValue::Set, ColumnTrait, ConnectionTrait, EntityTrait, PaginatorTrait, QueryFilter,
    sea_query::OnConflict,
};

use super::row::{self, Row};
use crate::entities::{notes, now, subscriptions};
use crate::error::{Error, Result};
use crate::services::Backend;
use crate::services::access::ProjectAccess;

/// Whether a user is told of what happens to an issue.
///
/// # Errors
/// Whatever the database reports.
pub(super) async fn is_subscribed(db: &impl ConnectionTrait, row: &Row, user_id: i64) -> Result<bool> {
    let said = subscriptions::Entity::find()
        .filter(subscriptions::Column::IssueId.eq(row.issue.id))
        .filter(subscriptions::Column::UserId.eq(user_id))
        .one(db)
        .await?;
    if let Some(said) = said {
        return Ok(said.subscribed);
    }
    let takes_part =
        row.issue.author_id == Some(user_id) || row.assignees.iter().any(|assignee| assignee.id == user_id);
    if takes_part {
        return Ok(true);
    }
    let written = notes::Entity::find()
        .filter(notes::Column::IssueId.eq(row.issue.id))
        .filter(notes::Column::AuthorId.eq(user_id))
        .filter(notes::Column::System.eq(false));
    Ok(written.count(db).await? > 0)
}

/// Tells the caller of what happens to an issue, or ceases to.
///
/// # Errors
/// 404, and 304 where nothing changes by it.
pub async fn subscribe(backend: &Backend, access: &ProjectAccess, iid: i64, subscribed: bool) -> Result<Row> {
    let user_id = access.caller.signed_in()?.id;
    let mut row = row::read(backend, access, iid).await?;
    if row.subscribed == Some(subscribed) {
        return Err(Error::NotModified);
    }
    let said = subscriptions::ActiveModel {
        user_id: Set(user_id),
        issue_id: Set(Some(row.issue.id)),
        subscribed: Set(subscribed),
        created_at: Set(now()),
        updated_at: Set(now()),
        ..Default::default()
    };
    let changed = OnConflict::columns([subscriptions::Column::IssueId, subscriptions::Column::UserId])
        .update_columns([
            subscriptions::Column::Subscribed,
            subscriptions::Column::UpdatedAt,
        ])
        .to_owned();
    subscriptions::Entity::insert(said)
        .on_conflict(changed)
        .exec_without_returning(backend.database.write())
        .await?;
    row.subscribed = Some(subscribed);
    Ok(row)
}
