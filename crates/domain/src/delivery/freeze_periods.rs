//! Freeze periods of projects: times without deployments.

use std::borrow::Cow;
use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, EntityTrait, IntoActiveModel,
    PaginatorTrait, QueryFilter, QuerySelect,
};
use storage::entities::freeze_periods::{self, ActiveModel, Column, Entity, Model};
use storage::entities::{now, projects, row_changes};

use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::cron::{self, CronExpression, Recurrence};
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::preconditions;
use crate::kernel::query::page_of;

/// Maximum freeze periods of a project.
const MAX_FREEZE_PERIODS: u64 = 100;

/// Attributes to change; absent ones stay.
#[derive(Debug, Clone, Default)]
pub struct FreezePeriodUpdate {
    /// Cron expression of the start.
    pub freeze_start: Option<String>,
    /// Cron expression of the end.
    pub freeze_end: Option<String>,
    /// Time zone of both expressions.
    pub cron_timezone: Option<String>,
}

/// Returns a page of a project's freeze periods, oldest first.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn list(backend: &Backend, access: &ProjectAccess, page: &PageRequest) -> Result<Page<Model>> {
    let query = freeze_periods::of_project(access.project.id);
    page_of(backend.database.read(), query, page).await
}

/// Returns one freeze period of a project.
///
/// # Errors
/// Returns `Error::NotFound` if it does not exist or belongs to another project.
pub async fn get(backend: &Backend, access: &ProjectAccess, id: i64) -> Result<Model> {
    let found = freeze_periods::of_project(access.project.id).filter(Column::Id.eq(id));
    found.one(backend.database.read()).await?.ok_or_else(not_found)
}

/// Creates a freeze period.
///
/// # Errors
/// Returns `Error::InvalidAttributes` if an attribute is not a cron expression or time zone. Returns
/// `Error::Rejected` if the project has `MAX_FREEZE_PERIODS` freeze periods already.
pub async fn create(backend: &Backend, access: &ProjectAccess, change: FreezePeriodUpdate) -> Result<Model> {
    let project_id = access.project.id;
    let at = now();
    let mut row = ActiveModel {
        project_id: Set(project_id),
        created_at: Set(at),
        updated_at: Set(at),
        ..Default::default()
    };
    apply(&mut row, change)?;
    backend
        .database
        .transaction(async |transaction| {
            // The lock serializes inserts, so that concurrent ones cannot exceed the maximum.
            if projects::lock(transaction, project_id).await?.is_none() {
                return Err(Error::not_found("Project"));
            }
            let own = freeze_periods::of_project(project_id);
            if own.count(transaction).await? >= MAX_FREEZE_PERIODS {
                let text = format!("The maximum number of freeze periods ({MAX_FREEZE_PERIODS}) is reached");
                return Err(Error::Rejected(text.into()));
            }
            Ok(row.insert(transaction).await?)
        })
        .await
}

/// Updates a freeze period.
///
/// # Errors
/// Returns `Error::NotFound` if it does not exist. Returns `Error::InvalidAttributes` like [`create`].
pub async fn update(
    backend: &Backend,
    access: &ProjectAccess,
    id: i64,
    change: FreezePeriodUpdate,
) -> Result<Model> {
    backend
        .database
        .transaction(async |transaction| {
            let former = lock(transaction, access, id).await?;
            let mut row = former.clone().into_active_model();
            apply(&mut row, change)?;
            Ok(row_changes::update_if_changed(transaction, &former, row).await?)
        })
        .await
}

/// Deletes a freeze period.
///
/// # Errors
/// Returns `Error::NotFound` if it does not exist. Returns `Error::PreconditionFailed` if it changed after
/// `unmodified_since`.
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
            preconditions::check_unmodified_since(unmodified_since, row.updated_at)?;
            Entity::delete_by_id(id).exec(transaction).await?;
            Ok(())
        })
        .await
}

/// Returns whether a project is frozen at an instant: one of its periods has started and not ended since. A
/// period includes its start and excludes its end.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn is_frozen(db: &impl ConnectionTrait, project_id: i64, instant: DateTime<Utc>) -> Result<bool> {
    let rows = freeze_periods::of_project(project_id).all(db).await?;
    Ok(rows.iter().any(|row| contains(row, instant)))
}

fn contains(row: &Model, instant: DateTime<Utc>) -> bool {
    let last = |expression: &str| Recurrence::parse(expression, &row.cron_timezone)?.last_until(instant);
    // A period that starts and ends at the same moment is empty. Without a start, no period can end.
    last(&row.freeze_start) > last(&row.freeze_end)
}

/// Applies the attributes to a row if all of them are valid.
fn apply(row: &mut ActiveModel, change: FreezePeriodUpdate) -> Result<()> {
    let mut errors = BTreeMap::new();
    let cron = |text: String| (CronExpression::parse(&text).is_some(), text.trim().to_owned());
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
                errors.insert(Cow::from(name), fault_texts(&value));
            }
            None => {}
        }
    }
    if !errors.is_empty() {
        return Err(Error::InvalidAttributes(errors));
    }
    Ok(())
}

/// Returns the errors of an invalid expression or time zone.
fn fault_texts(value: &str) -> Vec<Cow<'static, str>> {
    // Clients of the reference service compare the text, including the leading space.
    let mut texts = vec![Cow::from(" is invalid syntax")];
    if value.trim().is_empty() {
        texts.push("can't be blank".into());
    }
    texts
}

/// Locks a freeze period of the project until the transaction ends.
async fn lock(db: &impl ConnectionTrait, access: &ProjectAccess, id: i64) -> Result<Model> {
    let found = freeze_periods::of_project(access.project.id).filter(Column::Id.eq(id));
    found.lock_exclusive().one(db).await?.ok_or_else(not_found)
}

fn not_found() -> Error {
    Error::not_found("")
}
