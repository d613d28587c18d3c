//! Lists of boards. Changes lock the board, so that each list has its own position.

use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait,
    IntoActiveModel, PaginatorTrait, QueryFilter,
};
pub use storage::entities::board_lists::ListSubject;
use storage::entities::board_lists::{self, ActiveModel, Entity};
use storage::entities::{labels, now};

use super::changes::{check_member, check_milestone, map_violation};
use super::{BoardListDetail, check_premium, detail, get as get_board, lock};
use crate::identity::space_access::SpaceAccess;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::{Backend, preconditions};

/// Maximum lists of a board.
pub(crate) const MAX_LISTS: usize = 100;

/// Returns a page of the lists of a board, by position.
///
/// # Errors
/// Returns `Error::NotFound` if the board does not exist. Returns `Error::Forbidden` if issues are not
/// available to the caller.
pub async fn list(
    backend: &Backend,
    space: &SpaceAccess,
    board_id: i64,
    page: &PageRequest,
) -> Result<Page<BoardListDetail>> {
    // A board has at most `MAX_LISTS` lists, so all of them are loaded.
    let board = get_board(backend, space, board_id).await?;
    Ok(Page::from_all(page, board.lists))
}

/// Returns one list of a board.
///
/// # Errors
/// Returns `Error::NotFound` if the board or list does not exist. Returns `Error::Forbidden` if issues are
/// not available to the caller.
pub async fn get(backend: &Backend, space: &SpaceAccess, board_id: i64, id: i64) -> Result<BoardListDetail> {
    let board = get_board(backend, space, board_id).await?;
    let list = board.lists.into_iter().find(|list| list.id == id);
    list.ok_or_else(missing)
}

/// Appends a list to a board.
///
/// # Errors
/// Returns `Error::NotFound` if the board does not exist. Returns `Error::Forbidden` if issues are not
/// available to the caller or the plan lacks the feature. Returns `Error::Rejected` if the label, milestone or
/// assignee is invalid or already has a list, or if the board has `MAX_LISTS` lists.
pub async fn create(
    backend: &Backend,
    space: &SpaceAccess,
    board_id: i64,
    subject: ListSubject,
) -> Result<BoardListDetail> {
    space.check_issues()?;
    backend
        .database
        .transaction(async |transaction| {
            let space = &space.lock_location(transaction).await?;
            let board = lock(transaction, space, board_id).await?;
            check_subject(backend, transaction, space, subject).await?;
            let others = board_lists::of([board_id]).all(transaction).await?;
            if others.len() >= MAX_LISTS {
                return Err(Error::Rejected(
                    format!("The maximum number of lists ({MAX_LISTS}) is reached").into(),
                ));
            }
            if others.iter().any(|other| other.subject() == Some(subject)) {
                let attribute = match subject {
                    ListSubject::Label(_) => "label",
                    ListSubject::Milestone(_) => "milestone",
                    ListSubject::Assignee(_) => "assignee",
                };
                return Err(Error::attribute(attribute, "has already been taken"));
            }
            let (label_id, milestone_id, assignee_id) = match subject {
                ListSubject::Label(id) => (Some(id), None, None),
                ListSubject::Milestone(id) => (None, Some(id), None),
                ListSubject::Assignee(id) => (None, None, Some(id)),
            };
            let at = now();
            let row = ActiveModel {
                board_id: Set(board_id),
                label_id: Set(label_id),
                milestone_id: Set(milestone_id),
                assignee_id: Set(assignee_id),
                position: Set(others.last().map_or(0, |last| last.position.saturating_add(1))),
                created_at: Set(at),
                updated_at: Set(at),
                ..Default::default()
            };
            let list = row.insert(transaction).await.map_err(map_violation)?;
            let board = detail(transaction, space, board).await?;
            let created = board.lists.into_iter().find(|created| created.id == list.id);
            created.ok_or_else(missing)
        })
        .await
}

/// Moves a list to another position. Positions past the end mean the last one.
///
/// # Errors
/// Returns `Error::NotFound` if the board or list does not exist. Returns `Error::Forbidden` if issues are
/// not available to the caller.
pub async fn move_to(
    backend: &Backend,
    space: &SpaceAccess,
    board_id: i64,
    id: i64,
    position: i64,
) -> Result<BoardListDetail> {
    space.check_issues()?;
    backend
        .database
        .transaction(async |transaction| {
            let board = lock(transaction, space, board_id).await?;
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
            let board = detail(transaction, space, board).await?;
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
    space: &SpaceAccess,
    board_id: i64,
    id: i64,
    unmodified_since: Option<&str>,
) -> Result<()> {
    space.check_issues()?;
    backend
        .database
        .transaction(async |transaction| {
            lock(transaction, space, board_id).await?;
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

/// Rejects a label, milestone or assignee that is not available in the project or group, or that the plan does
/// not include.
async fn check_subject(
    backend: &Backend,
    transaction: &DatabaseTransaction,
    space: &SpaceAccess,
    subject: ListSubject,
) -> Result<()> {
    match subject {
        ListSubject::Label(id) => check_label(transaction, space, id).await,
        ListSubject::Milestone(id) => {
            check_premium(backend)?;
            check_milestone(transaction, space, Some(id)).await
        }
        ListSubject::Assignee(id) => {
            check_premium(backend)?;
            check_member(transaction, space, Some(id)).await
        }
    }
}

async fn check_label(db: &impl ConnectionTrait, space: &SpaceAccess, id: i64) -> Result<()> {
    let labels = labels::available(space.scope(), space.namespace.id).filter(labels::Column::Id.eq(id));
    match labels.count(db).await? {
        0 => Err(Error::Rejected("Label not found!".into())),
        _ => Ok(()),
    }
}
