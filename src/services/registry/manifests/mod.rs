//! Manifests: how they are found, listed and removed. How they come is told in [`push`].

mod document;
mod pushing;

use sea_orm::{
    ColumnTrait, DatabaseTransaction, EntityTrait, PaginatorTrait, QueryFilter, QueryOrder, QuerySelect,
};
use storage::entities::registry_manifests::{Column, Entity, by_digest};
use storage::entities::{
    registry_manifest_contents as contents, registry_manifest_references as references,
    registry_repositories, registry_tags,
};

use super::digest::Digest;
use super::fault::{Code, Fault};
use super::tags;
use crate::error::Result;
use crate::services::Backend;

pub use document::Annotations;
pub use pushing::{LARGEST, Pushed, push};
pub use storage::entities::registry_manifests::Model as Manifest;

/// The most manifests of one list of those that are about another.
pub const PAGE: u64 = 50;

/// What names a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reference {
    /// A tag.
    Tag(String),
    /// Its digest.
    Digest(Digest),
}

impl Reference {
    /// Reads a reference that something is to have.
    ///
    /// # Errors
    /// `DIGEST_INVALID` and `MANIFEST_INVALID` for what can be neither.
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

    /// Reads a reference to something that is there. What cannot be a tag is one that is not.
    ///
    /// # Errors
    /// `DIGEST_INVALID` for what should be a digest, `MANIFEST_UNKNOWN` for what cannot be a tag.
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

/// A manifest of a repository and its bytes.
///
/// # Errors
/// `MANIFEST_UNKNOWN` when there is none.
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

/// Removes a manifest with all its tags. What it is made of stays until it is collected.
///
/// # Errors
/// `MANIFEST_UNKNOWN` when there is none, `DENIED` while a list names it.
pub async fn delete(backend: &Backend, repository_id: i64, digest: &Digest) -> Result<(), Fault> {
    let missing = || unknown(&Reference::Digest(digest.clone()));
    let removed = async |transaction: &DatabaseTransaction| {
        let held = registry_repositories::hold(transaction, repository_id).await?;
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

/// The manifests of a repository that are about the one with this digest, whether that is there or not, behind the one with
/// the id `after`: at most [`PAGE`], and whether more follow. Of one type only, where one is given.
///
/// # Errors
/// Whatever the database reports.
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
