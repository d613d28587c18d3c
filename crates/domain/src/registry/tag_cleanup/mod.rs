//! Bulk deletion of tags, at most once an hour for each repository. A job deletes them in batches and resumes
//! after an interruption.

mod age;
mod selection;

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use sea_orm::sea_query::Expr;
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, DatabaseTransaction, EntityTrait, QueryFilter, QueryOrder,
    QuerySelect,
};
use storage::entities::registry_repositories::{self, Column, Entity};
use storage::entities::{now, registry_manifests, registry_tags};
use storage::jobs::{self, JobFailure};

use super::{check_can_pull, find_repository, tags};
use crate::audit::{self, AuditEvent, AuditKind, AuditTarget};
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::text::anchored_regex::AnchoredRegex;
use crate::registry::jobs::delete_registry_tags::{CleanupRules, DeleteRegistryTags};
use selection::{CompiledRules, TagCandidate};

/// Minimum interval between requests.
const MIN_INTERVAL: TimeDelta = TimeDelta::hours(1);

/// Error text of a request within the interval.
const TOO_SOON: &str = "This request has already been made. You can run this at most once an hour for a given container repository";

/// Number of tags that are read at a time.
const READ_BATCH: u64 = 1_000;

/// Number of tags that are deleted in one transaction, which blocks other changes of the repository.
const DELETE_BATCH: usize = 200;

/// Parameters of a request.
#[derive(Debug, Clone, Default)]
pub struct CleanupRequest {
    /// Regular expression of tags to delete.
    pub name_regex_delete: Option<String>,
    /// Former name of the same parameter.
    pub name_regex: Option<String>,
    /// Regular expression of tags to retain.
    pub name_regex_keep: Option<String>,
    /// Number of newest tags to retain.
    pub keep_n: Option<u64>,
    /// Minimum age of tags to delete.
    pub older_than: Option<String>,
}

impl CleanupRequest {
    /// Validates the parameters relative to `instant`. Compiling the expressions takes noticeable time.
    fn validate(self, instant: DateTime<Utc>) -> Result<CleanupRules> {
        let mut errors = Vec::new();
        for (name, expression) in [
            ("name_regex_delete", &self.name_regex_delete),
            ("name_regex", &self.name_regex),
            ("name_regex_keep", &self.name_regex_keep),
        ] {
            if let Some(Err(why)) = expression.as_deref().map(AnchoredRegex::compile) {
                errors.push(format!("{name} is an invalid regexp: {why}"));
            }
        }
        let before = self.older_than.as_deref().map(|span| {
            let span = age::parse(span)?;
            instant.checked_sub_signed(span)
        });
        if before == Some(None) {
            errors.push("older_than is invalid".to_owned());
        }
        let Some(delete) = self.name_regex_delete.or(self.name_regex) else {
            return Err(Error::no_parameters(&["name_regex_delete", "name_regex"]));
        };
        if !errors.is_empty() {
            return Err(Error::InvalidParameters(errors.into()));
        }
        Ok(CleanupRules {
            delete,
            keep: self.name_regex_keep,
            keep_n: self.keep_n,
            before: before.flatten(),
        })
    }
}

/// Enqueues the deletion of tags of a repository.
///
/// # Errors
/// Returns a validation error for invalid parameters and within the minimum interval. Returns `NotFound` if
/// the repository does not exist, and `Forbidden` if the registry is not available to the caller.
pub async fn enqueue(
    backend: &Backend,
    access: &ProjectAccess,
    repository_id: i64,
    request: CleanupRequest,
) -> Result<()> {
    check_can_pull(access)?;
    let asked_at = now();
    let rules = tokio::task::spawn_blocking(move || request.validate(asked_at)).await;
    let rules = rules.map_err(Error::internal)??;
    backend
        .database
        .transaction(async |transaction| {
            let repository = find_repository(transaction, access, repository_id).await?;
            if !record_request(transaction, repository.id, asked_at).await? {
                return Err(Error::Rejected(TOO_SOON.into()));
            }
            let target = AuditTarget::new("RegistryRepository", repository.id, repository.name.clone());
            let event = AuditEvent::new(
                AuditKind::RegistryTagsDeletionRequested,
                access.audit_entity(),
                target,
            );
            audit::record(transaction, &access.caller, event.from(&rules.delete)).await?;
            let job = DeleteRegistryTags {
                repository_id: repository.id,
                wish: rules.clone(),
                asked_at,
            };
            jobs::enqueue(transaction, &job).await.map_err(Error::internal)
        })
        .await
}

