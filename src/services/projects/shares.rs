//! Sharing a project with groups (specification 4.5).

use chrono::NaiveDate;
use sea_orm::{ActiveModelTrait, ActiveValue::Set, ColumnTrait, EntityTrait, ModelTrait, QueryFilter};

use crate::database::Violation;
use crate::entities::{AccessLevel, namespace_ancestors, now, project_shares};
use crate::error::{Error, Result};
use crate::services::Backend;
use crate::services::access::{GroupAccess, ProjectAccess};
use crate::services::preconditions::unmodified_since;

/// Gives the members of a group access to a project, each with the own role but at most with `level`.
///
/// # Errors
/// 404 for a group that the caller may not see, 409 for one that has access already, 400 where sharing is locked
/// and for a day that has passed.
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
    if expires_at.is_some_and(|day| day <= now().date_naive()) {
        return Err(Error::attribute("expires_at", "cannot be a date in the past"));
    }
    let db = backend.database.write();
    let group = GroupAccess::find(backend, access.caller.clone(), &group_id.to_string())
        .await?
        .group;
    if access.namespace.share_with_group_lock {
        let text = "The project sharing with group is disabled";
        return Err(Error::Refused(text.into()));
    }
    let above = namespace_ancestors::of(db, access.namespace.id).await?;
    if above.iter().any(|row| row.ancestor_id == group.id) {
        return Err(Error::Conflict(
            "The group has access to the project already".into(),
        ));
    }
    let row = project_shares::ActiveModel {
        project_id: Set(access.project.id),
        group_id: Set(group.id),
        access_level: Set(level),
        expires_at: Set(expires_at),
        created_at: Set(now()),
        updated_at: Set(now()),
        ..Default::default()
    };
    row.insert(db).await.map_err(|error| match Violation::of(&error) {
        Some(Violation::Unique(_)) => Error::Conflict("Group already shared with this group".into()),
        // The group or the project went away in the meantime.
        Some(Violation::ForeignKey(_)) => Error::not_found("Group"),
        _ => error.into(),
    })
}

/// Takes the access of a group back.
///
/// # Errors
/// 404 when there is none, 412 when it changed after the date.
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
        .one(db)
        .await?;
    let share = found.ok_or_else(|| Error::not_found("Group Link"))?;
    unmodified_since(if_unmodified_since, share.updated_at)?;
    share.delete(db).await?;
    Ok(())
}
