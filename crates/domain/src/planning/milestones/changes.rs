//! Creates, updates and deletes milestones.

use chrono::NaiveDate;
use sea_orm::sea_query::{Expr, Query};
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseTransaction, DbErr,
    EntityTrait, ExprTrait, IntoActiveModel, PaginatorTrait, QueryFilter,
};
use storage::database::Violation;
use storage::entities::iid_counters::{self, IidKind};
use storage::entities::issuables::lock_rows;
use storage::entities::milestones::{self, ActiveModel, Column, Entity, MilestoneState, Model};
use storage::entities::{now, row_changes};

use super::{MilestoneDetail, lock, own_detail};
use crate::activity::events::{self, EventAction, EventTarget, EventTargetType, NewEvent};
use crate::identity::space_access::SpaceAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::patch::Patch;
use crate::kernel::preconditions;

/// Maximum length of a title, in characters.
const MAX_TITLE_LENGTH: usize = 255;

/// Attributes of a new milestone.
#[derive(Debug, Clone)]
pub struct NewMilestone {
    /// Title of the milestone.
    pub title: String,
    /// Description of the milestone.
    pub description: Option<String>,
    /// Start date.
    pub start_date: Option<NaiveDate>,
    /// Due date.
    pub due_date: Option<NaiveDate>,
}

/// A change of the state of a milestone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MilestoneStateEvent {
    /// Closes an active milestone.
    Close,
    /// Reopens a closed milestone.
    Activate,
}

/// Attributes to update in a milestone. Absent attributes do not change.
#[derive(Debug, Clone)]
pub struct MilestoneUpdate {
    /// New title.
    pub title: Option<String>,
    /// Description of the milestone.
    pub description: Patch<String>,
    /// Start date.
    pub start_date: Patch<NaiveDate>,
    /// Due date.
    pub due_date: Patch<NaiveDate>,
    /// Change of the state.
    pub state_event: Option<MilestoneStateEvent>,
}

/// Creates a milestone.
///
/// # Errors
/// Returns a validation error if the title is invalid or taken, or if the due date precedes the start date.
pub async fn create(backend: &Backend, space: &SpaceAccess, new: NewMilestone) -> Result<MilestoneDetail> {
    space.check_planning()?;
    let row = valid_row(new)?;
    backend
        .database
        .transaction(async |transaction| {
            check_title_available(transaction, space, row.title.as_ref()).await?;
            let milestone = insert(transaction, space, row).await?;
            record_event(transaction, space, &milestone, EventAction::Created).await?;
            Ok(own_detail(space, milestone))
        })
        .await
}

/// Validates the attributes of a milestone and returns its row, without its project or group and its IID.
///
/// # Errors
/// Returns a validation error if the title is invalid or the due date precedes the start date.
pub(crate) fn valid_row(new: NewMilestone) -> Result<ActiveModel> {
    let title = new.title.trim().to_owned();
    check_title(&title)?;
    check_dates(new.start_date, new.due_date)?;
    Ok(ActiveModel {
        title: Set(title),
        description: Set(new.description.filter(|text| !text.is_empty())),
        start_date: Set(new.start_date),
        due_date: Set(new.due_date),
        state: Set(MilestoneState::Active),
        ..Default::default()
    })
}

/// Inserts a milestone with the next IID of its project or group.
pub(super) async fn insert(
    transaction: &DatabaseTransaction,
    space: &SpaceAccess,
    row: ActiveModel,
) -> Result<Model> {
    let scope = space.scope();
    let iid = iid_counters::next(transaction, scope, IidKind::Milestones).await;
    let at = now();
    let row = ActiveModel {
        project_id: Set(scope.project_id()),
        namespace_id: Set(scope.namespace_id()),
        iid: Set(iid.map_err(map_violation)?),
        created_at: Set(at),
        updated_at: Set(at),
        ..row
    };
    row.insert(transaction).await.map_err(map_violation)
}

/// Updates a milestone.
///
/// # Errors
/// Returns the errors of [`create`], `NotFound` if the milestone does not exist, and a validation error if no
/// attribute is given.
pub async fn update(
    backend: &Backend,
    space: &SpaceAccess,
    id: i64,
    update: MilestoneUpdate,
) -> Result<MilestoneDetail> {
    space.check_planning()?;
    let is_empty = update.title.is_none()
        && update.description.is_keep()
        && update.start_date.is_keep()
        && update.due_date.is_keep()
        && update.state_event.is_none();
    if is_empty {
        let attributes = ["title", "description", "start_date", "due_date", "state_event"];
        return Err(Error::no_parameters(&attributes));
    }
    let title = update.title.map(|title| title.trim().to_owned());
    title.as_deref().map_or(Ok(()), check_title)?;
    backend
        .database
        .transaction(async |transaction| {
            let former = lock(transaction, space, id).await?;
            let mut row = former.clone().into_active_model();
            if let Some(title) = title.filter(|title| *title != former.title) {
                check_title_available(transaction, space, &title).await?;
                row.title = Set(title);
            }
            if !update.description.is_keep() {
                row.description = Set(update.description.into_value().filter(|text| !text.is_empty()));
            }
            let (start_date, due_date) = (
                updated_date(update.start_date, former.start_date),
                updated_date(update.due_date, former.due_date),
            );
            check_dates(start_date, due_date)?;
            row.start_date = Set(start_date);
            row.due_date = Set(due_date);
            let transition = match (update.state_event, former.state) {
                (Some(MilestoneStateEvent::Close), MilestoneState::Active) => {
                    Some((MilestoneState::Closed, EventAction::Closed))
                }
                (Some(MilestoneStateEvent::Activate), MilestoneState::Closed) => {
                    Some((MilestoneState::Active, EventAction::Reopened))
                }
                _ => None,
            };
            if let Some((state, _)) = transition {
                row.state = Set(state);
            }
            let changed = row_changes::update_if_changed(transaction, &former, row).await;
            let milestone = changed.map_err(map_violation)?;
            if milestone.due_date != former.due_date {
                update_due_date_of_items(transaction, id, milestone.due_date).await?;
            }
            if let Some((_, action)) = transition {
                record_event(transaction, space, &milestone, action).await?;
            }
            Ok(own_detail(space, milestone))
        })
        .await
}

