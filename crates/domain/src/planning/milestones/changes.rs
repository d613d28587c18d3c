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
use storage::entities::now;

use super::{Row, here, lock};
use crate::activity::events::{self, EventAction, EventTarget, EventTargetType, NewEvent};
use crate::identity::space_access::SpaceAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::patch::Patch;
use crate::kernel::preconditions;

/// Maximum length of a title, in characters.
const LONGEST_TITLE: usize = 255;

/// Attributes of a new milestone.
#[derive(Debug, Clone)]
pub struct NewMilestone {
    /// The title.
    pub title: String,
    /// The description.
    pub description: Option<String>,
    /// The start date.
    pub start_date: Option<NaiveDate>,
    /// The due date.
    pub due_date: Option<NaiveDate>,
}

/// A change of the state of a milestone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateEvent {
    /// Close it.
    Close,
    /// Reopen it.
    Activate,
}

/// Changes to a milestone.
#[derive(Debug, Clone)]
pub struct Change {
    /// The new title.
    pub title: Option<String>,
    /// The description.
    pub description: Patch<String>,
    /// The start date.
    pub start_date: Patch<NaiveDate>,
    /// The due date.
    pub due_date: Patch<NaiveDate>,
    /// The state change.
    pub state_event: Option<StateEvent>,
}

/// Creates a milestone.
///
/// # Errors
/// Returns a validation error if the title is invalid or taken, or if the due date precedes the start date.
pub async fn create(backend: &Backend, place: &SpaceAccess, new: NewMilestone) -> Result<Row> {
    place.check_planning()?;
    let made = checked(new)?;
    backend
        .database
        .transaction(async |transaction| {
            refuse_taken(transaction, place, made.title.as_ref()).await?;
            let made = insert(transaction, place, made).await?;
            record(transaction, place, &made, EventAction::Created).await?;
            Ok(here(place, made))
        })
        .await
}

/// Returns the validated row of a milestone, without its project or group and its IID.
///
/// # Errors
/// Returns a validation error if the title is invalid or the due date precedes the start date.
pub(crate) fn checked(new: NewMilestone) -> Result<ActiveModel> {
    let title = new.title.trim().to_owned();
    check_title(&title)?;
    check_days(new.start_date, new.due_date)?;
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
    place: &SpaceAccess,
    row: ActiveModel,
) -> Result<Model> {
    let scope = place.scope();
    let iid = iid_counters::next(transaction, scope, IidKind::Milestones).await;
    let at = now();
    let row = ActiveModel {
        project_id: Set(scope.project_id()),
        namespace_id: Set(scope.namespace_id()),
        iid: Set(iid.map_err(refused)?),
        created_at: Set(at),
        updated_at: Set(at),
        ..row
    };
    row.insert(transaction).await.map_err(refused)
}

