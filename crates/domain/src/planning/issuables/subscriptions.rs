//! Subscriptions to issues and merge requests. The author, the assignees and the commenters are subscribed by
//! default.

use sea_orm::sea_query::{Expr, OnConflict, Query};
use sea_orm::{ActiveValue::Set, ColumnTrait, ConnectionTrait, EntityTrait};
use storage::database::Violation;
use storage::entities::related_rows::{PartKey, RelatedPart, RelatedRowSets, RelatedRows, bigint};
use storage::entities::users::UserSummary;
use storage::entities::{notes, now, subscriptions};

use super::{Issuable, IssuableKind, not_found};
use crate::kernel::error::{Error, Result};

/// The parts of a statement that decide whether a user is subscribed.
pub(crate) struct SubscriptionParts {
    user_id: i64,
    explicit: PartKey,
    comments: PartKey,
}

impl SubscriptionParts {
    /// Adds the parts to a statement.
    pub fn add<T: Issuable>(related: &mut RelatedRows, issuable: &T, user_id: i64) -> Self {
        let id = issuable.id();
        let explicit = Query::select()
            .from(subscriptions::Entity)
            .and_where(column(T::KIND).eq(id))
            .and_where(subscriptions::Column::UserId.eq(user_id))
            .take();
        let is_subscribed = Expr::case(subscriptions::Column::Subscribed.eq(true), 1).finally(0);
        let explicit = RelatedPart::new(explicit, bigint(Expr::val(id))).with_number(bigint(is_subscribed));
        let noteable = match T::KIND {
            IssuableKind::Issue => notes::Column::IssueId,
            IssuableKind::MergeRequest => notes::Column::MergeRequestId,
        };
        let comments = Query::select()
            .from(notes::Entity)
            .and_where(noteable.eq(id))
            .and_where(notes::Column::AuthorId.eq(user_id))
            .and_where(notes::Column::System.eq(false))
            .take();
        Self {
            user_id,
            explicit: related.add(Some(explicit)),
            comments: related.add(Some(RelatedPart::exists(comments, id))),
        }
    }

    /// Returns whether the user is subscribed.
    pub fn is_subscribed(
        &self,
        rows: &mut RelatedRowSets,
        issuable: &impl Issuable,
        assignees: &[UserSummary],
    ) -> bool {
        if let Some(explicit) = rows.take(self.explicit).first() {
            return explicit.number == Some(1);
        }
        issuable.author_id() == Some(self.user_id)
            || assignees.iter().any(|assignee| assignee.id == self.user_id)
            || !rows.take(self.comments).is_empty()
    }
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
