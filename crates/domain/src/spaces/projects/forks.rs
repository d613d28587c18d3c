//! Forks of projects.

use super::{auditing, imports};
use crate::audit;
use futures_util::TryStreamExt;
use git::RepositoryId;
use sea_orm::sea_query::Expr;
use sea_orm::{ActiveValue::Set, ColumnTrait, DatabaseTransaction, EntityTrait, ExprTrait, QueryFilter};
use storage::entities::namespaces::{self, NamespaceKind};
use storage::entities::projects::{self, Column, ImportStatus};
use storage::entities::{Visibility, now, project_topics, ref_updates};
use storage::jobs::{self, JobAttempt, JobFailure};
use tokio::io::{AsyncSeekExt, AsyncWriteExt};

use super::create::{
    add_maintainer, check_available, check_names, insert, new_row, personal_namespace, target_id,
    target_namespace,
};
use super::settings::replace_topics;
use crate::accounts::avatars;
use crate::accounts::uploads::UploadedFile;
use crate::code::ref_updates::{UpdateAuthority, update_refs};
use crate::code::repository_access::ensure_repository;
use crate::identity::access::ProjectAccess;
use crate::instance::settings;
use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::download::DownloadContent;
use crate::kernel::error::{Error, Result};
use crate::kernel::patch::Patch;
use crate::kernel::ref_changes::{RefChange, RefUpdate};
use crate::kernel::settings::InstanceSettings;
use crate::spaces::jobs::fork_repository::ForkRepository;

/// Attributes of a new fork.
#[derive(Debug, Clone, Default)]
pub struct NewFork {
    /// ID or full path of the namespace; the caller's own by default.
    pub namespace: Option<String>,
    /// The name; by default that of the source.
    pub name: Option<String>,
    /// The last part of the path; by default that of the source.
    pub path: Option<String>,
    /// The description; by default that of the source.
    pub description: Patch<String>,
    /// The visibility; by default that of the source, limited by the namespace.
    pub visibility: Option<Visibility>,
}

/// Inserts the row of a fork and enqueues a job that copies the repository.
///
/// # Errors
/// Returns `NotFound` if the caller cannot fork the project, or cannot create projects in the namespace.
/// Returns `Conflict` for a name or path that is taken, and a validation error for invalid attributes.
pub async fn fork(backend: &Backend, access: &ProjectAccess, new: NewFork) -> Result<ProjectAccess> {
    check_can_fork(access)?;
    let (caller, source) = (&access.caller, &access.project);
    let user = caller.signed_in()?.clone();
    let name = new.name.unwrap_or_else(|| source.name.clone());
    let path = new.path.unwrap_or_else(|| source.path.clone());
    check_names(Some(&name), Some(&path))?;
    let namespace_id = match new.namespace.filter(|text| !text.is_empty()) {
        Some(reference) => target_id(backend, &reference).await?,
        None => personal_namespace(backend, user.id).await?,
    };
    let mut row = new_row(name.clone(), path.clone(), source.visibility, Some(user.id));
    row.forked_from_id = Set(Some(source.id));
    row.import_status = Set(ImportStatus::Scheduled);
    copy_settings(&mut row, source);
    row.description = Set(match new.description {
        Patch::Keep => source.description.clone(),
        Patch::Clear => None,
        Patch::Set(text) => Some(text),
    });
    let in_force = settings::get(backend).await?;
    let (requested, source_id, maximum) = (new.visibility, source.id, source.visibility);
    let project = backend
        .database
        .transaction(async |transaction| {
            let namespace = target_namespace(transaction, caller, &user, namespace_id).await?;
            row.namespace_id = Set(namespace.id);
            row.visibility = Set(visibility(&in_force, caller, &namespace, maximum, requested)?);
            check_available(transaction, &namespace, Some(&name), Some(&path))
                .await
                .map_err(map_taken)?;
            let project = insert(backend, transaction, &namespace, row).await?;
            let topics = project_topics::of_projects(transaction, [source_id]).await?;
            let topics = topics.into_values().flatten().collect();
            replace_topics(transaction, project.id, topics).await?;
            let maintainer = add_maintainer(transaction, &namespace, &project, &user).await?;
            let audited = auditing::created(&namespace, &project, maintainer.as_ref());
            audit::record_all(transaction, caller, audited).await?;
            add_to_fork_count(transaction, source_id, 1).await?;
            let job = ForkRepository {
                project_id: project.id,
                source_id,
                user_id: Some(user.id),
            };
            jobs::enqueue(transaction, &job).await.map_err(Error::internal)?;
            Ok::<_, Error>(project)
        })
        .await?;
    let fork = ProjectAccess::find(backend, caller.clone(), &project.id.to_string()).await?;
    match copy_avatar(backend, access, &fork).await {
        Ok(Some(pictured)) => Ok(pictured),
        Ok(None) => Ok(fork),
        Err(error) => {
            // The fork exists, and an avatar is not essential.
            tracing::warn!(project = project.id, %error, "failed to copy the avatar to a fork");
            Ok(fork)
        }
    }
}