/// Updates a milestone.
///
/// # Errors
/// Returns the errors of [`create`], `NotFound` if the milestone does not exist, and a validation error if no
/// attribute is given.
pub async fn update(backend: &Backend, place: &SpaceAccess, id: i64, change: Change) -> Result<Row> {
    place.check_planning()?;
    let nothing = change.title.is_none()
        && change.description.is_keep()
        && change.start_date.is_keep()
        && change.due_date.is_keep()
        && change.state_event.is_none();
    if nothing {
        let known = ["title", "description", "start_date", "due_date", "state_event"];
        return Err(Error::no_parameters(&known));
    }
    let title = change.title.map(|title| title.trim().to_owned());
    title.as_deref().map_or(Ok(()), check_title)?;
    backend
        .database
        .transaction(async |transaction| {
            let former = lock(transaction, place, id).await?;
            let mut row = former.clone().into_active_model();
            if let Some(title) = title.filter(|title| *title != former.title) {
                refuse_taken(transaction, place, &title).await?;
                row.title = Set(title);
            }
            if !change.description.is_keep() {
                row.description = Set(change.description.into_value().filter(|text| !text.is_empty()));
            }
            let days = (
                changed(change.start_date, former.start_date),
                changed(change.due_date, former.due_date),
            );
            check_days(days.0, days.1)?;
            row.start_date = Set(days.0);
            row.due_date = Set(days.1);
            let happens = match (change.state_event, former.state) {
                (Some(StateEvent::Close), MilestoneState::Active) => {
                    Some((MilestoneState::Closed, EventAction::Closed))
                }
                (Some(StateEvent::Activate), MilestoneState::Closed) => {
                    Some((MilestoneState::Active, EventAction::Reopened))
                }
                _ => None,
            };
            if let Some((state, _)) = happens {
                row.state = Set(state);
            }
            row.updated_at = Set(now());
            let milestone = row.update(transaction).await.map_err(refused)?;
            if milestone.due_date != former.due_date {
                note_due_date(transaction, id, milestone.due_date).await?;
            }
            if let Some((_, action)) = happens {
                record(transaction, place, &milestone, action).await?;
            }
            Ok(here(place, milestone))
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
    place: &SpaceAccess,
    id: i64,
    unmodified_since: Option<&str>,
) -> Result<()> {
    place.check_planning()?;
    backend
        .database
        .transaction(async |transaction| {
            let milestone = lock(transaction, place, id).await?;
            preconditions::check_unmodified_since(unmodified_since, milestone.updated_at)?;
            // Must precede the deletion, which clears the references.
            note_due_date(transaction, id, None).await?;
            Entity::delete_by_id(id).exec(transaction).await?;
            record(transaction, place, &milestone, EventAction::Destroyed).await
        })
        .await
}

/// Copies the due date to the issues and merge requests of a milestone, which lists are sorted by. It uses
/// one statement per table.
pub(super) async fn note_due_date(
    transaction: &DatabaseTransaction,
    id: i64,
    due_on: Option<NaiveDate>,
) -> Result<()> {
    for table in ["issues", "merge_requests"] {
        let belonging = Query::select()
            .column("id")
            .from(table)
            .and_where(Expr::col("milestone_id").eq(id))
            .take();
        lock_rows(transaction, table, belonging).await?;
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
async fn record(
    transaction: &DatabaseTransaction,
    place: &SpaceAccess,
    milestone: &Model,
    action: EventAction,
) -> Result<()> {
    let Some(project) = &place.project else {
        return Ok(());
    };
    let event = NewEvent {
        target: Some(EventTarget {
            kind: EventTargetType::Milestone,
            id: milestone.id,
            iid: Some(milestone.iid),
            title: Some(milestone.title.clone()),
        }),
        ..NewEvent::new(project.id, place.caller.signed_in()?.id, action)
    };
    events::record(transaction, event).await
}

fn changed(change: Patch<NaiveDate>, former: Option<NaiveDate>) -> Option<NaiveDate> {
    match change {
        Patch::Keep => former,
        Patch::Clear => None,
        Patch::Set(day) => Some(day),
    }
}

fn check_title(title: &str) -> Result<()> {
    if title.is_empty() {
        return Err(Error::attribute("title", "can't be blank"));
    }
    if title.chars().count() > LONGEST_TITLE {
        return Err(Error::attribute(
            "title",
            "is too long (maximum is 255 characters)",
        ));
    }
    Ok(())
}

/// Refuses a due date before the start date.
///
/// # Errors
/// Returns a validation error if the dates are in the wrong order.
pub(crate) fn check_days(start: Option<NaiveDate>, due: Option<NaiveDate>) -> Result<()> {
    match (start, due) {
        (Some(start), Some(due)) if due < start => {
            Err(Error::attribute("due_date", "must be greater than start date"))
        }
        _ => Ok(()),
    }
}

/// Refuses a title that a milestone of the project or group or of an ancestor group has.
async fn refuse_taken(transaction: &DatabaseTransaction, place: &SpaceAccess, title: &str) -> Result<()> {
    let same = milestones::available(place.scope(), place.namespace.id).filter(Column::Title.eq(title));
    match same.count(transaction).await? {
        0 => Ok(()),
        _ => Err(taken()),
    }
}

fn taken() -> Error {
    Error::attribute(
        "title",
        "already being used for another group or project milestone.",
    )
}

/// Maps the error of an insert.
fn refused(error: DbErr) -> Error {
    match Violation::of(&error) {
        // A concurrent request created the same milestone.
        Some(Violation::Unique(_)) => taken(),
        // The project or group was deleted concurrently.
        Some(Violation::ForeignKey(_)) => Error::not_found(""),
        _ => error.into(),
    }
}
