//! Runs of the expiration policies of projects: a job regularly deletes tags from the repositories of a project.

use chrono::{DateTime, Utc};
use sea_orm::{ColumnTrait, ConnectionTrait, QueryFilter, QueryOrder};
use storage::entities::container_expiration_policies::{self, of_project};
use storage::entities::projects::{self, FeatureAccess};
use storage::entities::{now, registry_repositories};
use storage::jobs::{self, JobFailure};

use super::jobs::delete_registry_tags::{CleanupRules, DeleteRegistryTags};
use super::jobs::run_expiration_policy::RunExpirationPolicy;
use super::tag_cleanup;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};

/// Number of policies whose jobs are enqueued at a time.
const MAX_ENQUEUED: u64 = 1_000;

/// Enqueues the jobs of due policies.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn enqueue_due(backend: &Backend) -> Result<()> {
    let at = now();
    let due = container_expiration_policies::due(backend.database.read(), at, MAX_ENQUEUED).await?;
    for policy in due {
        let job = RunExpirationPolicy {
            project_id: policy.project_id,
        };
        jobs::enqueue_claimed(&backend.database, &job, async |transaction| {
            container_expiration_policies::advance(transaction, &policy, at).await
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
pub async fn run_job(backend: Backend, job: RunExpirationPolicy) -> Result<(), JobFailure> {
    Ok(run(&backend, job.project_id).await?)
}

/// Deletes tags from one repository after another. The policy and the project can change meanwhile.
async fn run(backend: &Backend, project_id: i64) -> Result<()> {
    let started_at = now();
    let mut after = 0;
    loop {
        let db = backend.database.read();
        let Some(rules) = rules_in_force(db, project_id, started_at).await? else {
            return Ok(());
        };
        let repository = registry_repositories::of_project(project_id)
            .filter(registry_repositories::Column::Id.gt(after))
            .order_by_asc(registry_repositories::Column::Id)
            .one(db)
            .await?;
        let Some(repository) = repository else {
            return Ok(());
        };
        after = repository.id;
        let cleanup = DeleteRegistryTags {
            repository_id: repository.id,
            wish: rules,
            asked_at: started_at,
        };
        tag_cleanup::run(backend, cleanup).await?;
    }
}

/// Returns the rules of the policy of a project; none if the policy is disabled, or if users cannot delete tags either.
async fn rules_in_force(
    db: &impl ConnectionTrait,
    project_id: i64,
    started_at: DateTime<Utc>,
) -> Result<Option<CleanupRules>> {
    let project = projects::not_deleted().filter(projects::Column::Id.eq(project_id));
    let is_writable = project.one(db).await?.is_some_and(|project| {
        !project.archived && project.container_registry_access_level != FeatureAccess::Disabled
    });
    let policy = of_project(project_id).one(db).await?;
    let (Some(policy), true) = (policy.filter(|policy| policy.next_run_at.is_some()), is_writable) else {
        return Ok(None);
    };
    let rules = policy.name_regex_delete.map(|delete| CleanupRules {
        delete,
        keep: policy.name_regex_keep,
        keep_n: policy.keep_n.and_then(|kept| u64::try_from(kept).ok()),
        before: policy.older_than.map(|age| started_at - age.duration()),
    });
    Ok(rules)
}