/// Copies the settings of the source that concern code and features. Members, mirroring and notifications are
/// not copied.
fn copy_settings(fork: &mut projects::ActiveModel, source: &projects::Model) {
    macro_rules! copy_repository {
        ($($field:ident),* $(,)?) => {$( fork.$field = Set(source.$field.clone()); )*};
    }
    copy_repository!(
        repository_access_level,
        issues_access_level,
        merge_requests_access_level,
        wiki_access_level,
        builds_access_level,
        snippets_access_level,
        container_registry_access_level,
        package_registry_access_level,
        releases_access_level,
        environments_access_level,
        feature_flags_access_level,
        infrastructure_access_level,
        monitor_access_level,
        security_and_compliance_access_level,
        forking_access_level,
        pages_access_level,
        merge_method,
        squash_option,
        public_jobs,
        shared_runners_enabled,
        lfs_enabled,
        auto_devops_enabled,
        auto_devops_deploy_strategy,
        auto_cancel_pending_pipelines,
        ci_config_path,
        ci_default_git_depth,
        build_git_strategy,
        build_timeout,
        build_coverage_regex,
        only_allow_merge_if_pipeline_succeeds,
        only_allow_merge_if_all_discussions_are_resolved,
        only_allow_merge_if_all_status_checks_passed,
        allow_merge_on_skipped_pipeline,
        resolve_outdated_diff_discussions,
        remove_source_branch_after_merge,
        printing_merge_request_link_enabled,
        autoclose_referenced_issues,
        suggestion_commit_message,
        issues_template,
        merge_requests_template,
        external_authorization_classification_label,
    );
}

/// Copies the avatar of the source, if any.
async fn copy_avatar(
    backend: &Backend,
    source: &ProjectAccess,
    fork: &ProjectAccess,
) -> Result<Option<ProjectAccess>> {
    let Some(file_name) = source.project.avatar.clone() else {
        return Ok(None);
    };
    let DownloadContent::Seekable { size, open } = avatars::open(backend, source, &file_name).await?.content
    else {
        return Ok(None);
    };
    let mut file = tokio::fs::File::from_std(backend.objects.spool().map_err(Error::internal)?);
    let mut pieces = open(0, size);
    while let Some(piece) = pieces.try_next().await.map_err(Error::internal)? {
        file.write_all(&piece).await.map_err(Error::internal)?;
    }
    file.rewind().await.map_err(Error::internal)?;
    let picture = UploadedFile {
        file_name,
        size,
        file,
    };
    let picture = avatars::validate(Some(picture)).await?;
    avatars::set(backend, fork.clone(), picture).await.map(Some)
}

