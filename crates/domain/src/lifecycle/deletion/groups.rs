//! Deletes groups. A group and its contents are hidden at once and deleted by a job.

use chrono::NaiveDate;
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};
use storage::entities::{namespaces, now};
use storage::jobs::{self, JobFailure};

use crate::audit::{self, Actor, AuditEntity, AuditEvent, AuditKind};
use crate::identity::access::GroupAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::preconditions::check_unmodified_since;
use crate::lifecycle::deletion::delay::deletion_delay;
use crate::lifecycle::deletion::namespaces::delete_tree;
use crate::lifecycle::jobs::delete_group::DeleteGroup;

/// Starts the deletion of a group, or schedules it if the plan and the instance settings delay deletions.
///
/// # Errors
/// Returns `Error::PreconditionFailed` if the group changed after `if_unmodified_since`.
pub async fn delete(
    backend: &Backend,
    access: &GroupAccess,
    if_unmodified_since: Option<&str>,
) -> Result<()> {
    check_unmodified_since(if_unmodified_since, access.group.updated_at)?;
    let group_id = access.group.id;
    let delay = deletion_delay(backend).await?;
    backend
        .database
        .transaction(async |transaction| {
            let (started, marked_on, due) = match delay {
                None => (namespaces::hide(transaction, group_id).await?, None, now()),
                Some(days) => {
                    let today = now().date_naive();
                    let marked = namespaces::Entity::update_many()
                        .col_expr(namespaces::Column::MarkedForDeletionOn, Expr::value(today))
                        .filter(namespaces::Column::Id.eq(group_id))
                        .filter(namespaces::Column::MarkedForDeletionOn.is_null())
                        .exec(transaction)
                        .await?;
                    (marked.rows_affected > 0, Some(today), now() + days)
                }
            };
            if !started {
                // A concurrent request started the deletion.
                return Ok(());
            }
            let kind = match marked_on {
                None => AuditKind::GroupDeleted,
                Some(_) => AuditKind::GroupDeletionScheduled,
            };
            let event = AuditEvent::of(kind, access.audit_entity());
            audit::record(transaction, &access.caller, event).await?;
            let job = DeleteGroup { group_id, marked_on };
            jobs::enqueue_at(transaction, &job, due)
                .await
                .map_err(Error::internal)
        })
        .await
}

/// Cancels the scheduled deletion of a group, with its job. Does nothing if none is scheduled.
///
/// # Errors
/// Returns `Error::NotFound` if the deletion has started.
pub async fn restore(backend: &Backend, access: GroupAccess) -> Result<GroupAccess> {
    if access.group.marked_for_deletion_on.is_none() {
        return Ok(access);
    }
    let group = backend
        .database
        .transaction(async |transaction| {
            let restored = namespaces::Entity::update_many()
                .col_expr(
                    namespaces::Column::MarkedForDeletionOn,
                    Expr::value(None::<NaiveDate>),
                )
                .col_expr(namespaces::Column::UpdatedAt, Expr::value(now()))
                .filter(namespaces::Column::Id.eq(access.group.id))
                .filter(namespaces::Column::DeletionStartedAt.is_null())
                .exec(transaction)
                .await?;
            let group = namespaces::not_deleted()
                .filter(namespaces::Column::Id.eq(access.group.id))
                .one(transaction)
                .await?
                .filter(|_| restored.rows_affected > 0)
                .ok_or_else(|| Error::not_found("Group"))?;
            // The job would delete the group too early if the deletion is scheduled again on the same day.
            let job = DeleteGroup {
                group_id: access.group.id,
                marked_on: access.group.marked_for_deletion_on,
            };
            jobs::cancel(transaction, &job).await?;
            let event = AuditEvent::of(AuditKind::GroupRestored, access.audit_entity());
            audit::record(transaction, &access.caller, event).await?;
            Ok::<_, Error>(group)
        })
        .await?;
    Ok(GroupAccess { group, ..access })
}

/// Deletes a group whose deletion has started, or was scheduled on `marked_on` and is due, with its contents.
/// Resumes an interrupted attempt.
///
/// # Errors
/// Returns an error if the database or the file system fails.
pub async fn delete_permanently(
    backend: &Backend,
    group_id: i64,
    marked_on: Option<NaiveDate>,
) -> Result<()> {
    let group = || namespaces::Entity::find_by_id(group_id);
    if let Some(day) = marked_on {
        backend
            .database
            .transaction(async |transaction| {
                let marked = group()
                    .filter(namespaces::Column::MarkedForDeletionOn.eq(day))
                    .one(transaction)
                    .await?;
                match marked {
                    Some(group) if namespaces::hide(transaction, group_id).await? => {
                        let event = AuditEvent::of(AuditKind::GroupDeleted, AuditEntity::namespace(&group));
                        audit::record(transaction, Actor::system(), event).await
                    }
                    Some(_) | None => Ok(()),
                }
            })
            .await?;
    }
    let hidden = group()
        .filter(namespaces::Column::DeletionStartedAt.is_not_null())
        .one(backend.database.read())
        .await?;
    match hidden {
        Some(group) => delete_tree(backend, group.id).await,
        // The deletion was canceled concurrently, or the group is already deleted.
        None => Ok(()),
    }
}

/// Runs the job. It can be interrupted at any point and run again.
///
/// # Errors
/// Returns an error if the file system or the database fails; the job is then retried.
pub async fn run_job(backend: Backend, job: DeleteGroup) -> Result<(), JobFailure> {
    Ok(delete_permanently(&backend, job.group_id, job.marked_on).await?)
}
