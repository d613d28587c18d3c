//! Creates, updates and deletes boards.

use std::collections::BTreeSet;

use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, DatabaseTransaction, DbErr, EntityTrait,
    IntoActiveModel, PaginatorTrait, QueryFilter,
};
use storage::database::Violation;
use storage::entities::boards::{self, ActiveModel, Entity};
use storage::entities::{Scope, access, board_labels, milestones, now, row_changes, users};

use super::{BoardDetail, check_premium, detail, lock};
use crate::identity::space_access::{self, SpaceAccess};
use crate::kernel::error::{Error, Result};
use crate::kernel::patch::Patch;
use crate::kernel::{Backend, preconditions};
use crate::planning::labels::ids_by_title;

/// Maximum boards of a project or group.
pub(crate) const MAX_BOARDS: u64 = 100;

/// Maximum labels of a board.
pub(crate) const MAX_BOARD_LABELS: usize = 100;

/// Attributes to update in a board. Absent attributes do not change.
#[derive(Debug, Clone)]
pub struct BoardUpdate {
    /// Name of the board.
    pub name: Option<String>,
    /// Whether open issues that are on no list are hidden.
    pub hide_backlog_list: Option<bool>,
    /// Whether closed issues are hidden.
    pub hide_closed_list: Option<bool>,
    /// The milestone by which its issues are filtered.
    pub milestone_id: Patch<i64>,
    /// The assignee by which its issues are filtered.
    pub assignee_id: Patch<i64>,
    /// Comma-separated titles of the labels by which its issues are filtered.
    pub labels: Option<String>,
    /// The weight by which its issues are filtered.
    pub weight: Patch<i64>,
}

impl BoardUpdate {
    /// Returns whether the filter of the board changes.
    fn changes_filter(&self) -> bool {
        !(self.milestone_id.is_keep() && self.assignee_id.is_keep() && self.weight.is_keep())
            || self.labels.is_some()
    }
}

/// Creates a board without lists.
///
/// # Errors
/// Returns `Error::Forbidden` if issues are not available to the caller. Returns `Error::InvalidAttributes`
/// if the name is blank. Returns `Error::Rejected` if the project or group has `MAX_BOARDS` boards.
pub async fn create(backend: &Backend, space: &SpaceAccess, name: &str) -> Result<BoardDetail> {
    space.check_issues()?;
    let scope = space.scope();
    let row = valid_row(scope, name)?;
    backend
        .database
        .transaction(async |transaction| {
            // The lock serializes inserts, so that concurrent ones cannot exceed the maximum.
            space_access::lock(transaction, scope).await?;
            if boards::within(scope).count(transaction).await? >= MAX_BOARDS {
                return Err(Error::Rejected(
                    format!("The maximum number of boards ({MAX_BOARDS}) is reached").into(),
                ));
            }
            let board = row.insert(transaction).await.map_err(map_violation)?;
            detail(transaction, space, board).await
        })
        .await
}

/// Validates the name of a board and returns its row, without filters.
///
/// # Errors
/// Returns `Error::InvalidAttributes` if the name is blank.
pub(crate) fn valid_row(scope: Scope, name: &str) -> Result<ActiveModel> {
    let at = now();
    Ok(ActiveModel {
        project_id: Set(scope.project_id()),
        namespace_id: Set(scope.namespace_id()),
        name: Set(check_name(name)?),
        hide_backlog_list: Set(false),
        hide_closed_list: Set(false),
        created_at: Set(at),
        updated_at: Set(at),
        ..Default::default()
    })
}

/// Updates a board.
///
/// # Errors
/// Returns `Error::NotFound` if the board does not exist. Returns `Error::Forbidden` if issues are not
/// available to the caller or the plan lacks the feature. Returns `Error::InvalidAttributes` or
/// `Error::Rejected` for invalid values. Returns `Error::InvalidParameters` if no attribute is given.
pub async fn update(
    backend: &Backend,
    space: &SpaceAccess,
    id: i64,
    update: BoardUpdate,
) -> Result<BoardDetail> {
    space.check_issues()?;
    let changes_display =
        update.name.is_some() || update.hide_backlog_list.is_some() || update.hide_closed_list.is_some();
    if !changes_display && !update.changes_filter() {
        return Err(Error::no_parameters(&[
            "name",
            "hide_backlog_list",
            "hide_closed_list",
            "milestone_id",
            "assignee_id",
            "labels",
            "weight",
        ]));
    }
    let name = update.name.as_deref().map(check_name).transpose()?;
    let changes_filter = update.changes_filter();
    backend
        .database
        .transaction(async |transaction| {
            let space = match changes_filter {
                true => space.lock_location(transaction).await?,
                false => space.clone(),
            };
            let space = &space;
            let former = lock(transaction, space, id).await?;
            let mut row = former.clone().into_active_model();
            if changes_filter {
                check_premium(backend)?;
            }
            if let Some(name) = name {
                row.name = Set(name);
            }
            if let Some(hide) = update.hide_backlog_list {
                row.hide_backlog_list = Set(hide);
            }
            if let Some(hide) = update.hide_closed_list {
                row.hide_closed_list = Set(hide);
            }
            if !update.milestone_id.is_keep() {
                let milestone = update.milestone_id.into_value();
                check_milestone(transaction, space, milestone).await?;
                row.milestone_id = Set(milestone);
            }
            if !update.assignee_id.is_keep() {
                let assignee = update.assignee_id.into_value();
                check_member(transaction, space, assignee).await?;
                row.assignee_id = Set(assignee);
            }
            if !update.weight.is_keep() {
                let weight = update.weight.into_value().map(i32::try_from).transpose();
                row.weight = Set(weight.map_err(|_| Error::parameter("weight is invalid"))?);
            }
            if let Some(titles) = &update.labels
                && set_labels(transaction, space, id, titles).await?
            {
                row.updated_at = Set(now());
            }
            let changed = row_changes::update_if_changed(transaction, &former, row).await;
            let board = changed.map_err(map_violation)?;
            detail(transaction, space, board).await
        })
        .await
}

