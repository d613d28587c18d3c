//! Creates, updates and deletes boards.

use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, DatabaseTransaction, DbErr, EntityTrait,
    IntoActiveModel, PaginatorTrait, QueryFilter,
};
use storage::database::Violation;
use storage::entities::boards::{self, ActiveModel, Entity};
use storage::entities::{Scope, access, board_labels, milestones, namespaces, now, projects, users};

use super::{Row, admit_to_premium, lock, row};
use crate::identity::space_access::SpaceAccess;
use crate::kernel::error::{Error, Result};
use crate::kernel::patch::Patch;
use crate::kernel::{Backend, preconditions};
use crate::planning::labels::named;

/// Maximum boards of a project or group.
pub(crate) const MOST: u64 = 100;

/// Maximum labels of a board.
pub(crate) const MOST_LABELS: usize = 100;

/// Attributes to change; absent ones stay.
#[derive(Debug, Clone)]
pub struct Change {
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

impl Change {
    /// Returns whether the filter of the board changes.
    fn narrows(&self) -> bool {
        !(self.milestone_id.is_keep() && self.assignee_id.is_keep() && self.weight.is_keep())
            || self.labels.is_some()
    }
}

/// Creates a board without lists.
///
/// # Errors
/// Returns `Error::Forbidden` if issues are not available to the caller. Returns `Error::InvalidAttributes`
/// if the name is blank. Returns `Error::Rejected` if there are `MOST` boards already.
pub async fn create(backend: &Backend, place: &SpaceAccess, name: &str) -> Result<Row> {
    place.check_issues()?;
    let scope = place.scope();
    let made = checked(scope, name)?;
    backend
        .database
        .transaction(async |transaction| {
            // The lock serializes inserts, so that concurrent ones cannot exceed the maximum.
            let there = match &place.project {
                Some(project) => projects::lock(transaction, project.id).await?.is_some(),
                None => namespaces::lock(transaction, place.namespace.id).await?.is_some(),
            };
            if !there {
                return Err(Error::not_found(""));
            }
            if boards::within(scope).count(transaction).await? >= MOST {
                return Err(Error::Rejected(
                    format!("The maximum number of boards ({MOST}) is reached").into(),
                ));
            }
            let made = made.insert(transaction).await.map_err(refused)?;
            row(transaction, place, made).await
        })
        .await
}

/// Returns the row of a valid board without filters.
///
/// # Errors
/// Returns `Error::InvalidAttributes` if the name is blank.
pub(crate) fn checked(scope: Scope, name: &str) -> Result<ActiveModel> {
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
pub async fn update(backend: &Backend, place: &SpaceAccess, id: i64, change: Change) -> Result<Row> {
    place.check_issues()?;
    let plain =
        change.name.is_some() || change.hide_backlog_list.is_some() || change.hide_closed_list.is_some();
    if !plain && !change.narrows() {
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
    let name = change.name.as_deref().map(check_name).transpose()?;
    let narrows = change.narrows();
    backend
        .database
        .transaction(async |transaction| {
            let mut changed = lock(transaction, place, id).await?.into_active_model();
            if narrows {
                admit_to_premium(backend)?;
            }
            if let Some(name) = name {
                changed.name = Set(name);
            }
            if let Some(hide) = change.hide_backlog_list {
                changed.hide_backlog_list = Set(hide);
            }
            if let Some(hide) = change.hide_closed_list {
                changed.hide_closed_list = Set(hide);
            }
            if !change.milestone_id.is_keep() {
                let milestone = change.milestone_id.into_value();
                check_milestone(transaction, place, milestone).await?;
                changed.milestone_id = Set(milestone);
            }
            if !change.assignee_id.is_keep() {
                let assignee = change.assignee_id.into_value();
                check_member(transaction, place, assignee).await?;
                changed.assignee_id = Set(assignee);
            }
            if !change.weight.is_keep() {
                let weight = change.weight.into_value().map(i32::try_from).transpose();
                changed.weight = Set(weight.map_err(|_| Error::parameter("weight is invalid"))?);
            }
            if let Some(titles) = &change.labels {
                set_labels(transaction, place, id, titles).await?;
            }
            changed.updated_at = Set(now());
            let changed = changed.update(transaction).await.map_err(refused)?;
            row(transaction, place, changed).await
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
    place: &SpaceAccess,
    id: i64,
    unmodified_since: Option<&str>,
) -> Result<()> {
    place.check_issues()?;
    backend
        .database
        .transaction(async |transaction| {
            let board = lock(transaction, place, id).await?;
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

/// Replaces the labels of a board by labels available in the project or group.
async fn set_labels(
    transaction: &DatabaseTransaction,
    place: &SpaceAccess,
    board_id: i64,
    titles: &str,
) -> Result<()> {
    let mut wanted: Vec<&str> = titles.split(',').map(str::trim).collect();
    wanted.retain(|title| !title.is_empty());
    wanted.sort_unstable();
    wanted.dedup();
    if wanted.len() > MOST_LABELS {
        let text = format!("are too many (maximum is {MOST_LABELS})");
        return Err(Error::attribute("labels", text));
    }
    let known = named(transaction, place, &wanted).await?;
    if known.len() < wanted.len() {
        return Err(Error::Rejected("Label not found!".into()));
    }
    board_labels::Entity::delete_many()
        .filter(board_labels::Column::BoardId.eq(board_id))
        .exec(transaction)
        .await?;
    if known.is_empty() {
        return Ok(());
    }
    let rows = known.into_values().map(|label| board_labels::ActiveModel {
        board_id: Set(board_id),
        label_id: Set(label.id),
        ..Default::default()
    });
    let insert = board_labels::Entity::insert_many(rows);
    insert
        .exec_without_returning(transaction)
        .await
        .map_err(refused)?;
    Ok(())
}

/// Rejects a milestone that is not available in the project or group.
pub(super) async fn check_milestone(
    transaction: &DatabaseTransaction,
    place: &SpaceAccess,
    id: Option<i64>,
) -> Result<()> {
    let Some(id) = id else { return Ok(()) };
    let found =
        milestones::available(place.scope(), place.namespace.id).filter(milestones::Column::Id.eq(id));
    match found.count(transaction).await? {
        0 => Err(Error::Rejected("Milestone not found!".into())),
        _ => Ok(()),
    }
}

/// Rejects a user without a role in the project or group.
pub(crate) async fn check_member(
    transaction: &DatabaseTransaction,
    place: &SpaceAccess,
    id: Option<i64>,
) -> Result<()> {
    let Some(id) = id else { return Ok(()) };
    let today = now().date_naive();
    let role = match &place.project {
        Some(project) => access::project_level(transaction, id, project.id, today).await?,
        None => access::group_level(transaction, id, place.namespace.id, today).await?,
    };
    let there = users::Entity::find_by_id(id).count(transaction).await? > 0;
    if role.is_some() && there {
        Ok(())
    } else {
        Err(Error::Rejected("User not found!".into()))
    }
}

/// Maps a database error of an insert or update.
pub(super) fn refused(error: DbErr) -> Error {
    match Violation::of(&error) {
        // A referenced row was deleted meanwhile.
        Some(Violation::ForeignKey(_)) => Error::not_found(""),
        _ => error.into(),
    }
}
