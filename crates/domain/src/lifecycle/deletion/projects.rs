//! Deletes projects. A project is hidden at once and deleted by a job.

use chrono::NaiveDate;
use git::RepositoryId;
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, EntityTrait, ExprTrait, QueryFilter};
use storage::entities::{namespaces, now, projects};
use storage::jobs::{self, JobFailure};

use crate::accounts::{project_access_tokens, uploads};
use crate::activity::events::{self, EventAction, NewEvent, project_target};
use crate::audit::{self, Actor, AuditEntity, AuditEvent, AuditKind};
use crate::code::deploy_keys;
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::preconditions::check_unmodified_since;
use crate::lifecycle::deletion::delay::deletion_delay;
use crate::lifecycle::deletion::rows::{self, RowOwner};
use crate::packages;
use crate::registry::repositories;
use crate::spaces::jobs::delete_project::DeleteProject;

/// Starts the deletion of a project, or schedules it if the plan and the instance settings delay deletions.
///
/// # Errors
/// Returns `PreconditionFailed` if the project was modified after the given date.
pub async fn delete(
    backend: &Backend,
    access: &ProjectAccess,
    if_unmodified_since: Option<&str>,
) -> Result<()> {
    check_unmodified_since(if_unmodified_since, access.project.updated_at)?;
    let project_id = access.project.id;
    let delay = deletion_delay(backend).await?;
    let user_id = access.caller.as_user().map(|user| user.id);
    backend
        .database
        .transaction(async |transaction| {
            let update = projects::Entity::update_many().filter(projects::Column::Id.eq(project_id));
            let (update, marked_on, due) = match delay {
                None => {
                    let hidden = update
                        .col_expr(projects::Column::DeletionStartedAt, Expr::value(now()))
                        .filter(projects::Column::DeletionStartedAt.is_null());
                    (hidden, None, now())
                }
                Some(days) => {
                    let today = now().date_naive();
                    let marked = update
                        .col_expr(projects::Column::MarkedForDeletionOn, Expr::value(today))
                        .filter(projects::Column::MarkedForDeletionOn.is_null());
                    (marked, Some(today), now() + days)
                }
            };
            if update.exec(transaction).await?.rows_affected == 0 {
                // A concurrent request started the deletion.
                return Ok(());
            }
            let kind = match marked_on {
                None => AuditKind::ProjectDeleted,
                Some(_) => AuditKind::ProjectDeletionScheduled,
            };
            let audited = AuditEvent::of(kind, access.audit_entity());
            audit::record(transaction, &access.caller, audited).await?;
            if marked_on.is_none() {
                events::record(transaction, deletion_event(&access.project, user_id)).await?;
            }
            let job = DeleteProject {
                project_id,
                marked_on,
                user_id,
            };
            jobs::enqueue_at(transaction, &job, due)
                .await
                .map_err(Error::internal)
        })
        .await
}

/// Returns the event of a deletion, which outlives the project.
fn deletion_event(project: &projects::Model, user_id: Option<i64>) -> NewEvent {
    NewEvent {
        project_id: None,
        author_id: user_id,
        action: EventAction::Destroyed,
        target: Some(project_target(project)),
        data: None,
        webhook_target: None,
    }
}

/// Cancels the scheduled deletion of a project, with its job. A job that is already running finds no scheduled deletion
/// and does not delete the project.
///
/// # Errors
/// Returns `NotFound` if the deletion has started.
pub async fn restore(backend: &Backend, access: ProjectAccess) -> Result<ProjectAccess> {
    if access.project.marked_for_deletion_on.is_none() {
        return Ok(access);
    }
    let project = backend
        .database
        .transaction(async |transaction| {
            let restored = projects::Entity::update_many()
                .col_expr(
                    projects::Column::MarkedForDeletionOn,
                    Expr::value(None::<NaiveDate>),
                )
                .col_expr(projects::Column::UpdatedAt, Expr::value(now()))
                .filter(projects::Column::Id.eq(access.project.id))
                .filter(projects::Column::DeletionStartedAt.is_null())
                .exec(transaction)
                .await?;
            let project = projects::not_deleted()
                .filter(projects::Column::Id.eq(access.project.id))
                .one(transaction)
                .await?
                .filter(|_| restored.rows_affected > 0)
                .ok_or_else(|| Error::not_found("Project"))?;
            // The job would delete the project too early if the deletion is scheduled again on the same day.
            let job = DeleteProject {
                project_id: access.project.id,
                marked_on: access.project.marked_for_deletion_on,
                user_id: None,
            };
            jobs::cancel(transaction, &job).await?;
            let event = AuditEvent::of(AuditKind::ProjectRestored, access.audit_entity());
            audit::record(transaction, &access.caller, event).await?;
            Ok::<_, Error>(project)
        })
        .await?;
    Ok(ProjectAccess { project, ..access })
}

