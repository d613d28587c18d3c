//! Tags: lists, updates and deletion. Every change locks the repository
//! ([`registry_repositories::lock_for_push`](storage::entities::registry_repositories::lock_for_push)).

use sea_orm::sea_query::{Expr, Query};
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait,
    ExprTrait, IntoActiveModel, QueryFilter, QueryOrder, QuerySelect,
};
use storage::entities::registry_tags::{ActiveModel, Column, Entity, Model, of_repository};
use storage::entities::{now, registry_manifests, registry_repositories};

use crate::audit::{self, AuditEvent, AuditKind, AuditTarget};
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::Result;
use crate::registry::error::{RegistryError, RegistryErrorCode};

/// Maximum length of a tag name, in bytes.
const MAX_NAME_BYTES: usize = 128;
/// Maximum number of tags on a page.
pub const MAX_PER_PAGE: u64 = 1_000;

/// Returns whether a text is a valid tag name: word characters, and `.` and `-` after the first.
#[must_use]
pub fn is_name(text: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let mut bytes = text.bytes();
    text.len() <= MAX_NAME_BYTES
        && bytes.next().is_some_and(word)
        && bytes.all(|byte| word(byte) || matches!(byte, b'.' | b'-'))
}

/// Returns the names of the tags of a repository after `last`, in byte order: at most `limit`, and whether
/// more follow.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn list_names(
    backend: &Backend,
    repository_id: i64,
    last: Option<&str>,
    limit: u64,
) -> Result<(Vec<String>, bool)> {
    let mut found = of_repository(repository_id)
        .select_only()
        .column(Column::Name)
        .order_by_asc(Column::Name)
        .limit(limit + 1);
    if let Some(last) = last {
        found = found.filter(Column::Name.gt(last));
    }
    let mut names: Vec<String> = found.into_tuple().all(backend.database.read()).await?;
    let more = names.len() as u64 > limit;
    names.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    Ok((names, more))
}

/// Points a tag to a manifest.
///
/// # Errors
/// Returns an error if a database query fails.
pub(super) async fn set_target(
    transaction: &impl ConnectionTrait,
    repository_id: i64,
    name: &str,
    manifest_id: i64,
) -> Result<()> {
    let found = of_repository(repository_id).filter(Column::Name.eq(name));
    match found.one(transaction).await? {
        Some(tag) => {
            let former = tag.manifest_id;
            let mut tag = tag.into_active_model();
            tag.manifest_id = Set(manifest_id);
            tag.updated_at = Set(now());
            tag.update(transaction).await?;
            if former != manifest_id {
                record_untagged(transaction, vec![former]).await?;
            }
        }
        None => {
            let at = now();
            let tag = ActiveModel {
                repository_id: Set(repository_id),
                name: Set(name.to_owned()),
                manifest_id: Set(manifest_id),
                created_at: Set(at),
                updated_at: Set(at),
                ..Default::default()
            };
            tag.insert(transaction).await?;
        }
    }
    registry_manifests::Entity::update_many()
        .col_expr(
            registry_manifests::Column::UntaggedSince,
            Expr::value(None::<chrono::DateTime<chrono::Utc>>),
        )
        .filter(registry_manifests::Column::Id.eq(manifest_id))
        .exec(transaction)
        .await?;
    Ok(())
}

/// Deletes the tags with these names and returns their number; manifests and blobs remain. Each call needs
/// three statements, so a caller with very many names splits them.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn remove(transaction: &impl ConnectionTrait, repository_id: i64, names: &[String]) -> Result<u64> {
    let named = of_repository(repository_id).filter(Column::Name.is_in(names));
    let tags: Vec<Model> = named.all(transaction).await?;
    if tags.is_empty() {
        return Ok(0);
    }
    let removed = Entity::delete_many()
        .filter(Column::Id.is_in(tags.iter().map(|tag| tag.id)))
        .exec(transaction)
        .await?;
    record_untagged(transaction, tags.into_iter().map(|tag| tag.manifest_id).collect()).await?;
    Ok(removed.rows_affected)
}

/// Records since when manifests have no tag, after tags were deleted.
async fn record_untagged(transaction: &impl ConnectionTrait, manifest_ids: Vec<i64>) -> Result<()> {
    let tagged = Query::select()
        .column(Column::ManifestId)
        .from(Entity)
        .and_where(Expr::col(Column::ManifestId).is_in(manifest_ids.iter().copied()))
        .take();
    registry_manifests::Entity::update_many()
        .col_expr(registry_manifests::Column::UntaggedSince, Expr::value(now()))
        .filter(registry_manifests::Column::Id.is_in(manifest_ids))
        .filter(registry_manifests::Column::Id.not_in_subquery(tagged))
        .exec(transaction)
        .await?;
    Ok(())
}

/// Deletes a tag of a locked repository for a caller.
///
/// # Errors
/// Returns an error if a database query fails.
pub(super) async fn remove_one(
    transaction: &DatabaseTransaction,
    access: &ProjectAccess,
    repository: &registry_repositories::Model,
    tag: Model,
) -> Result<()> {
    let description = format!("{}:{}", repository.name, tag.name);
    let target = AuditTarget::new("RegistryTag", tag.id, description);
    remove(transaction, repository.id, &[tag.name]).await?;
    let event = AuditEvent::new(AuditKind::RegistryTagDeleted, access.audit_entity(), target);
    audit::record(transaction, &access.caller, event).await
}

/// Deletes a tag for a client of the protocol.
///
/// # Errors
/// Returns `MANIFEST_UNKNOWN` if it does not exist.
pub async fn delete(
    backend: &Backend,
    access: &ProjectAccess,
    repository_id: i64,
    name: &str,
) -> Result<(), RegistryError> {
    let unknown =
        || RegistryError::with_detail(RegistryErrorCode::ManifestUnknown, "the tag does not exist", name);
    backend
        .database
        .transaction(async |transaction| {
            let locked = registry_repositories::lock_for_push(transaction, repository_id).await?;
            let repository = locked.ok_or_else(unknown)?;
            let found = of_repository(repository_id).filter(Column::Name.eq(name));
            let tag = found.one(transaction).await?.ok_or_else(unknown)?;
            Ok(remove_one(transaction, access, &repository, tag).await?)
        })
        .await
}

#[cfg(test)]
mod tests {
    use super::is_name;

    #[test]
    fn tag_name_follows_distribution_spec() {
        for good in ["latest", "v1.0.0-rc.1", "_x", "9", "A__b", &"x".repeat(128)] {
            assert!(is_name(good), "{good}");
        }
        for bad in ["", ".x", "-x", "a/b", "a:b", "ä", "a b", "a\0", &"x".repeat(129)] {
            assert!(!is_name(bad), "{bad}");
        }
    }
}
