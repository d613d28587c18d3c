//! Deletes tags and repositories of the container registry.

use sea_orm::{ColumnTrait, QueryFilter};
use storage::entities::registry_repositories;
use storage::entities::registry_tags::{self, Column};
use storage::jobs;

use super::{check_can_pull, find_repository, repositories, tags};
use crate::audit::{self, AuditEvent, AuditKind, AuditTarget};
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::preconditions::check_unmodified_since;
use crate::registry::jobs::delete_registry_repository::DeleteRegistryRepository;

/// Deletes a tag; other tags of the same manifest remain.
///
/// # Errors
/// Returns `NotFound` if the tag does not exist, and `PreconditionFailed` if it was pushed after the given
/// date. Returns `Forbidden` if the registry is not available to the caller.
pub async fn delete_tag(
    backend: &Backend,
    access: &ProjectAccess,
    repository_id: i64,
    name: &str,
    if_unmodified_since: Option<&str>,
) -> Result<()> {
    check_can_pull(access)?;
    backend
        .database
        .transaction(async |transaction| {
            let repository = find_repository(transaction, access, repository_id).await?;
            // The lock serializes this with concurrent pushes of the tag.
            let locked = registry_repositories::lock_for_push(transaction, repository.id).await?;
            locked.ok_or_else(|| Error::not_found(""))?;
            let found = registry_tags::of_repository(repository.id).filter(Column::Name.eq(name));
            let tag = found
                .one(transaction)
                .await?
                .ok_or_else(|| Error::not_found("Tag"))?;
            check_unmodified_since(if_unmodified_since, tag.updated_at)?;
            tags::remove_one(transaction, access, &repository, tag).await
        })
        .await
}

/// Starts the deletion of a repository, which is hidden from then on.
///
/// # Errors
/// Returns `NotFound` if the repository does not exist, and `Forbidden` if the registry is not available to
/// the caller.
pub async fn delete_repository(backend: &Backend, access: &ProjectAccess, repository_id: i64) -> Result<()> {
    check_can_pull(access)?;
    backend
        .database
        .transaction(async |transaction| {
            let repository = find_repository(transaction, access, repository_id).await?;
            // Only one of two concurrent requests succeeds.
            if !repositories::begin_deletion(transaction, repository.id).await? {
                return Err(Error::not_found(""));
            }
            let target = AuditTarget::new("RegistryRepository", repository.id, repository.name.clone());
            let event = AuditEvent::new(
                AuditKind::RegistryRepositoryDeleted,
                access.audit_entity(),
                target,
            );
            audit::record(transaction, &access.caller, event).await?;
            let job = DeleteRegistryRepository {
                repository_id: repository.id,
            };
            jobs::enqueue(transaction, &job).await.map_err(Error::internal)
        })
        .await
}
