//! Lists of boards. Changes lock the board, so that each list has its own position.

use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait,
    IntoActiveModel, PaginatorTrait, QueryFilter,
};
use storage::entities::board_lists::{self, ActiveModel, Entity, Model};
use storage::entities::{labels, now};

use super::changes::{check_member, check_milestone, refused};
use super::{List, admit_to_premium, lock, read as read_board, row};
use crate::identity::space_access::SpaceAccess;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::{Backend, preconditions};

/// Maximum lists of a board.
pub(crate) const MOST: usize = 100;

/// Subject of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// The label with this ID.
    Label(i64),
    /// The milestone with this ID.
    Milestone(i64),
    /// The user with this ID.
    Assignee(i64),
}

impl Subject {
    fn of(list: &Model) -> Option<Self> {
        let label = list.label_id.map(Self::Label);
        let milestone = list.milestone_id.map(Self::Milestone);
        label.or(milestone).or(list.assignee_id.map(Self::Assignee))
    }
}

/// Returns a page of the lists of a board, by position.
///
/// # Errors
/// Returns `Error::NotFound` if the board does not exist. Returns `Error::Forbidden` if issues are not
/// available to the caller.
pub async fn list(
    backend: &Backend,
    place: &SpaceAccess,
    board_id: i64,
    page: &PageRequest,
) -> Result<Page<List>> {
    // A board has at most `MOST` lists, so all of them are loaded.
    let board = read_board(backend, place, board_id).await?;
    Ok(Page::from_all(page, board.lists))
}

/// Returns one list of a board.
///
/// # Errors
/// Returns `Error::NotFound` if the board or list does not exist. Returns `Error::Forbidden` if issues are
/// not available to the caller.
pub async fn read(backend: &Backend, place: &SpaceAccess, board_id: i64, id: i64) -> Result<List> {
    let board = read_board(backend, place, board_id).await?;
    let found = board.lists.into_iter().find(|list| list.id == id);
    found.ok_or_else(missing)
}

/// Appends a list to a board.
///
/// # Errors
/// Returns `Error::NotFound` if the board does not exist. Returns `Error::Forbidden` if issues are not
/// available to the caller or the plan lacks the feature. Returns `Error::Rejected` if the subject is invalid,
/// already has a list, or there are `MOST` lists already.
pub async fn create(backend: &Backend, place: &SpaceAccess, board_id: i64, subject: Subject) -> Result<List> {
    place.check_issues()?;
    backend
        .database
        .transaction(async |transaction| {
            let board = lock(transaction, place, board_id).await?;
            check(backend, transaction, place, subject).await?;
            let others = board_lists::of([board_id]).all(transaction).await?;
            if others.len() >= MOST {
                return Err(Error::Rejected(
                    format!("The maximum number of lists ({MOST}) is reached").into(),
                ));
            }
            if others.iter().any(|other| Subject::of(other) == Some(subject)) {
                let attribute = match subject {
                    Subject::Label(_) => "label",
                    Subject::Milestone(_) => "milestone",
                    Subject::Assignee(_) => "assignee",
                };
                return Err(Error::attribute(attribute, "has already been taken"));
            }
            let (label_id, milestone_id, assignee_id) = match subject {
                Subject::Label(id) => (Some(id), None, None),
                Subject::Milestone(id) => (None, Some(id), None),
                Subject::Assignee(id) => (None, None, Some(id)),
            };
            let at = now();
            let made = ActiveModel {
                board_id: Set(board_id),
                label_id: Set(label_id),
                milestone_id: Set(milestone_id),
                assignee_id: Set(assignee_id),
                position: Set(others.last().map_or(0, |last| last.position.saturating_add(1))),
                created_at: Set(at),
                updated_at: Set(at),
                ..Default::default()
            };
            let made = made.insert(transaction).await.map_err(refused)?;
            let board = row(transaction, place, board).await?;
            let made = board.lists.into_iter().find(|list| list.id == made.id);
            made.ok_or_else(missing)
        })
        .await
}

/// Moves a list to another position. Positions past the end mean the last one.
///
/// # Errors
/// Returns `Error::NotFound` if the board or list does not exist. Returns `Error::Forbidden` if issues are
/// not available to the caller.
pub async fn shift(
    backend: &Backend,
    place: &SpaceAccess,
    board_id: i64,
    id: i64,
    position: i64,
) -> Result<List> {
    place.check_issues()?;
    backend
        .database
        .transaction(async |transaction| {
            let board = lock(transaction, place, board_id).await?;
            let mut lists = board_lists::of([board_id]).all(transaction).await?;
            let at = lists.iter().position(|list| list.id == id).ok_or_else(missing)?;
            let moved = lists.remove(at);
            let to = usize::try_from(position).unwrap_or(usize::MAX).min(lists.len());
            lists.insert(to, moved);
            for (position, list) in (0..).zip(lists) {
                if list.position != position {
                    let mut list = list.into_active_model();
                    list.position = Set(position);
                    list.updated_at = Set(now());
                    list.update(transaction).await?;
                }
            }
            let board = row(transaction, place, board).await?;
            let moved = board.lists.into_iter().find(|list| list.id == id);
            moved.ok_or_else(missing)
        })
        .await
}

/// Deletes a list of a board and closes the gap.
///
/// # Errors
/// Returns `Error::NotFound` if the board or list does not exist. Returns `Error::Forbidden` if issues are
/// not available to the caller. Returns `Error::PreconditionFailed` if it changed after `unmodified_since`.
pub async fn delete(
    backend: &Backend,
    place: &SpaceAccess,
    board_id: i64,
    id: i64,
    unmodified_since: Option<&str>,
) -> Result<()> {
    place.check_issues()?;
    backend
        .database
        .transaction(async |transaction| {
            lock(transaction, place, board_id).await?;
            let own = board_lists::of([board_id]).filter(board_lists::Column::Id.eq(id));
            let list = own.one(transaction).await?.ok_or_else(missing)?;
            preconditions::check_unmodified_since(unmodified_since, list.updated_at)?;
            Entity::delete_by_id(id).exec(transaction).await?;
            Ok(())
        })
        .await
}

fn missing() -> Error {
    Error::not_found("List")
}

/// Rejects subjects that are not available in the project or group or not included in the plan.
async fn check(
    backend: &Backend,
    transaction: &DatabaseTransaction,
    place: &SpaceAccess,
    subject: Subject,
) -> Result<()> {
    match subject {
        Subject::Label(id) => check_label(transaction, place, id).await,
        Subject::Milestone(id) => {
            admit_to_premium(backend)?;
            check_milestone(transaction, place, Some(id)).await
        }
        Subject::Assignee(id) => {
            admit_to_premium(backend)?;
            check_member(transaction, place, Some(id)).await
        }
    }
}

async fn check_label(db: &impl ConnectionTrait, place: &SpaceAccess, id: i64) -> Result<()> {
    let found = labels::available(place.scope(), place.namespace.id).filter(labels::Column::Id.eq(id));
    match found.count(db).await? {
        0 => Err(Error::Rejected("Label not found!".into())),
        _ => Ok(()),
    }
}