/// Deletes a milestone and removes it from its issues and merge requests.
///
/// # Errors
/// Returns `NotFound` if the milestone does not exist, or `PreconditionFailed` if it was modified after the
/// given date.
pub async fn delete(
    backend: &Backend,
    space: &SpaceAccess,
    id: i64,
    unmodified_since: Option<&str>,
) -> Result<()> {
    space.check_planning()?;
    backend
        .database
        .transaction(async |transaction| {
            let milestone = lock(transaction, space, id).await?;
            preconditions::check_unmodified_since(unmodified_since, milestone.updated_at)?;
            // Must precede the deletion, which clears the references.
            update_due_date_of_items(transaction, id, None).await?;
            Entity::delete_by_id(id).exec(transaction).await?;
            record_event(transaction, space, &milestone, EventAction::Destroyed).await
        })
        .await
}

/// Copies the due date of a milestone to its issues and merge requests, because lists are sorted by it. Uses
/// one statement per table.
pub(super) async fn update_due_date_of_items(
    transaction: &DatabaseTransaction,
    id: i64,
    due_on: Option<NaiveDate>,
) -> Result<()> {
    for table in ["issues", "merge_requests"] {
        let items = Query::select()
            .column("id")
            .from(table)
            .and_where(Expr::col("milestone_id").eq(id))
            .take();
        lock_rows(transaction, table, items).await?;
        let update = Query::update()
            .table(table)
            .value("milestone_due_on", due_on)
            .and_where(Expr::col("milestone_id").eq(id))
            .take();
        transaction.execute(&update).await?;
    }
    Ok(())
}

/// Records an event of a project milestone; groups have no events.
async fn record_event(
    transaction: &DatabaseTransaction,
    space: &SpaceAccess,
    milestone: &Model,
    action: EventAction,
) -> Result<()> {
    let Some(project) = &space.project else {
        return Ok(());
    };
    let event = NewEvent {
        target: Some(EventTarget {
            kind: EventTargetType::Milestone,
            id: milestone.id,
            iid: Some(milestone.iid),
            title: Some(milestone.title.clone()),
        }),
        ..NewEvent::new(project.id, space.caller.signed_in()?.id, action)
    };
    events::record(transaction, event).await
}

fn updated_date(patch: Patch<NaiveDate>, former: Option<NaiveDate>) -> Option<NaiveDate> {
    match patch {
        Patch::Keep => former,
        Patch::Clear => None,
        Patch::Set(date) => Some(date),
    }
}

fn check_title(title: &str) -> Result<()> {
    if title.is_empty() {
        return Err(Error::attribute("title", "can't be blank"));
    }
    if title.chars().count() > MAX_TITLE_LENGTH {
        return Err(Error::attribute(
            "title",
            "is too long (maximum is 255 characters)",
        ));
    }
    Ok(())
}

/// Rejects a due date before the start date.
///
/// # Errors
/// Returns a validation error if the dates are in the wrong order.
pub(crate) fn check_dates(start: Option<NaiveDate>, due: Option<NaiveDate>) -> Result<()> {
    match (start, due) {
        (Some(start), Some(due)) if due < start => {
            Err(Error::attribute("due_date", "must be greater than start date"))
        }
        _ => Ok(()),
    }
}

/// Rejects a title that a milestone of the project or group or of an ancestor group has.
async fn check_title_available(
    transaction: &DatabaseTransaction,
    space: &SpaceAccess,
    title: &str,
) -> Result<()> {
    let milestones = milestones::available(space.scope(), space.namespace.id).filter(Column::Title.eq(title));
    match milestones.count(transaction).await? {
        0 => Ok(()),
        _ => Err(title_taken()),
    }
}

fn title_taken() -> Error {
    Error::attribute(
        "title",
        "already being used for another group or project milestone.",
    )
}

/// Maps the database error of an insert or update to the error of its cause.
fn map_violation(error: DbErr) -> Error {
    match Violation::of(&error) {
        // A concurrent request created the same milestone.
        Some(Violation::Unique(_)) => title_taken(),
        // The project or group was deleted concurrently.
        Some(Violation::ForeignKey(_)) => Error::not_found(""),
        _ => error.into(),
    }
}
