//! Manifests: lookup, lists and deletion. For uploads see [`push`].

mod document;
mod upload;

use chrono::TimeDelta;
use sea_orm::sea_query::{Expr, Query};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait, ExprTrait, PaginatorTrait, QueryFilter,
    QueryOrder, QuerySelect,
};
use storage::entities::registry_manifests::{Column, Entity, by_digest};
use storage::entities::{
    now, registry_manifest_contents as contents, registry_manifest_references as references,
    registry_repositories, registry_tags,
};

use super::digest::Digest;
use super::tags;
use crate::audit::{self, AuditEvent, AuditKind, AuditTarget};
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::budgets::RequestMemory;
use crate::kernel::error::Result;
use crate::kernel::query::text_bytes;
use crate::registry::error::{RegistryError, RegistryErrorCode};

pub use document::Annotations;
pub use storage::entities::registry_manifests::Model as Manifest;
pub use upload::{MAX_BYTES, UploadedManifest, push};

/// Maximum number of manifests in a referrer list.
pub const MAX_PER_PAGE: u64 = 50;

/// Resolution of the time since which a manifest is untagged. Each pull of an index requests its untagged children.
const UNTAGGED_TIME_RESOLUTION: TimeDelta = TimeDelta::hours(1);

/// Reference to a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ManifestReference {
    /// A tag.
    Tag(String),
    /// A digest.
    Digest(Digest),
}

impl ManifestReference {
    /// Parses the reference of an upload.
    ///
    /// # Errors
    /// Returns `DIGEST_INVALID` or `MANIFEST_INVALID` if it is neither a digest nor a tag.
    pub fn parse(text: &str) -> Result<Self, RegistryError> {
        if text.contains(':') {
            return Ok(Self::Digest(Digest::parse(text)?));
        }
        let wrong = "a tag must have 1 to 128 letters, digits, dots, dashes and underscores";
        match tags::is_name(text) {
            true => Ok(Self::Tag(text.to_owned())),
            false => Err(RegistryError::new(RegistryErrorCode::ManifestInvalid, wrong)),
        }
    }

    /// Parses the reference of a lookup. An invalid tag name is reported as missing.
    ///
    /// # Errors
    /// Returns `DIGEST_INVALID` for a malformed digest, and `MANIFEST_UNKNOWN` for an invalid tag name.
    pub fn parse_existing(text: &str) -> Result<Self, RegistryError> {
        match text.contains(':') || tags::is_name(text) {
            true => Self::parse(text),
            false => Err(manifest_unknown(&Self::Tag(text.to_owned()))),
        }
    }
}

fn manifest_unknown(reference: &ManifestReference) -> RegistryError {
    let what = match reference {
        ManifestReference::Tag(name) => name,
        ManifestReference::Digest(digest) => digest.as_str(),
    };
    RegistryError::with_detail(RegistryErrorCode::ManifestUnknown, "manifest unknown", what)
}

/// Returns a manifest of a repository, without its bytes. A request for an untagged manifest by its digest restarts the
/// retention of the manifest.
///
/// # Errors
/// Returns `MANIFEST_UNKNOWN` if it does not exist.
pub async fn find(
    backend: &Backend,
    repository_id: i64,
    reference: &ManifestReference,
) -> Result<Manifest, RegistryError> {
    let db = backend.database.read();
    let found = match reference {
        ManifestReference::Digest(digest) => by_digest(repository_id, digest.as_str()).one(db).await?,
        ManifestReference::Tag(name) => {
            let named =
                registry_tags::with_manifests(repository_id).filter(registry_tags::Column::Name.eq(name));
            named.one(db).await?.and_then(|(_, manifest)| manifest)
        }
    };
    let manifest = found.ok_or_else(|| manifest_unknown(reference))?;
    let outdated = now() - UNTAGGED_TIME_RESOLUTION;
    if manifest.untagged_since.is_some_and(|since| since < outdated) {
        let outdated = Column::UntaggedSince.lt(outdated);
        restart_retention(backend.database.write(), Column::Id.eq(manifest.id).and(outdated)).await?;
    }
    Ok(manifest)
}

/// Restarts the retention of the untagged manifests that meet a condition.
async fn restart_retention(db: &impl ConnectionTrait, condition: Expr) -> Result<()> {
    Entity::update_many()
        .col_expr(Column::UntaggedSince, Expr::value(now()))
        .filter(condition)
        .filter(Column::UntaggedSince.is_not_null())
        .exec(db)
        .await?;
    Ok(())
}