/// Checks that the caller can fork: they must be able to read the code, and forking must be enabled.
fn check_can_fork(access: &ProjectAccess) -> Result<()> {
    let open = access
        .effective_access()
        .has_feature(access.project.forking_access_level);
    if open && access.caller.is_signed_in() && access.can_read_code() {
        Ok(())
    } else {
        Err(Error::not_found(""))
    }
}

/// Returns the visibility of a fork, limited by that of its source and by what the instance allows the
/// caller.
fn visibility(
    in_force: &InstanceSettings,
    caller: &Caller,
    namespace: &namespaces::Model,
    source: Visibility,
    requested: Option<Visibility>,
) -> Result<Visibility> {
    let maximum = match namespace.kind {
        NamespaceKind::User => source,
        NamespaceKind::Group => Ord::min(source, namespace.visibility),
    };
    if let Some(requested) = requested {
        if requested > maximum {
            return Err(Error::attribute(
                "visibility_level",
                "must not exceed the visibility of the source or the namespace",
            ));
        }
        return in_force.check_visibility(caller, requested).map(|()| requested);
    }
    let allowed = [Visibility::Public, Visibility::Internal, Visibility::Private]
        .into_iter()
        .filter(|visibility| *visibility <= maximum)
        .find(|visibility| in_force.visibility_fault(caller, *visibility).is_none());
    match allowed {
        Some(visibility) => Ok(visibility),
        None => in_force.check_visibility(caller, maximum).map(|()| maximum),
    }
}

/// Maps a taken name or path of a fork to a conflict.
fn map_taken(error: Error) -> Error {
    match error {
        Error::InvalidAttributes(attributes) => {
            let taken_attributes = attributes
                .keys()
                .map(|name| format!("{name} has already been taken"));
            Error::Conflict(taken_attributes.collect::<Vec<_>>().join(", ").into())
        }
        other => other,
    }
}

/// Adds to the fork count of a project.
async fn add_to_fork_count(transaction: &DatabaseTransaction, project_id: i64, more: i32) -> Result<()> {
    let counted = projects::Entity::update_many()
        .col_expr(Column::ForksCount, Expr::col(Column::ForksCount).add(more))
        .filter(Column::Id.eq(project_id))
        .filter(Column::DeletionStartedAt.is_null())
        .exec(transaction)
        .await?;
    match counted.rows_affected {
        0 if more > 0 => Err(Error::not_found("Project")),
        _ => Ok(()),
    }
}

/// Marks a project as a fork of another one.
///
/// # Errors
/// Returns `NotFound` if the caller cannot fork the source, `Conflict` for an existing fork, and a validation
/// error if both are the same project.
pub async fn relate(backend: &Backend, access: ProjectAccess, source: &str) -> Result<ProjectAccess> {
    let source = ProjectAccess::find(backend, access.caller.clone(), source).await?;
    check_can_fork(&source)?;
    let (id, source_id) = (access.project.id, source.project.id);
    if id == source_id || source.project.forked_from_id == Some(id) {
        return Err(Error::Rejected("A project cannot be a fork of itself".into()));
    }
    let project = backend
        .database
        .transaction(async |transaction| {
            let related = projects::Entity::update_many()
                .col_expr(Column::ForkedFromId, Expr::value(source_id))
                .col_expr(Column::UpdatedAt, Expr::value(now()))
                .filter(Column::Id.eq(id))
                .filter(Column::ForkedFromId.is_null())
                .exec(transaction)
                .await?;
            if related.rows_affected == 0 {
                return Err(Error::Conflict("Project already forked".into()));
            }
            add_to_fork_count(transaction, source_id, 1).await?;
            let project = projects::Entity::find_by_id(id).one(transaction).await?;
            project.ok_or_else(|| Error::not_found("Project"))
        })
        .await?;
    Ok(ProjectAccess { project, ..access })
}

