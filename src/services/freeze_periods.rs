//! Freeze periods of projects (specification 2.10 and 4.9): times in which nothing of a project is to be deployed.

use std::borrow::Cow;
use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, EntityTrait, IntoActiveModel,
    PaginatorTrait, QueryFilter, QuerySelect,
};
use storage::entities::freeze_periods::{self, ActiveModel, Column, Entity, Model};
use storage::entities::{now, projects};

use crate::error::{Error, Result};
use crate::services::Backend;
use crate::services::access::ProjectAccess;
use crate::services::cron::{self, Expression, Recurrence};
use crate::services::kernel::page::{Page, PageRequest};
use crate::services::listing::page_of;
use crate::services::preconditions;

/// How many freeze periods a project may have.
const MOST: u64 = 100;

/// What a caller says of a freeze period; what is absent stays.
#[derive(Debug, Clone, Default)]
pub struct Change {
    /// When the project freezes.
    pub freeze_start: Option<String>,
    /// When it is free again.
    pub freeze_end: Option<String>,
    /// The zone on whose clocks both are read.
    pub cron_timezone: Option<String>,
}

/// A page of a project's freeze periods, the oldest first.
///
/// # Errors
/// Whatever the database reports.
pub async fn list(backend: &Backend, access: &ProjectAccess, page: &PageRequest) -> Result<Page<Model>> {
    let wanted = freeze_periods::of_project(access.project.id);
    page_of(backend.database.read(), wanted, page).await
}

/// One freeze period of a project.
///
/// # Errors
/// 404, also for one of another project.
pub async fn get(backend: &Backend, access: &ProjectAccess, id: i64) -> Result<Model> {
    let found = freeze_periods::of_project(access.project.id).filter(Column::Id.eq(id));
    found.one(backend.database.read()).await?.ok_or_else(missing)
}

/// Makes a freeze period.
///
/// # Errors
/// 400 under each attribute that is no cron expression or time zone, and for more than a project may have.
pub async fn create(backend: &Backend, access: &ProjectAccess, change: Change) -> Result<Model> {
    let project_id = access.project.id;
    let mut row = ActiveModel {
        project_id: Set(project_id),
        created_at: Set(now()),
        ..Default::default()
    };
    apply(&mut row, change)?;
    backend
        .database
        .transaction(async |transaction| {
            // One at a time, so that two cannot both be the last.
            if projects::lock(transaction, project_id).await?.is_none() {
                return Err(Error::not_found("Project"));
            }
            let own = freeze_periods::of_project(project_id);
            if own.count(transaction).await? >= MOST {
                let text = format!("The maximum number of freeze periods ({MOST}) is reached");
                return Err(Error::Refused(text.into()));
            }
            Ok(row.insert(transaction).await?)
        })
        .await
}

/// Changes what is said of a freeze period.
///
/// # Errors
/// 404, and 400 as [`create`].
pub async fn update(backend: &Backend, access: &ProjectAccess, id: i64, change: Change) -> Result<Model> {
    backend
        .database
        .transaction(async |transaction| {
            let mut row = lock(transaction, access, id).await?.into_active_model();
            apply(&mut row, change)?;
            Ok(row.update(transaction).await?)
        })
        .await
}

/// Removes a freeze period.
///
/// # Errors
/// 404, and 412 when it changed after the caller's date.
pub async fn delete(
    backend: &Backend,
    access: &ProjectAccess,
    id: i64,
    unmodified_since: Option<&str>,
) -> Result<()> {
    backend
        .database
        .transaction(async |transaction| {
            let row = lock(transaction, access, id).await?;
            preconditions::unmodified_since(unmodified_since, row.updated_at)?;
            Entity::delete_by_id(id).exec(transaction).await?;
            Ok(())
        })
        .await
}

/// Whether a project is frozen at an instant: whether one of its periods began and has not ended since. The moment of the
/// beginning belongs to the period, that of the end does not.
///
/// # Errors
/// Whatever the database reports.
pub async fn is_frozen(db: &impl ConnectionTrait, project_id: i64, instant: DateTime<Utc>) -> Result<bool> {
    let rows = freeze_periods::of_project(project_id).all(db).await?;
    Ok(rows.iter().any(|row| holds(row, instant)))
}

fn holds(row: &Model, instant: DateTime<Utc>) -> bool {
    let last = |expression: &str| Recurrence::read(expression, &row.cron_timezone)?.last_until(instant);
    // What begins and ends in the same moment has not begun; without a beginning there is nothing to end.
    last(&row.freeze_start) > last(&row.freeze_end)
}

/// Puts what is sent into a row, if all of it is sound.
fn apply(row: &mut ActiveModel, change: Change) -> Result<()> {
    let mut faults = BTreeMap::new();
    let cron = |text: String| (Expression::parse(&text).is_some(), text.trim().to_owned());
    let zone = |name: String| (cron::zone(&name).is_some(), name);
    for (name, column, sent) in [
        (
            "freeze_start",
            &mut row.freeze_start,
            change.freeze_start.map(cron),
        ),
        ("freeze_end", &mut row.freeze_end, change.freeze_end.map(cron)),
        (
            "cron_timezone",
            &mut row.cron_timezone,
            change.cron_timezone.map(zone),
        ),
    ] {
        match sent {
            Some((true, value)) => *column = Set(value),
            Some((false, value)) => {
                faults.insert(Cow::from(name), texts(&value));
            }
            None => {}
        }
    }
    if !faults.is_empty() {
        return Err(Error::InvalidAttributes(faults));
    }
    row.updated_at = Set(now());
    Ok(())
}

/// What is told of a value that is no expression or zone.
fn texts(value: &str) -> Vec<Cow<'static, str>> {
    // Clients of the reference service know the text with the space before it.
    let mut texts = vec![Cow::from(" is invalid syntax")];
    if value.trim().is_empty() {
        texts.push("can't be blank".into());
    }
    texts
}

/// A freeze period of the project, locked until the transaction ends.
async fn lock(db: &impl ConnectionTrait, access: &ProjectAccess, id: i64) -> Result<Model> {
    let found = freeze_periods::of_project(access.project.id).filter(Column::Id.eq(id));
    found.lock_exclusive().one(db).await?.ok_or_else(missing)
}

fn missing() -> Error {
    Error::not_found("")
}
