//! Lists of boards. Whoever changes them holds the lock of their board, so that each has a place of its own.

use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait,
    IntoActiveModel, PaginatorTrait, QueryFilter,
};
use storage::entities::board_lists::{self, ActiveModel, Entity, Model};
use storage::entities::{labels, now};

use super::changes::{check_member, check_milestone, refused};
use super::{List, admit_to_premium, lock, read as read_board, row};
use crate::error::{Error, Result};
use crate::services::kernel::page::{Page, PageRequest};
use crate::services::places::Place;
use crate::services::{Backend, preconditions};

/// How many lists a board may have.
pub(in crate::services) const MOST: usize = 100;

/// What a list is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// The label with this id.
    Label(i64),
    /// The milestone with this id.
    Milestone(i64),
    /// The user with this id.
    Assignee(i64),
}

impl Subject {
    fn of(list: &Model) -> Option<Self> {
        let label = list.label_id.map(Self::Label);
        let milestone = list.milestone_id.map(Self::Milestone);
        label.or(milestone).or(list.assignee_id.map(Self::Assignee))
    }
}

/// A page of the lists of a board, by position.
///
/// # Errors
/// 403 where there are no issues for the caller, and 404.
pub async fn list(backend: &Backend, place: &Place, board_id: i64, page: &PageRequest) -> Result<Page<List>> {
    // There are never many.
    let board = read_board(backend, place, board_id).await?;
    Ok(Page::of(page, board.lists))
}

/// One list of a board.
///
/// # Errors
/// 403 where there are no issues for the caller, and 404.
pub async fn read(backend: &Backend, place: &Place, board_id: i64, id: i64) -> Result<List> {
    let board = read_board(backend, place, board_id).await?;
    let found = board.lists.into_iter().find(|list| list.id == id);
    found.ok_or_else(missing)
}

/// Adds a list behind the others.
///
/// # Errors
/// 404, 403 where there are no issues for the caller or the plan does not have it, and 400 for what the board cannot have
/// or has already, and for more lists than there may be.
pub async fn create(backend: &Backend, place: &Place, board_id: i64, subject: Subject) -> Result<List> {
    place.admit_to_issues()?;
    backend
        .database
        .transaction(async |transaction| {
            let board = lock(transaction, place, board_id).await?;
            check(backend, transaction, place, subject).await?;
            let others = board_lists::of([board_id]).all(transaction).await?;
            if others.len() >= MOST {
                return Err(Error::Refused(
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

/// Puts a list in another place; behind the last one is the last one.
///
/// # Errors
/// 404, and 403 where there are no issues for the caller.
pub async fn shift(backend: &Backend, place: &Place, board_id: i64, id: i64, position: i64) -> Result<List> {
    place.admit_to_issues()?;
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

/// Takes a list off a board; the others close the gap.
///
/// # Errors
/// 404, 403 where there are no issues for the caller, and 412 when it changed after the caller's date.
pub async fn delete(
    backend: &Backend,
    place: &Place,
    board_id: i64,
    id: i64,
    unmodified_since: Option<&str>,
) -> Result<()> {
    place.admit_to_issues()?;
    backend
        .database
        .transaction(async |transaction| {
            lock(transaction, place, board_id).await?;
            let own = board_lists::of([board_id]).filter(board_lists::Column::Id.eq(id));
            let list = own.one(transaction).await?.ok_or_else(missing)?;
            preconditions::unmodified_since(unmodified_since, list.updated_at)?;
            Entity::delete_by_id(id).exec(transaction).await?;
            Ok(())
        })
        .await
}

fn missing() -> Error {
    Error::not_found("List")
}

/// Refuses what a board of the place cannot have a list of, and what the plan does not have.
async fn check(
    backend: &Backend,
    transaction: &DatabaseTransaction,
    place: &Place,
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

async fn check_label(db: &impl ConnectionTrait, place: &Place, id: i64) -> Result<()> {
    let found = labels::available(place.scope(), place.namespace.id).filter(labels::Column::Id.eq(id));
    match found.count(db).await? {
        0 => Err(Error::Refused("Label not found!".into())),
        _ => Ok(()),
    }
}
