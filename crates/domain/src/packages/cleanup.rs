//! Cleanup policies of projects: a job deletes older files with the same name from packages, once a day.

use chrono::{DateTime, TimeDelta, Utc};
use sea_orm::sea_query::{Expr, Func, Order, OverStatement, Query, SelectStatement, WindowStatement};
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait,
    ExprTrait, IntoActiveModel, QueryFilter, QueryOrder, QuerySelect,
};
use storage::entities::package_cleanup_policies::{self, KeptFiles, of_project};
use storage::entities::projects::{self, FeatureAccess};
use storage::entities::{namespaces, now, package_files, package_protection_rules, packages};
use storage::jobs::{self, JobFailure};

use super::access::check_access;
use super::deletion::enqueue_collection;
use super::jobs::clean_up_packages::CleanUpPackages;
use super::protection::{self, ProtectedName};
use crate::audit::{self, Actor, AuditEntity, AuditEvent, AuditKind, AuditTarget};
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::spaces::projects::lock_for_insert;

/// Interval of the runs of a policy.
const INTERVAL: TimeDelta = TimeDelta::days(1);
/// Number of policies whose jobs are enqueued at a time.
const MAX_ENQUEUED: u64 = 1_000;
/// Number of packages that one transaction changes.
const PACKAGES: u64 = 100;
/// Number of files that one transaction deletes, which blocks other changes of the packages of the project.
const FILES: u64 = 1_000;

/// A cleanup policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CleanupPolicy {
    /// Number of files with the same name that remain in a package.
    pub kept_files: KeptFiles,
    /// When the policy runs next; none if all files remain.
    pub next_run_at: Option<DateTime<Utc>>,
}

impl CleanupPolicy {
    /// The policy of a project that has set none.
    const DEFAULT: Self = Self {
        kept_files: KeptFiles::All,
        next_run_at: None,
    };

    fn of(row: &package_cleanup_policies::Model) -> Self {
        Self {
            kept_files: row.kept_files,
            next_run_at: row.next_run_at,
        }
    }
}

/// Returns the policy of a project.
///
/// # Errors
/// Returns `Forbidden` if the packages of the project are disabled.
pub async fn get(backend: &Backend, access: &ProjectAccess) -> Result<CleanupPolicy> {
    check_access(access)?;
    let found = of_project(access.project.id).one(backend.database.read()).await?;
    Ok(found.as_ref().map_or(CleanupPolicy::DEFAULT, CleanupPolicy::of))
}

/// Sets the policy of a project. A changed policy runs after a day, so that a mistake can be corrected.
///
/// # Errors
/// Returns `Forbidden` if the packages of the project are disabled, and `NotFound` if the project was deleted.
pub async fn set(backend: &Backend, access: &ProjectAccess, kept_files: KeptFiles) -> Result<CleanupPolicy> {
    check_access(access)?;
    backend
        .database
        .transaction(async |transaction| {
            lock_for_insert(transaction, access.project.id).await?;
            let found = of_project(access.project.id).one(transaction).await?;
            let before = found.as_ref().map_or(CleanupPolicy::DEFAULT, CleanupPolicy::of);
            if before.kept_files == kept_files {
                return Ok(before);
            }
            let at = now();
            let next_run_at = kept_files.number().map(|_| at + INTERVAL);
            let is_new = found.is_none();
            let mut row = match found {
                Some(row) => row.into_active_model(),
                None => package_cleanup_policies::ActiveModel {
                    project_id: Set(access.project.id),
                    created_at: Set(at),
                    ..Default::default()
                },
            };
            row.kept_files = Set(kept_files);
            row.next_run_at = Set(next_run_at);
            row.updated_at = Set(at);
            match is_new {
                true => row.insert(transaction).await?,
                false => row.update(transaction).await?,
            };
            let entity = access.audit_entity();
            let event = AuditEvent::of(AuditKind::PackageCleanupPolicyChanged, entity)
                .from(described(before.kept_files))
                .to(described(kept_files));
            audit::record(transaction, &access.caller, event).await?;
            Ok(CleanupPolicy {
                kept_files,
                next_run_at,
            })
        })
        .await
}

/// Returns a number of files for an audit event.
fn described(kept_files: KeptFiles) -> String {
    kept_files
        .number()
        .map_or_else(|| "all".to_owned(), |number| number.to_string())
}

/// Enqueues the jobs of due policies.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn enqueue_due(backend: &Backend) -> Result<()> {
    let at = now();
    let due = package_cleanup_policies::due(backend.database.read(), at, INTERVAL, MAX_ENQUEUED).await?;
    for policy in due {
        let job = CleanUpPackages {
            project_id: policy.project_id,
        };
        jobs::enqueue_claimed(&backend.database, &job, async |transaction| {
            package_cleanup_policies::advance(transaction, policy.id, at, INTERVAL).await
        })
        .await
        .map_err(Error::internal)?;
    }
    Ok(())
}

/// Runs the job of a policy. It can be interrupted at any point and run again.
///
/// # Errors
/// Returns an error if the database fails; the job is then retried.
pub async fn run_job(backend: Backend, job: CleanUpPackages) -> Result<(), JobFailure> {
    let deleted = run(&backend, job.project_id).await?;
    if deleted > 0 {
        tracing::info!(deleted, "deleted older package files");
    }
    Ok(())
}

