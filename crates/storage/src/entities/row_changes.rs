//! Updates of rows that write nothing if no value differs.

use chrono::{DateTime, Utc};
use sea_orm::{
    ActiveModelBehavior, ActiveModelTrait, ActiveValue, ConnectionTrait, DbErr, EntityTrait, IntoActiveModel,
    Iterable, ModelTrait,
};

use super::now;

/// Changed row of a table that stores when a row was last changed.
pub trait TimestampedRow: ActiveModelTrait + ActiveModelBehavior + Send {
    /// Returns the column with the time of the last change.
    fn updated_at(&mut self) -> &mut ActiveValue<DateTime<Utc>>;
}

/// Implements [`TimestampedRow`] for the rows of tables.
macro_rules! timestamped_rows {
    ($($table:ident),* $(,)?) => {
        $(
            impl TimestampedRow for super::$table::ActiveModel {
                fn updated_at(&mut self) -> &mut ActiveValue<DateTime<Utc>> {
                    &mut self.updated_at
                }
            }
        )*
    };
}

timestamped_rows!(
    approval_rules,
    badges,
    boards,
    ci_variables,
    deploy_keys,
    environments,
    epics,
    feature_flag_user_lists,
    feature_flags,
    feature_flags_clients,
    feature_gates,
    freeze_periods,
    group_protected_branches,
    issues,
    labels,
    members,
    merge_requests,
    milestones,
    namespaces,
    notes,
    package_protection_rules,
    pipeline_schedule_variables,
    pipeline_schedules,
    pipeline_triggers,
    pipelines,
    project_deploy_keys,
    project_hooks,
    projects,
    protected_branches,
    push_rules,
    release_links,
    releases,
    remote_mirrors,
    saml_providers,
    snippets,
    status_checks,
    users,
);

/// Returns whether a column is set to another value than the stored one. `ActiveModelTrait::is_changed` returns
/// true for equal values too.
pub fn is_changed<A>(row: &A, stored: &<A::Entity as EntityTrait>::Model) -> bool
where
    A: ActiveModelTrait,
{
    <A::Entity as EntityTrait>::Column::iter().any(|column| match row.get(column) {
        ActiveValue::Set(value) => value != stored.get(column),
        ActiveValue::Unchanged(_) | ActiveValue::NotSet => false,
    })
}

/// Updates a row, with the current time as the time of the change, if a column is set to another value than the
/// stored one. Otherwise returns the stored row and writes nothing.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn update_if_changed<A>(
    db: &impl ConnectionTrait,
    stored: &<A::Entity as EntityTrait>::Model,
    mut row: A,
) -> Result<<A::Entity as EntityTrait>::Model, DbErr>
where
    A: TimestampedRow,
    <A::Entity as EntityTrait>::Model: IntoActiveModel<A> + Sync,
{
    if !is_changed(&row, stored) {
        return Ok(stored.clone());
    }
    *row.updated_at() = ActiveValue::Set(now());
    row.update(db).await
}
