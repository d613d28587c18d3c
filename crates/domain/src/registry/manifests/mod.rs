//! Manifests: lookup, lists and deletion. For uploads see [`push`].

mod document;
mod upload;

use sea_orm::{
    ColumnTrait, DatabaseTransaction, EntityTrait, PaginatorTrait, QueryFilter, QueryOrder, QuerySelect,
};
use storage::entities::registry_manifests::{Column, Entity, by_digest};
use storage::entities::{
    registry_manifest_contents as contents, registry_manifest_references as references,
    registry_repositories, registry_tags,
};

use super::digest::Digest;
use super::tags;
use crate::kernel::Backend;
use crate::kernel::error::Result;
use crate::registry::error::{Code, Fault};

pub use document::Annotations;
pub use storage::entities::registry_manifests::Model as Manifest;
pub use upload::{LARGEST, Pushed, push};

/// Maximum number of manifests in a referrer list.
pub const PAGE: u64 = 50;

/// Reference to a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reference {
    /// A tag.
    Tag(String),
    /// A digest.
    Digest(Digest),
}

impl Reference {
    /// Parses the reference of an upload.
    ///
    /// # Errors
    /// Returns `DIGEST_INVALID` or `MANIFEST_INVALID` if it is neither a digest nor a tag.
    pub fn parse(text: &str) -> Result<Self, Fault> {
        if text.contains(':') {
            return Ok(Self::Digest(Digest::parse(text)?));
        }
        let wrong = "a tag must have 1 to 128 letters, digits, dots, dashes and underscores";
        match tags::is_name(text) {
            true => Ok(Self::Tag(text.to_owned())),
            false => Err(Fault::new(Code::ManifestInvalid, wrong)),
        }
    }

    /// Parses the reference of a lookup. An invalid tag name is reported as missing.
    ///
    /// # Errors
    /// Returns `DIGEST_INVALID` for a malformed digest, and `MANIFEST_UNKNOWN` for an invalid tag name.
    pub fn to_present(text: &str) -> Result<Self, Fault> {
        match text.contains(':') || tags::is_name(text) {
            true => Self::parse(text),
            false => Err(unknown(&Self::Tag(text.to_owned()))),
        }
    }
}

fn unknown(reference: &Reference) -> Fault {
    let what = match reference {
        Reference::Tag(name) => name,
        Reference::Digest(digest) => digest.as_str(),
    };
    Fault::about(Code::ManifestUnknown, "manifest unknown", what)
}

/// Returns a manifest of a repository with its bytes.
///
/// # Errors
/// Returns `MANIFEST_UNKNOWN` if it does not exist.
pub async fn read(
    backend: &Backend,
    repository_id: i64,
    reference: &Reference,
) -> Result<(Manifest, Vec<u8>), Fault> {
    let db = backend.database.read();
    let found = match reference {
        Reference::Digest(digest) => by_digest(repository_id, digest.as_str()).one(db).await?,
        Reference::Tag(name) => {
            let named =
                registry_tags::with_manifests(repository_id).filter(registry_tags::Column::Name.eq(name));
            named.one(db).await?.and_then(|(_, manifest)| manifest)
        }
    };
    let manifest = found.ok_or_else(|| unknown(reference))?;
    let content = contents::of(db, manifest.id).await?;
    Ok((manifest, content.ok_or_else(|| unknown(reference))?))
}

/// Deletes a manifest with all its tags. Its content remains until the garbage collection.
///
/// # Errors
/// Returns `MANIFEST_UNKNOWN` if it does not exist, and `DENIED` while a list contains it.
pub async fn delete(backend: &Backend, repository_id: i64, digest: &Digest) -> Result<(), Fault> {
    let missing = || unknown(&Reference::Digest(digest.clone()));
    let removed = async |transaction: &DatabaseTransaction| {
        let held = registry_repositories::lock_for_push(transaction, repository_id).await?;
        held.ok_or_else(missing)?;
        let found = by_digest(repository_id, digest.as_str()).one(transaction).await?;
        let manifest = found.ok_or_else(missing)?;
        let named = references::Entity::find().filter(references::Column::ChildId.eq(manifest.id));
        if named.count(transaction).await? > 0 {
            return Err(Fault::about(
                Code::InUse,
                "an image index refers to the manifest",
                digest,
            ));
        }
        Entity::delete_by_id(manifest.id).exec(transaction).await?;
        Ok(())
    };
    backend.database.transaction(removed).await
}

/// Returns the manifests of a repository with this digest as subject, which need not exist, after the one
/// with the ID `after`. Returns at most [`PAGE`], optionally of one type only, and whether more follow.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn about(
    backend: &Backend,
    repository_id: i64,
    digest: &Digest,
    artifact_type: Option<&str>,
    after: i64,
) -> Result<(Vec<Manifest>, bool)> {
    let mut found = Entity::find()
        .filter(Column::RepositoryId.eq(repository_id))
        .filter(Column::SubjectDigest.eq(digest.as_str()))
        .filter(Column::Id.gt(after))
        .order_by_asc(Column::Id)
        .limit(PAGE + 1);
    if let Some(kind) = artifact_type {
        found = found.filter(Column::ArtifactType.eq(kind));
    }
    let mut found = found.all(backend.database.read()).await?;
    let more = found.len() as u64 > PAGE;
    found.truncate(usize::try_from(PAGE).unwrap_or(usize::MAX));
    Ok((found, more))
}