/// Removes the fork relation of a project.
///
/// # Errors
/// Returns `NotModified` if the project is not a fork.
pub async fn unrelate(backend: &Backend, access: &ProjectAccess) -> Result<()> {
    let source_id = access.project.forked_from_id.ok_or(Error::NotModified)?;
    backend
        .database
        .transaction(async |transaction| {
            let freed = projects::Entity::update_many()
                .col_expr(Column::ForkedFromId, Expr::value(None::<i64>))
                .col_expr(Column::UpdatedAt, Expr::value(now()))
                .filter(Column::Id.eq(access.project.id))
                .filter(Column::ForkedFromId.eq(source_id))
                .exec(transaction)
                .await?;
            if freed.rows_affected == 0 {
                return Err(Error::NotModified);
            }
            add_to_fork_count(transaction, source_id, -1).await
        })
        .await
}

/// Copies the repository of a fork. Steps that an earlier attempt finished are skipped.
///
/// # Errors
/// Returns an error if a database query or a Git operation fails; the fork is not finished then.
pub async fn copy_repository(backend: &Backend, job: &ForkRepository) -> Result<()> {
    let project = projects::not_deleted()
        .filter(Column::Id.eq(job.project_id))
        .filter(Column::ImportStatus.is_in(imports::WAITING))
        .one(backend.database.write())
        .await?;
    if project.is_none() {
        return Ok(());
    }
    imports::set_status(
        backend.database.write(),
        job.project_id,
        ImportStatus::Started,
        None,
    )
    .await?;
    let update = RefUpdate::new(job.project_id, job.user_id, ref_updates::RefUpdateKind::Api);
    let repositories = backend.repositories.clone();
    let (source, id) = (
        RepositoryId::of_project(job.source_id),
        RepositoryId::of_project(job.project_id),
    );
    let planned = vec!["refs/heads/*".to_owned(), "refs/tags/*".to_owned()];
    update_refs(backend, update, UpdateAuthority::Server(planned), async move {
        match repositories.fork(&source, &id).await {
            Ok(_) | Err(git::Error::RepositoryExists) => {}
            Err(error) => return Err(error.into()),
        }
        let fork = repositories.repository(&id);
        // The copied branches are not new pushes; only the default branch is reported.
        let head = fork.default_branch().await?;
        let changes = match fork.branch(&head).await {
            Ok(branch) => vec![RefChange::branch(&head, None, Some(branch.commit))],
            Err(_) => Vec::new(),
        };
        Ok(((), changes))
    })
    .await?;
    let remaining = projects::Entity::find_by_id(job.project_id)
        .one(backend.database.write())
        .await?;
    if remaining.is_none() {
        // The fork was deleted while its repository was copied.
        let id = RepositoryId::of_project(job.project_id);
        return Ok(backend.repositories.remove(&id).await?);
    }
    imports::set_status(
        backend.database.write(),
        job.project_id,
        ImportStatus::Finished,
        None,
    )
    .await
}

/// Marks a fork as failed: its repository stays empty, and the reason is stored.
///
/// # Errors
/// Returns an error if a database query or a Git operation fails.
pub async fn mark_failed(backend: &Backend, job: &ForkRepository) -> Result<()> {
    let settings = settings::get(backend).await?;
    ensure_repository(backend, job.project_id, &settings.default_branch_name).await?;
    let why = "The repository could not be copied";
    imports::set_status(
        backend.database.write(),
        job.project_id,
        ImportStatus::Failed,
        Some(why),
    )
    .await
}

/// Runs the job. It can be interrupted at any point and run again. If the last attempt fails, the failure is
/// recorded on the fork.
///
/// # Errors
/// Returns an error if Git or the database fails; the job is then retried.
pub async fn run_job(backend: Backend, job: ForkRepository, attempt: JobAttempt) -> Result<(), JobFailure> {
    let copied = copy_repository(&backend, &job).await;
    if copied.is_err() && attempt.is_last() {
        mark_failed(&backend, &job).await?;
    }
    Ok(copied?)
}
