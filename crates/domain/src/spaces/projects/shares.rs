//! Shares of projects with groups.

use chrono::NaiveDate;
use sea_orm::{ActiveModelTrait, ActiveValue::Set, ColumnTrait, EntityTrait, ModelTrait, QueryFilter};
use storage::database::Violation;
use storage::entities::{AccessLevel, namespace_ancestors, namespaces, now, project_shares, unexpired};

use crate::audit::{self, AuditKind, AuditTarget};
use crate::identity::access::{GroupAccess, ProjectAccess};
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::preconditions::check_unmodified_since;
use crate::spaces::members::shares;

/// Shares a project with a group. Its members get their own role, limited to `level`.
///
/// # Errors
/// Returns `NotFound` if the group is not visible to the caller, `Conflict` if it is shared already, and a
/// validation error if sharing is locked.
pub async fn share(
    backend: &Backend,
    access: &ProjectAccess,
    group_id: i64,
    level: i64,
    expires_at: Option<NaiveDate>,
) -> Result<project_shares::Model> {
    let level = i32::try_from(level)
        .ok()
        .and_then(|level| AccessLevel::try_from(level).ok())
        .filter(|level| *level <= AccessLevel::Maintainer)
        .ok_or_else(|| Error::attribute("group_access", "is not included in the list"))?;
    let group = GroupAccess::find(backend, access.caller.clone(), &group_id.to_string())
        .await?
        .group;
    if access.namespace.share_with_group_lock {
        let text = "The project sharing with group is disabled";
        return Err(Error::Rejected(text.into()));
    }
    let event = shares::added(
        AuditKind::ProjectShared,
        access.audit_entity(),
        &group,
        level,
        expires_at,
    );
    let (project_id, group_id) = (access.project.id, group.id);
    backend
        .database
        .transaction(async |transaction| {
            let above = namespace_ancestors::of(transaction, access.namespace.id).await?;
            if above.iter().any(|row| row.ancestor_id == group_id) {
                return Err(Error::Conflict(
                    "The group already has access to the project".into(),
                ));
            }
            // An expired share only waits for the sweep.
            project_shares::Entity::delete_many()
                .filter(project_shares::Column::ProjectId.eq(project_id))
                .filter(project_shares::Column::GroupId.eq(group_id))
                .filter(project_shares::Column::ExpiresAt.lte(now().date_naive()))
                .exec(transaction)
                .await?;
            let at = now();
            let row = project_shares::ActiveModel {
                project_id: Set(project_id),
                group_id: Set(group_id),
                access_level: Set(level),
                expires_at: Set(expires_at),
                created_at: Set(at),
                updated_at: Set(at),
                ..Default::default()
            };
            let share = row
                .insert(transaction)
                .await
                .map_err(|error| match Violation::of(&error) {
                    Some(Violation::Unique(_)) => {
                        Error::Conflict("Group already shared with this group".into())
                    }
                    // The group or the project was deleted concurrently.
                    Some(Violation::ForeignKey(_)) => Error::not_found("Group"),
                    _ => error.into(),
                })?;
            audit::record(transaction, &access.caller, event).await?;
            Ok(share)
        })
        .await
}

/// Deletes the share of a group.
///
/// # Errors
/// Returns `NotFound` if no unexpired share exists, or `PreconditionFailed` if it was modified after the
/// given date.
pub async fn unshare(
    backend: &Backend,
    access: &ProjectAccess,
    group_id: i64,
    if_unmodified_since: Option<&str>,
) -> Result<()> {
    backend
        .database
        .transaction(async |transaction| {
            let found = project_shares::Entity::find()
                .filter(project_shares::Column::ProjectId.eq(access.project.id))
                .filter(project_shares::Column::GroupId.eq(group_id))
                .filter(unexpired(project_shares::Column::ExpiresAt, now().date_naive()))
                .find_also_related(namespaces::Entity)
                .one(transaction)
                .await?;
            let (share, group) = found.ok_or_else(|| Error::not_found("Group Link"))?;
            check_unmodified_since(if_unmodified_since, share.updated_at)?;
            let (level, ends) = (share.access_level, share.expires_at);
            if share.delete(transaction).await?.rows_affected == 0 {
                return Err(Error::not_found("Group Link"));
            }
            let group = group.ok_or_else(|| Error::not_found("Group Link"))?;
            let group = AuditTarget::group(&group);
            let event = shares::removed(
                AuditKind::ProjectUnshared,
                access.audit_entity(),
                group,
                level,
                ends,
            );
            audit::record(transaction, &access.caller, event).await
        })
        .await
}