/// Runs the policy of a project, and returns the number of deleted files.
async fn run(backend: &Backend, project_id: i64) -> Result<u64> {
    let (mut after, mut total) = (0, 0);
    loop {
        let db = backend.database.read();
        let policy = of_project(project_id).one(db).await?;
        let Some(kept) = policy.and_then(|policy| policy.kept_files.number()) else {
            return Ok(total);
        };
        let package_ids = with_duplicates(db, project_id, kept, after).await?;
        let Some(last) = package_ids.last().copied() else {
            return Ok(total);
        };
        loop {
            let deleted = backend
                .database
                .transaction(async |transaction| clean_up(transaction, project_id, &package_ids).await)
                .await?;
            total += deleted;
            if deleted < FILES {
                break;
            }
        }
        after = last;
    }
}

/// Returns the IDs of packages with more files of the same name than this number, after an ID.
async fn with_duplicates(
    db: &impl ConnectionTrait,
    project_id: i64,
    kept: i64,
    after: i64,
) -> Result<Vec<i64>> {
    use package_files::Column;
    let own = Query::select()
        .column(packages::Column::Id)
        .from(packages::Entity)
        .and_where(packages::Column::ProjectId.eq(project_id))
        .take();
    let duplicates = Query::select()
        .column(Column::PackageId)
        .from(package_files::Entity)
        .and_where(Column::PackageId.gt(after))
        .and_where(Column::PackageId.in_subquery(own))
        .group_by_columns([Column::PackageId, Column::FileName])
        .and_having(Column::Id.count().gt(kept))
        .take();
    let found = packages::Entity::find()
        .select_only()
        .column(packages::Column::Id)
        .filter(packages::Column::Id.in_subquery(duplicates))
        .order_by_asc(packages::Column::Id)
        .limit(PACKAGES);
    Ok(found.into_tuple().all(db).await?)
}

/// Deletes older files of packages, at most [`FILES`], and returns their number. The project is locked, so the policy,
/// the protection rules and the files do not change.
async fn clean_up(transaction: &DatabaseTransaction, project_id: i64, package_ids: &[i64]) -> Result<u64> {
    let Some(project) = projects::lock_for_insert(transaction, project_id).await? else {
        return Ok(0);
    };
    let policy = of_project(project_id).one(transaction).await?;
    let kept = policy.and_then(|policy| policy.kept_files.number());
    let has_packages = project.package_registry_access_level != FeatureAccess::Disabled;
    let (Some(kept), true, false) = (kept, has_packages, project.archived) else {
        return Ok(0);
    };
    let rules = package_protection_rules::of_project(project_id)
        .all(transaction)
        .await?;
    let found = packages::of_project(project_id)
        .filter(packages::Column::Id.is_in(package_ids.iter().copied()))
        .lock_exclusive()
        .all(transaction)
        .await?;
    let ids = found
        .iter()
        .filter(|package| !protection::is_deletion_protected(&rules, ProtectedName::of(package)))
        .map(|package| package.id);
    let ids: Vec<i64> = ids.collect();
    let files: Vec<(i64, i64)> = older_files(transaction, &ids, kept).await?;
    if files.is_empty() {
        return Ok(0);
    }
    package_files::Entity::delete_many()
        .filter(package_files::Column::Id.is_in(files.iter().map(|(id, _)| *id)))
        .exec(transaction)
        .await?;
    packages::Entity::update_many()
        .col_expr(packages::Column::UpdatedAt, Expr::value(now()))
        .filter(packages::Column::Id.is_in(files.iter().map(|(_, package_id)| *package_id)))
        .exec(transaction)
        .await?;
    record(transaction, &project, files.len()).await?;
    enqueue_collection(transaction).await?;
    Ok(files.len() as u64)
}

/// Returns the IDs of the files that are not among the newest files with their name, and the IDs of their packages.
async fn older_files(
    transaction: &DatabaseTransaction,
    package_ids: &[i64],
    kept: i64,
) -> Result<Vec<(i64, i64)>> {
    use package_files::Column;
    let window = WindowStatement::new()
        .partition_by_columns([Column::PackageId, Column::FileName])
        .order_by(Column::Id, Order::Desc)
        .take();
    let ranked: SelectStatement = Query::select()
        .columns([Column::Id, Column::PackageId])
        .expr_window_as(Func::cust("ROW_NUMBER"), window, "place")
        .from(package_files::Entity)
        .and_where(Column::PackageId.is_in(package_ids.iter().copied()))
        .take();
    let older = Query::select()
        .column("id")
        .from_subquery(ranked, "ranked")
        .and_where(Expr::col(("ranked", "place")).gt(kept))
        .take();
    let found = package_files::Entity::find()
        .select_only()
        .column(Column::Id)
        .column(Column::PackageId)
        .filter(Column::Id.in_subquery(older))
        .limit(FILES);
    Ok(found.into_tuple().all(transaction).await?)
}

/// Records one event for all deleted files of a transaction.
async fn record(transaction: &DatabaseTransaction, project: &projects::Model, files: usize) -> Result<()> {
    let namespace = namespaces::Entity::find_by_id(project.namespace_id)
        .one(transaction)
        .await?
        .ok_or_else(|| Error::not_found("Namespace"))?;
    let entity = AuditEntity::project(&namespace, project);
    let target = AuditTarget::named("PackageFile", format!("{files} older files"));
    let event = AuditEvent::new(AuditKind::PackageFilesCleanedUp, entity, target);
    audit::record(transaction, Actor::system(), event).await
}
