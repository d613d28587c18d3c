//! Milestones made, changed and deleted.

use chrono::NaiveDate;
use sea_orm::sea_query::{Expr, Query};
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseTransaction, DbErr,
    EntityTrait, ExprTrait, IntoActiveModel, PaginatorTrait, QueryFilter,
};
use storage::database::Violation;
use storage::entities::iid_counters::{self, Subject};
use storage::entities::milestones::{self, ActiveModel, Column, Entity, Model, State};
use storage::entities::now;

use super::{Row, here, lock};
use crate::error::{Error, Result};
use crate::services::Backend;
use crate::services::events::{self, Action, NewEvent, Target, TargetType};
use crate::services::kernel::patch::Patch;
use crate::services::notes::lock_all;
use crate::services::places::Place;
use crate::services::preconditions;

/// The most characters of a title.
const LONGEST_TITLE: usize = 255;

/// What a new milestone is to be.
#[derive(Debug, Clone)]
pub struct NewMilestone {
    /// The title.
    pub title: String,
    /// What is to be reached.
    pub description: Option<String>,
    /// The day it begins.
    pub start_date: Option<NaiveDate>,
    /// The day it is to be reached.
    pub due_date: Option<NaiveDate>,
}

/// What is to happen to a milestone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateEvent {
    /// It is worked on no more.
    Close,
    /// It is worked on again.
    Activate,
}

/// What is to change of a milestone.
#[derive(Debug, Clone)]
pub struct Change {
    /// The new title.
    pub title: Option<String>,
    /// What is to be reached.
    pub description: Patch<String>,
    /// The day it begins.
    pub start_date: Patch<NaiveDate>,
    /// The day it is to be reached.
    pub due_date: Patch<NaiveDate>,
    /// What is to happen to it.
    pub state_event: Option<StateEvent>,
}

/// Makes a milestone.
///
/// # Errors
/// 400 for a title that does not do or is taken, and for days in the wrong order.
pub async fn create(backend: &Backend, place: &Place, new: NewMilestone) -> Result<Row> {
    place.admit_to_planning()?;
    let made = checked(new)?;
    backend
        .database
        .transaction(async |transaction| {
            refuse_taken(transaction, place, made.title.as_ref()).await?;
            let made = insert(transaction, place, made).await?;
            record(transaction, place, &made, Action::Created).await?;
            Ok(here(place, made))
        })
        .await
}

/// The row of a milestone that does, without its place and its number.
///
/// # Errors
/// 400 for a title that does not do, and for days in the wrong order.
pub(in crate::services) fn checked(new: NewMilestone) -> Result<ActiveModel> {
    let title = new.title.trim().to_owned();
    check_title(&title)?;
    check_days(new.start_date, new.due_date)?;
    Ok(ActiveModel {
        title: Set(title),
        description: Set(new.description.filter(|text| !text.is_empty())),
        start_date: Set(new.start_date),
        due_date: Set(new.due_date),
        state: Set(State::Active),
        ..Default::default()
    })
}

/// Enters a milestone of a place under its next number.
pub(super) async fn insert(
    transaction: &DatabaseTransaction,
    place: &Place,
    row: ActiveModel,
) -> Result<Model> {
    let scope = place.scope();
    let iid = iid_counters::next(transaction, scope, Subject::Milestones).await;
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

/// Changes a milestone.
///
/// # Errors
/// As [`create`], and 404, and 400 when nothing is to change.
pub async fn update(backend: &Backend, place: &Place, id: i64, change: Change) -> Result<Row> {
    place.admit_to_planning()?;
    let nothing = change.title.is_none()
        && change.description.is_keep()
        && change.start_date.is_keep()
        && change.due_date.is_keep()
        && change.state_event.is_none();
    if nothing {
        let known = ["title", "description", "start_date", "due_date", "state_event"];
        return Err(Error::nothing_sent(&known));
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
                (Some(StateEvent::Close), State::Active) => Some((State::Closed, Action::Closed)),
                (Some(StateEvent::Activate), State::Closed) => Some((State::Active, Action::Reopened)),
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

/// Deletes a milestone; what belongs to it stays without.
///
/// # Errors
/// 404, and 412 when it changed after the caller's date.
pub async fn delete(backend: &Backend, place: &Place, id: i64, unmodified_since: Option<&str>) -> Result<()> {
    place.admit_to_planning()?;
    backend
        .database
        .transaction(async |transaction| {
            let milestone = lock(transaction, place, id).await?;
            preconditions::unmodified_since(unmodified_since, milestone.updated_at)?;
            // While it is still known what belongs to it.
            note_due_date(transaction, id, None).await?;
            Entity::delete_by_id(id).exec(transaction).await?;
            record(transaction, place, &milestone, Action::Destroyed).await
        })
        .await
}

/// Tells what belongs to a milestone when that is due, by which lists are ordered: one statement a table.
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
        lock_all(transaction, table, belonging).await?;
        let update = Query::update()
            .table(table)
            .value("milestone_due_on", due_on)
            .and_where(Expr::col("milestone_id").eq(id))
            .take();
        transaction.execute(&update).await?;
    }
    Ok(())
}

/// Records what happened to a milestone of a project; groups have no record.
async fn record(
    transaction: &DatabaseTransaction,
    place: &Place,
    milestone: &Model,
    action: Action,
) -> Result<()> {
    let Some(project) = &place.project else {
        return Ok(());
    };
    let event = NewEvent {
        target: Some(Target {
            kind: TargetType::Milestone,
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

/// Refuses days in the wrong order.
///
/// # Errors
/// 400.
pub(in crate::services) fn check_days(start: Option<NaiveDate>, due: Option<NaiveDate>) -> Result<()> {
    match (start, due) {
        (Some(start), Some(due)) if due < start => {
            Err(Error::attribute("due_date", "must be greater than start date"))
        }
        _ => Ok(()),
    }
}

/// Refuses a title that a milestone of the place or of a group above has.
async fn refuse_taken(transaction: &DatabaseTransaction, place: &Place, title: &str) -> Result<()> {
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

/// Why a row was not written.
fn refused(error: DbErr) -> Error {
    match Violation::of(&error) {
        // Somebody else made it at the same time.
        Some(Violation::Unique(_)) => taken(),
        // The place went away in the meantime.
        Some(Violation::ForeignKey(_)) => Error::not_found(""),
        _ => error.into(),
    }
}