/// Deletes a project whose deletion has started, or was scheduled on `marked_on` and is due, on behalf of
/// `user_id`. Resumes an interrupted attempt.
///
/// # Errors
/// Returns an error if a database query or a file operation fails.
pub async fn delete_permanently(
    backend: &Backend,
    project_id: i64,
    marked_on: Option<NaiveDate>,
    user_id: Option<i64>,
) -> Result<()> {
    if let Some(day) = marked_on {
        backend
            .database
            .transaction(async |transaction| {
                let started = projects::Entity::update_many()
                    .col_expr(projects::Column::DeletionStartedAt, Expr::value(now()))
                    .filter(projects::Column::Id.eq(project_id))
                    .filter(projects::Column::MarkedForDeletionOn.eq(day))
                    .filter(projects::Column::DeletionStartedAt.is_null());
                if started.exec(transaction).await?.rows_affected > 0
                    && let Some((project, Some(namespace))) = projects::Entity::find_by_id(project_id)
                        .find_also_related(namespaces::Entity)
                        .one(transaction)
                        .await?
                {
                    let entity = AuditEntity::project(&namespace, &project);
                    let event = AuditEvent::of(AuditKind::ProjectDeleted, entity);
                    audit::record(transaction, Actor::system(), event).await?;
                    events::record(transaction, deletion_event(&project, user_id)).await?;
                }
                Ok::<_, Error>(())
            })
            .await?;
    }
    let db = backend.database.write();
    match projects::Entity::find_by_id(project_id).one(db).await? {
        Some(project) if project.deletion_started_at.is_some() => delete_with_files(backend, &project).await,
        // The project was restored concurrently.
        Some(_) => Ok(()),
        None => delete_files(backend, project_id).await,
    }
}

/// Deletes the repository, the uploads and the avatar of a project.
async fn delete_files(backend: &Backend, project_id: i64) -> Result<()> {
    let id = RepositoryId::of_project(project_id);
    backend.repositories.remove(&id).await?;
    uploads::remove_all(backend, project_id).await
}

/// Deletes a project in any state, with all rows that reference it. Files are deleted before rows: a later attempt
/// finds a row without files, but not files without a row. They are deleted again after the rows, because a fork or an
/// upload that had started can store files meanwhile. A job does this if the server is killed, because the deletion of
/// a group no longer finds the project.
///
/// # Errors
/// Returns an error if a database query or a file operation fails.
pub async fn delete_with_files(backend: &Backend, project: &projects::Model) -> Result<()> {
    delete_files(backend, project.id).await?;
    // Deleted in steps, because a cascade from the row of the project is one statement that blocks all writers.
    repositories::delete_all_content(backend, project.id).await?;
    packages::deletion::delete_all(backend, project.id).await?;
    rows::delete_all(backend, RowOwner::Project(project.id)).await?;
    project_access_tokens::delete_bots_of_project(backend, project.id).await?;
    backend
        .database
        .transaction(async |transaction| {
            namespaces::clear_file_template_project(transaction, project.id).await?;
            deploy_keys::remove_all(transaction, project.id).await?;
            let deleted = projects::Entity::delete_by_id(project.id)
                .exec(transaction)
                .await?;
            if let Some(source) = project.forked_from_id.filter(|_| deleted.rows_affected > 0) {
                projects::Entity::update_many()
                    .col_expr(
                        projects::Column::ForksCount,
                        Expr::col(projects::Column::ForksCount).sub(1),
                    )
                    .filter(projects::Column::Id.eq(source))
                    .filter(projects::Column::ForksCount.gt(0))
                    .exec(transaction)
                    .await?;
            }
            let job = DeleteProject {
                project_id: project.id,
                marked_on: None,
                user_id: None,
            };
            jobs::enqueue(transaction, &job).await.map_err(Error::internal)
        })
        .await?;
    delete_files(backend, project.id).await
}

/// Runs the job. It can be interrupted at any point and run again.
///
/// # Errors
/// Returns an error if the file system or the database fails; the job is then retried.
pub async fn run_job(backend: Backend, job: DeleteProject) -> Result<(), JobFailure> {
    Ok(delete_permanently(&backend, job.project_id, job.marked_on, job.user_id).await?)
}
