//! Creates, updates and deletes pipeline schedules.

use std::borrow::Cow;
use std::collections::BTreeMap;

use sea_orm::{
    ActiveModelTrait, ActiveValue, ActiveValue::Set, EntityTrait, IntoActiveModel, PaginatorTrait,
};
use storage::entities::pipeline_schedules::{self, ActiveModel, Entity, Model};
use storage::entities::{now, row_changes};

use super::{FullScheduleDetail, detail, lock};
use crate::delivery::access::check_can_create;
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::cron::{self, CronExpression, Recurrence};
use crate::kernel::error::{Error, Result};
use crate::kernel::preconditions;
use crate::spaces::projects;

/// Maximum number of schedules of a project.
const MAX_SCHEDULES: u64 = 10;

/// Attributes of a schedule; absent ones are unchanged.
#[derive(Debug, Clone, Default)]
pub struct ScheduleUpdate {
    /// The description.
    pub description: Option<String>,
    /// The branch or tag.
    pub ref_name: Option<String>,
    /// The cron expression.
    pub cron: Option<String>,
    /// The time zone of the cron expression.
    pub cron_timezone: Option<String>,
    /// Whether the schedule is active.
    pub active: Option<bool>,
}

/// Creates a schedule owned by the caller.
///
/// # Errors
/// Returns a validation error for each invalid attribute and beyond the maximum number of schedules. Returns
/// `Forbidden` as [`check_can_create`].
pub async fn create(
    backend: &Backend,
    access: &ProjectAccess,
    change: ScheduleUpdate,
) -> Result<FullScheduleDetail> {
    check_can_create(access)?;
    if change
        .ref_name
        .as_deref()
        .is_none_or(|name| name.trim().is_empty())
    {
        return Err(Error::parameter("ref is empty"));
    }
    let project_id = access.project.id;
    let at = now();
    let mut row = ActiveModel {
        project_id: Set(project_id),
        owner_id: Set(Some(access.caller.signed_in()?.id)),
        created_at: Set(at),
        updated_at: Set(at),
        ..Default::default()
    };
    apply(&mut row, change)?;
    set_next_run(&mut row)?;
    let schedule = backend
        .database
        .transaction(async |transaction| {
            // Lock the project, so that two requests cannot exceed the limit together.
            projects::lock_for_insert(transaction, project_id).await?;
            let own = pipeline_schedules::of_project(project_id);
            if own.count(transaction).await? >= MAX_SCHEDULES {
                let text = format!("Maximum number of ci pipeline schedules ({MAX_SCHEDULES}) exceeded");
                return Err(Error::attribute("base", text));
            }
            Ok(row.insert(transaction).await?)
        })
        .await?;
    detail(backend, schedule).await
}

/// Updates a schedule and recomputes its next run. Writes nothing if no value differs.
///
/// # Errors
/// Returns `NotFound` if the schedule does not exist, a validation error as [`create`], and `Forbidden`
/// unless the caller is its owner or a Maintainer.
pub async fn update(
    backend: &Backend,
    access: &ProjectAccess,
    id: i64,
    change: ScheduleUpdate,
) -> Result<FullScheduleDetail> {
    check_can_create(access)?;
    update_locked(backend, access, id, |row| apply(row, change)).await
}

/// Transfers the ownership of a schedule to the caller.
///
/// # Errors
/// Returns `NotFound` if the schedule does not exist, and `Forbidden` unless the caller is its owner or a
/// Maintainer.
pub async fn take_ownership(
    backend: &Backend,
    access: &ProjectAccess,
    id: i64,
) -> Result<FullScheduleDetail> {
    check_can_create(access)?;
    let user = access.caller.signed_in()?.id;
    update_locked(backend, access, id, |row| {
        row.owner_id = Set(Some(user));
        Ok(())
    })
    .await
}

async fn update_locked(
    backend: &Backend,
    access: &ProjectAccess,
    id: i64,
    change: impl FnOnce(&mut ActiveModel) -> Result<()>,
) -> Result<FullScheduleDetail> {
    let changed = backend
        .database
        .transaction(async |transaction| {
            let former = lock(transaction, access, id).await?;
            let mut row = former.clone().into_active_model();
            change(&mut row)?;
            set_next_run(&mut row)?;
            Ok::<Model, Error>(row_changes::update_if_changed(transaction, &former, row).await?)
        })
        .await?;
    detail(backend, changed).await
}

/// Deletes a schedule with its variables, and returns it.
///
/// # Errors
/// Returns `NotFound` if the schedule does not exist, and `Forbidden` unless the caller is its owner or a
/// Maintainer. Returns `PreconditionFailed` if it was modified after the given date.
pub async fn delete(
    backend: &Backend,
    access: &ProjectAccess,
    id: i64,
    unmodified_since: Option<&str>,
) -> Result<FullScheduleDetail> {
    check_can_create(access)?;
    let was = super::get(backend, access, id).await?;
    backend
        .database
        .transaction(async |transaction| {
            let schedule = lock(transaction, access, id).await?;
            preconditions::check_unmodified_since(unmodified_since, schedule.updated_at)?;
            Entity::delete_by_id(id).exec(transaction).await?;
            Ok::<_, Error>(())
        })
        .await?;
    Ok(was)
}

/// Validates the attributes and applies them to the row.
fn apply(row: &mut ActiveModel, change: ScheduleUpdate) -> Result<()> {
    let mut errors = BTreeMap::new();
    for (name, column, sent) in [
        ("description", &mut row.description, change.description),
        ("ref", &mut row.ref_name, change.ref_name),
    ] {
        match sent {
            Some(text) if text.trim().is_empty() => {
                errors.insert(Cow::from(name), vec![Cow::from("can't be blank")]);
            }
            Some(text) => *column = Set(text),
            None => {}
        }
    }
    let cron = |text: String| (CronExpression::parse(&text).is_some(), text.trim().to_owned());
    let zone = |name: String| (cron::zone(&name).is_some(), name);
    for (name, column, sent) in [
        ("cron", &mut row.cron, change.cron.map(cron)),
        (
            "cron_timezone",
            &mut row.cron_timezone,
            change.cron_timezone.map(zone),
        ),
    ] {
        match sent {
            Some((true, value)) => *column = Set(value),
            Some((false, value)) => {
                // The leading space is part of the text in the reference service.
                let mut texts = vec![Cow::from(" is invalid syntax")];
                if value.trim().is_empty() {
                    texts.push("can't be blank".into());
                }
                errors.insert(Cow::from(name), texts);
            }
            None => {}
        }
    }
    if !errors.is_empty() {
        return Err(Error::InvalidAttributes(errors));
    }
    if let Some(active) = change.active {
        row.active = Set(active);
    }
    Ok(())
}

/// Computes the next run of a valid row.
fn set_next_run(row: &mut ActiveModel) -> Result<()> {
    let next = next_of(&row.cron, &row.cron_timezone);
    row.next_run_at = Set(next.ok_or_else(|| Error::attribute("cron", " is invalid syntax"))?);
    Ok(())
}

fn next_of(cron: &ActiveValue<String>, zone: &ActiveValue<String>) -> Option<chrono::DateTime<chrono::Utc>> {
    let text = |value: &ActiveValue<String>| value.try_as_ref().cloned();
    Recurrence::parse(&text(cron)?, &text(zone)?)?.next_after(now())
}
