//! Sharing a project with groups (specification 4.5).

use chrono::NaiveDate;
use sea_orm::{ActiveModelTrait, ActiveValue::Set, ColumnTrait, EntityTrait, ModelTrait, QueryFilter};
use storage::database::Violation;
use storage::entities::{AccessLevel, namespace_ancestors, now, project_shares, unexpired};

use crate::error::{Error, Result};
use crate::services::Backend;
use crate::services::access::{GroupAccess, ProjectAccess};
use crate::services::preconditions::unmodified_since;

/// Gives the members of a group access to a project, each with the own role but at most with `level`.
///
/// # Errors
/// 404 for a group that the caller may not see, 409 for one that has access already, 400 where sharing is locked.
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
        return Err(Error::Refused(text.into()));
    }
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
            // A share that has ended is only waiting to be swept away.
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
            row.insert(transaction)
                .await
                .map_err(|error| match Violation::of(&error) {
                    Some(Violation::Unique(_)) => {
                        Error::Conflict("Group already shared with this group".into())
                    }
                    // The group or the project went away in the meantime.
                    Some(Violation::ForeignKey(_)) => Error::not_found("Group"),
                    _ => error.into(),
                })
        })
        .await
}

/// Takes the access of a group back.
///
/// # Errors
/// 404 when there is none that has not ended, 412 when it changed after the date.
pub async fn unshare(
    backend: &Backend,
    access: &ProjectAccess,
    group_id: i64,
    if_unmodified_since: Option<&str>,
) -> Result<()> {
    let db = backend.database.write();
    let found = project_shares::Entity::find()
        .filter(project_shares::Column::ProjectId.eq(access.project.id))
        .filter(project_shares::Column::GroupId.eq(group_id))
        .filter(unexpired(project_shares::Column::ExpiresAt, now().date_naive()))
        .one(db)
        .await?;
    let share = found.ok_or_else(|| Error::not_found("Group Link"))?;
    unmodified_since(if_unmodified_since, share.updated_at)?;
    share.delete(db).await?;
    Ok(())
}