/// Returns the bytes of a manifest. Reserves their memory before they are read.
///
/// # Errors
/// Returns `MANIFEST_UNKNOWN` if it was deleted, and `Overloaded` if too little memory is left.
pub async fn content(
    backend: &Backend,
    manifest: &Manifest,
    reference: &ManifestReference,
    memory: &RequestMemory,
) -> Result<Vec<u8>, RegistryError> {
    memory.reserve_content(u64::try_from(manifest.size).unwrap_or_default())?;
    let content = contents::of(backend.database.read(), manifest.id).await?;
    content.ok_or_else(|| manifest_unknown(reference))
}

/// Deletes a manifest with all its tags. Its content remains until the garbage collection. The retention of its
/// children and referrers restarts.
///
/// # Errors
/// Returns `MANIFEST_UNKNOWN` if it does not exist, and `DENIED` while a list contains it.
pub async fn delete(
    backend: &Backend,
    access: &ProjectAccess,
    repository_id: i64,
    digest: &Digest,
) -> Result<(), RegistryError> {
    let missing = || manifest_unknown(&ManifestReference::Digest(digest.clone()));
    let removed = async |transaction: &DatabaseTransaction| {
        let locked = registry_repositories::lock_for_push(transaction, repository_id).await?;
        let repository = locked.ok_or_else(missing)?;
        let found = by_digest(repository_id, digest.as_str()).one(transaction).await?;
        let manifest = found.ok_or_else(missing)?;
        let named = references::Entity::find().filter(references::Column::ChildId.eq(manifest.id));
        if named.count(transaction).await? > 0 {
            return Err(RegistryError::with_detail(
                RegistryErrorCode::InUse,
                "an image index refers to the manifest",
                digest,
            ));
        }
        let children = Query::select()
            .column(references::Column::ChildId)
            .from(references::Entity)
            .and_where(Expr::col(references::Column::ManifestId).eq(manifest.id))
            .and_where(Expr::col(references::Column::ChildId).is_not_null())
            .take();
        restart_retention(transaction, Column::Id.in_subquery(children)).await?;
        let of_repository = Column::RepositoryId.eq(repository_id);
        let referrers = of_repository.and(Column::SubjectDigest.eq(digest.as_str()));
        restart_retention(transaction, referrers).await?;
        Entity::delete_by_id(manifest.id).exec(transaction).await?;
        let description = format!("{}@{digest}", repository.name);
        let target = AuditTarget::new("RegistryManifest", manifest.id, description);
        let event = AuditEvent::new(AuditKind::RegistryManifestDeleted, access.audit_entity(), target);
        Ok(audit::record(transaction, &access.caller, event).await?)
    };
    backend.database.transaction(removed).await
}

/// Returns the manifests of a repository with this digest as subject, which need not exist, after the one
/// with the ID `after`. Returns at most [`MAX_PER_PAGE`], optionally of one type only, and whether more follow.
/// Reserves the memory of the annotations before they are read.
///
/// # Errors
/// Returns `Overloaded` if too little memory is left.
pub async fn referrers(
    backend: &Backend,
    repository_id: i64,
    digest: &Digest,
    artifact_type: Option<&str>,
    after: i64,
    memory: &RequestMemory,
) -> Result<(Vec<Manifest>, bool)> {
    let mut found = Entity::find()
        .filter(Column::RepositoryId.eq(repository_id))
        .filter(Column::SubjectDigest.eq(digest.as_str()))
        .filter(Column::Id.gt(after))
        .order_by_asc(Column::Id)
        .limit(MAX_PER_PAGE + 1);
    if let Some(kind) = artifact_type {
        found = found.filter(Column::ArtifactType.eq(kind));
    }
    let db = backend.database.read();
    let sizes: Vec<Option<i64>> = found
        .clone()
        .select_only()
        .column_as(text_bytes(Expr::col(Column::Annotations)), "size")
        .into_tuple()
        .all(db)
        .await?;
    let size: i64 = sizes.into_iter().flatten().sum();
    memory.reserve_content(u64::try_from(size).unwrap_or_default())?;
    let mut found = found.all(db).await?;
    let more = found.len() as u64 > MAX_PER_PAGE;
    found.truncate(usize::try_from(MAX_PER_PAGE).unwrap_or(usize::MAX));
    Ok((found, more))
}