/// Records the time of a request. Returns false within the minimum interval; of concurrent requests only one
/// succeeds.
async fn record_request(transaction: &DatabaseTransaction, id: i64, instant: DateTime<Utc>) -> Result<bool> {
    let long_ago = Condition::any()
        .add(Column::TagsClearedAt.is_null())
        .add(Column::TagsClearedAt.lte(instant - MIN_INTERVAL));
    let update = Entity::update_many()
        .col_expr(Column::TagsClearedAt, Expr::value(instant))
        .filter(Column::Id.eq(id))
        .filter(Column::DeletionStartedAt.is_null())
        .filter(long_ago)
        .exec(transaction)
        .await?;
    Ok(update.rows_affected > 0)
}

/// Deletes the matching tags that still exist and have not been pushed since the request.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn run(backend: &Backend, job: DeleteRegistryTags) -> Result<()> {
    let compile = move || CompiledRules::compile(&job.wish).map(Arc::new);
    let compiled = tokio::task::spawn_blocking(compile).await;
    let rules = compiled.map_err(Error::internal)?.map_err(Error::internal)?;
    let cleanup = (job.repository_id, job.asked_at);
    let candidates = matching(backend, cleanup, &rules).await?;
    let chosen = rules.select(candidates);
    for ids in chosen.chunks(DELETE_BATCH) {
        if !delete(backend, cleanup, ids).await? {
            break;
        }
    }
    Ok(())
}

/// Returns the tags of a repository whose names match, as of an instant.
async fn matching(
    backend: &Backend,
    cleanup: (i64, DateTime<Utc>),
    rules: &Arc<CompiledRules>,
) -> Result<Vec<TagCandidate>> {
    let db = backend.database.read();
    let mut candidates = Vec::new();
    let mut after = None;
    loop {
        let batch = batch(db, cleanup, after.as_deref()).await?;
        let Some((last, ..)) = batch.last() else {
            return Ok(candidates);
        };
        after = Some(last.clone());
        let rules = Arc::clone(rules);
        let matching = tokio::task::spawn_blocking(move || {
            let matching = batch.into_iter().filter(|(name, ..)| rules.matches(name));
            let found = matching.map(|(_, id, created_at)| TagCandidate { id, created_at });
            found.collect::<Vec<_>>()
        });
        candidates.extend(matching.await.map_err(Error::internal)?);
    }
}

/// Returns the next tags by name, each with its ID and the creation time of its image.
async fn batch(
    db: &impl ConnectionTrait,
    (repository_id, asked_at): (i64, DateTime<Utc>),
    after: Option<&str>,
) -> Result<Vec<(String, i64, Option<DateTime<Utc>>)>> {
    let mut query = registry_tags::of_repository(repository_id)
        .filter(registry_tags::Column::UpdatedAt.lte(asked_at))
        .inner_join(registry_manifests::Entity);
    if let Some(after) = after {
        query = query.filter(registry_tags::Column::Name.gt(after));
    }
    let found = query
        .select_only()
        .column(registry_tags::Column::Name)
        .column(registry_tags::Column::Id)
        .column(registry_manifests::Column::ImageCreatedAt)
        .order_by_asc(registry_tags::Column::Name)
        .limit(READ_BATCH)
        .into_tuple();
    Ok(found.all(db).await?)
}

/// Deletes tags that were not pushed since. Returns false if the repository was deleted.
async fn delete(
    backend: &Backend,
    (repository_id, asked_at): (i64, DateTime<Utc>),
    ids: &[i64],
) -> Result<bool> {
    backend
        .database
        .transaction(async |transaction| {
            let locked = registry_repositories::lock_for_push(transaction, repository_id).await?;
            if locked.is_none() {
                return Ok(false);
            }
            let names: Vec<String> = registry_tags::of_repository(repository_id)
                .filter(registry_tags::Column::Id.is_in(ids.iter().copied()))
                .filter(registry_tags::Column::UpdatedAt.lte(asked_at))
                .select_only()
                .column(registry_tags::Column::Name)
                .into_tuple()
                .all(transaction)
                .await?;
            tags::remove(transaction, repository_id, &names).await?;
            Ok::<_, Error>(true)
        })
        .await
}

/// Runs the job. It continues where an earlier attempt ended.
///
/// # Errors
/// Returns an error if the database fails; the job is then retried.
pub async fn run_job(backend: Backend, job: DeleteRegistryTags) -> Result<(), JobFailure> {
    Ok(run(&backend, job).await?)
}