/// Deletes a board with its lists.
///
/// # Errors
/// Returns `Error::NotFound` if the board does not exist. Returns `Error::Forbidden` if issues are not
/// available to the caller. Returns `Error::PreconditionFailed` if it changed after `unmodified_since`.
pub async fn delete(
    backend: &Backend,
    space: &SpaceAccess,
    id: i64,
    unmodified_since: Option<&str>,
) -> Result<()> {
    space.check_issues()?;
    backend
        .database
        .transaction(async |transaction| {
            let board = lock(transaction, space, id).await?;
            preconditions::check_unmodified_since(unmodified_since, board.updated_at)?;
            Entity::delete_by_id(id).exec(transaction).await?;
            Ok(())
        })
        .await
}

fn check_name(name: &str) -> Result<String> {
    let name = name.trim();
    if name.is_empty() {
        return Err(Error::attribute("name", "can't be blank"));
    }
    Ok(name.to_owned())
}

/// Replaces the labels of a board by labels available in the project or group. Returns whether the labels changed.
async fn set_labels(
    transaction: &DatabaseTransaction,
    space: &SpaceAccess,
    board_id: i64,
    titles: &str,
) -> Result<bool> {
    let mut titles: Vec<&str> = titles.split(',').map(str::trim).collect();
    titles.retain(|title| !title.is_empty());
    titles.sort_unstable();
    titles.dedup();
    if titles.len() > MAX_BOARD_LABELS {
        let text = format!("are too many (maximum is {MAX_BOARD_LABELS})");
        return Err(Error::attribute("labels", text));
    }
    let labels = ids_by_title(transaction, space, &titles).await?;
    if labels.len() < titles.len() {
        return Err(Error::Rejected("Label not found!".into()));
    }
    let of_board = board_labels::Column::BoardId.eq(board_id);
    let former = board_labels::Entity::find()
        .filter(of_board.clone())
        .all(transaction)
        .await?;
    let former: BTreeSet<i64> = former.into_iter().map(|row| row.label_id).collect();
    if former == labels.values().copied().collect::<BTreeSet<i64>>() {
        return Ok(false);
    }
    board_labels::Entity::delete_many()
        .filter(of_board)
        .exec(transaction)
        .await?;
    if labels.is_empty() {
        return Ok(true);
    }
    let rows = labels.into_values().map(|label_id| board_labels::ActiveModel {
        board_id: Set(board_id),
        label_id: Set(label_id),
        ..Default::default()
    });
    let insert = board_labels::Entity::insert_many(rows);
    insert
        .exec_without_returning(transaction)
        .await
        .map_err(map_violation)?;
    Ok(true)
}

/// Rejects a milestone that is not available in the project or group.
pub(super) async fn check_milestone(
    transaction: &DatabaseTransaction,
    space: &SpaceAccess,
    id: Option<i64>,
) -> Result<()> {
    let Some(id) = id else { return Ok(()) };
    let milestones =
        milestones::available(space.scope(), space.namespace.id).filter(milestones::Column::Id.eq(id));
    match milestones.count(transaction).await? {
        0 => Err(Error::Rejected("Milestone not found!".into())),
        _ => Ok(()),
    }
}

/// Rejects a user without a role in the project or group.
pub(crate) async fn check_member(
    transaction: &DatabaseTransaction,
    space: &SpaceAccess,
    id: Option<i64>,
) -> Result<()> {
    let Some(id) = id else { return Ok(()) };
    let today = now().date_naive();
    let role = match &space.project {
        Some(project) => access::project_level(transaction, id, project.id, today).await?,
        None => access::group_level(transaction, id, space.namespace.id, today).await?,
    };
    let exists = users::Entity::find_by_id(id).count(transaction).await? > 0;
    if role.is_some() && exists {
        Ok(())
    } else {
        Err(Error::Rejected("User not found!".into()))
    }
}

/// Maps the database error of an insert or update to the error of its cause.
pub(super) fn map_violation(error: DbErr) -> Error {
    match Violation::of(&error) {
        // A referenced row was deleted concurrently.
        Some(Violation::ForeignKey(_)) => Error::not_found(""),
        _ => error.into(),
    }
}
