//! Upload of a manifest: parsed, checked for its references, and stored unchanged.

use std::collections::{BTreeSet, HashMap};

use chrono::{DateTime, Utc};
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait,
    IntoActiveModel, QueryFilter, QuerySelect,
};
use storage::entities::registry_manifests::{ActiveModel, Column, Entity, Model, by_digest};
use storage::entities::{
    now, registry_blobs, registry_manifest_contents as contents, registry_manifest_references as references,
    registry_repositories, registry_repository_blobs as links,
};

use super::ManifestReference;
use super::document::{ManifestChild, ManifestContent, ManifestDocument, creation_time};
use crate::kernel::Backend;
use crate::kernel::budgets::RequestMemory;
use crate::kernel::error::{Error, Result};
use crate::registry::digest::Digest;
use crate::registry::error::{RegistryError, RegistryErrorCode};
use crate::registry::reauthorization::check_push_again;
use crate::registry::repositories::{self, RepositoryPath};
use crate::registry::{blobs, tags};

/// Maximum size of a manifest, in bytes.
pub const MAX_BYTES: usize = 4 << 20;
/// Maximum size of a configuration that is parsed, in bytes.
const MAX_CONFIG_BYTES: i64 = 4 << 20;

/// Maximum size that is processed on the current thread, in bytes.
const MAX_INLINE_BYTES: usize = 64 << 10;
/// Memory of a parsed manifest, as a multiple of its size. A manifest can consist of very short annotations.
const PARSED_FACTOR: u64 = 12;

/// An uploaded manifest.
pub struct UploadedManifest {
    /// The digest.
    pub digest: Digest,
    /// The subject.
    pub subject: Option<Digest>,
}

/// Stores a manifest and points the given tag to it. It may refer only to content of the repository. The caller has
/// reserved the memory of the bytes.
///
/// # Errors
/// Returns `MANIFEST_INVALID` if it is invalid, and `MANIFEST_BLOB_UNKNOWN` for missing content. Returns
/// `DIGEST_INVALID` if it does not match the given digest, and `Overloaded` if too little memory is left.
pub async fn push(
    backend: &Backend,
    repository_path: &RepositoryPath,
    reference: &ManifestReference,
    media_type: &str,
    bytes: Vec<u8>,
    memory: &RequestMemory,
) -> Result<UploadedManifest, RegistryError> {
    let size = bytes.len();
    let parsed_size = match size > MAX_INLINE_BYTES {
        true => PARSED_FACTOR * size as u64,
        false => 0,
    };
    memory.reserve(parsed_size)?;
    let kind = media_type.to_owned();
    let read = move || (Digest::of(&bytes), ManifestDocument::parse(&bytes, &kind), bytes);
    let (digest, document, bytes) = run_blocking(size, read).await?;
    memory.release(parsed_size);
    if let ManifestReference::Digest(named) = reference
        && *named != digest
    {
        let text = "provided digest did not match uploaded content";
        return Err(RegistryError::with_detail(
            RegistryErrorCode::DigestInvalid,
            text,
            named,
        ));
    }
    let document = document?;
    check_push_again(backend, repository_path).await?;
    let image_created_at = image_created_at(backend, repository_path, &digest, &document, memory).await?;
    let subject = document.subject.clone();
    let arrival = ManifestUpload {
        digest: &digest,
        document,
        image_created_at,
        bytes,
    };
    let store = async |transaction: &DatabaseTransaction| {
        let repository = repository_path.repository_for_push(transaction).await?;
        let locked = registry_repositories::lock_for_push(transaction, repository.id).await?;
        let repository = locked.ok_or_else(|| repositories::name_unknown(&repository_path.name))?;
        let manifest = arrival.insert(transaction, repository.id).await?;
        match reference {
            ManifestReference::Tag(name) => {
                tags::set_target(transaction, repository.id, name, manifest.id).await?
            }
            ManifestReference::Digest(_) => {}
        }
        Ok::<_, RegistryError>(())
    };
    backend.database.transaction(store).await?;
    Ok(UploadedManifest { digest, subject })
}

/// Runs CPU-bound work on a blocking thread, unless the input is small.
async fn run_blocking<T: Send + 'static>(
    size: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    match size > MAX_INLINE_BYTES {
        true => tokio::task::spawn_blocking(work).await.map_err(Error::internal),
        false => Ok(work()),
    }
}

/// Returns the creation time of the image, unless its manifest exists already. The lookup precedes the
/// transaction, because it may be slow. A missing configuration is reported in the transaction.
async fn image_created_at(
    backend: &Backend,
    repository_path: &RepositoryPath,
    digest: &Digest,
    document: &ManifestDocument,
    memory: &RequestMemory,
) -> Result<Option<DateTime<Utc>>, RegistryError> {
    let ManifestContent::Image {
        config, dated: true, ..
    } = &document.parts
    else {
        return Ok(None);
    };
    let repository = match repository_path.repository(backend).await {
        Ok(repository) => repository,
        Err(RegistryError::Protocol { .. }) => return Ok(None),
        Err(fault) => return Err(fault),
    };
    let known = by_digest(repository.id, digest.as_str());
    if known.one(backend.database.read()).await?.is_some() {
        return Ok(None);
    }
    match blobs::find(backend, repository.id, config).await {
        Ok(blob) if blob.size <= MAX_CONFIG_BYTES => {
            memory.reserve_content(u64::try_from(blob.size).unwrap_or_default())?;
            let config = blobs::read(backend, &blob).await?;
            Ok(run_blocking(config.len(), move || creation_time(&config)).await?)
        }
        Ok(_) | Err(RegistryError::Protocol { .. }) => Ok(None),
        Err(fault) => Err(fault),
    }
}

struct ManifestUpload<'a> {
    digest: &'a Digest,
    document: ManifestDocument,
    image_created_at: Option<DateTime<Utc>>,
    bytes: Vec<u8>,
}

/// References of a manifest within its repository.
#[derive(Default)]
struct ManifestReferences {
    blobs: BTreeSet<i64>,
    children: BTreeSet<i64>,
    total_size: i64,
}

impl ManifestUpload<'_> {
    /// Inserts the row of the manifest in a locked repository. For an existing untagged row, restarts its
    /// grace period.
    async fn insert(
        &self,
        transaction: &impl ConnectionTrait,
        repository_id: i64,
    ) -> Result<Model, RegistryError> {
        let known = by_digest(repository_id, self.digest.as_str())
            .one(transaction)
            .await?;
        if let Some(manifest) = known {
            if manifest.untagged_since.is_none() {
                return Ok(manifest);
            }
            let mut manifest = manifest.into_active_model();
            manifest.untagged_since = Set(Some(now()));
            return Ok(manifest.update(transaction).await?);
        }
        let needs = self.load_references(transaction, repository_id).await?;
        let document = &self.document;
        let at = now();
        let row = ActiveModel {
            repository_id: Set(repository_id),
            digest: Set(self.digest.to_string()),
            media_type: Set(document.media_type.clone()),
            artifact_type: Set(document.artifact_type.clone()),
            subject_digest: Set(document.subject.as_ref().map(ToString::to_string)),
            config_digest: Set(match &document.parts {
                ManifestContent::Image { config, .. } => Some(config.to_string()),
                ManifestContent::List(_) => None,
            }),
            annotations: Set(document.annotations.clone()),
            size: Set(i64::try_from(self.bytes.len()).map_err(Error::internal)?),
            total_size: Set(needs.total_size),
            image_created_at: Set(self.image_created_at),
            untagged_since: Set(Some(at)),
            created_at: Set(at),
            ..Default::default()
        };
        let manifest = row.insert(transaction).await?;
        let content = contents::ActiveModel {
            manifest_id: Set(manifest.id),
            content: Set(self.bytes.clone()),
            ..Default::default()
        };
        content.insert(transaction).await?;
        let reference = |blob_id, child_id| references::ActiveModel {
            repository_id: Set(repository_id),
            manifest_id: Set(manifest.id),
            blob_id: Set(blob_id),
            child_id: Set(child_id),
            ..Default::default()
        };
        let of_blobs = needs.blobs.into_iter().map(|id| reference(Some(id), None));
        let of_children = needs.children.into_iter().map(|id| reference(None, Some(id)));
        let rows: Vec<_> = of_blobs.chain(of_children).collect();
        if !rows.is_empty() {
            references::Entity::insert_many(rows)
                .exec_without_returning(transaction)
                .await?;
        }
        Ok(manifest)
    }

    async fn load_references(
        &self,
        db: &impl ConnectionTrait,
        repository_id: i64,
    ) -> Result<ManifestReferences, RegistryError> {
        match &self.document.parts {
            ManifestContent::Image { config, layers, .. } => {
                let all: Vec<&Digest> = std::iter::once(config).chain(layers).collect();
                let mut needs = ManifestReferences::default();
                needs.add_blobs(db, repository_id, &all).await?;
                Ok(needs)
            }
            ManifestContent::List(children) => {
                let found = manifests_of(db, repository_id, children).await?;
                let (mut needs, mut others) = (ManifestReferences::default(), Vec::new());
                for ManifestChild { digest, manifest } in children {
                    match found.get(digest.as_str()) {
                        Some((id, size)) => {
                            needs.children.insert(*id);
                            needs.total_size = needs.total_size.saturating_add(*size);
                        }
                        None if *manifest => return Err(blob_unknown(digest)),
                        None => others.push(digest),
                    }
                }
                if !others.is_empty() {
                    needs.add_blobs(db, repository_id, &others).await?;
                }
                Ok(needs)
            }
        }
    }
}

impl ManifestReferences {
    /// Adds blobs that the repository must contain.
    async fn add_blobs(
        &mut self,
        db: &impl ConnectionTrait,
        repository_id: i64,
        digests: &[&Digest],
    ) -> Result<(), RegistryError> {
        let found = blobs_of(db, repository_id, digests).await?;
        for digest in digests {
            let (id, size) = found.get(digest.as_str()).ok_or_else(|| blob_unknown(digest))?;
            self.blobs.insert(*id);
            self.total_size = self.total_size.saturating_add(*size);
        }
        Ok(())
    }
}

fn blob_unknown(digest: &Digest) -> RegistryError {
    let text = "the manifest refers to objects that are not in the repository";
    RegistryError::with_detail(RegistryErrorCode::ManifestBlobUnknown, text, digest)
}

/// Returns the IDs and sizes of these blobs in a repository.
async fn blobs_of(
    db: &impl ConnectionTrait,
    repository_id: i64,
    digests: &[&Digest],
) -> Result<HashMap<String, (i64, i64)>, RegistryError> {
    let digests = digests.iter().map(|digest| digest.as_str());
    let found = registry_blobs::Entity::find().filter(registry_blobs::Column::Digest.is_in(digests));
    let blobs = found.all(db).await?;
    let linked = links::Entity::find()
        .filter(links::Column::RepositoryId.eq(repository_id))
        .filter(links::Column::BlobId.is_in(blobs.iter().map(|blob| blob.id)));
    let linked: BTreeSet<i64> = linked
        .all(db)
        .await?
        .into_iter()
        .map(|link| link.blob_id)
        .collect();
    let blobs = blobs.into_iter().filter(|blob| linked.contains(&blob.id));
    Ok(blobs.map(|blob| (blob.digest, (blob.id, blob.size))).collect())
}

/// Returns the IDs and total sizes of these manifests in a repository. Annotations, which can be long, are not read.
async fn manifests_of(
    db: &impl ConnectionTrait,
    repository_id: i64,
    children: &[ManifestChild],
) -> Result<HashMap<String, (i64, i64)>, RegistryError> {
    let found: Vec<(String, i64, i64)> = Entity::find()
        .select_only()
        .columns([Column::Digest, Column::Id, Column::TotalSize])
        .filter(Column::RepositoryId.eq(repository_id))
        .filter(Column::Digest.is_in(children.iter().map(|child| child.digest.as_str())))
        .into_tuple()
        .all(db)
        .await?;
    let found = found.into_iter().map(|(digest, id, size)| (digest, (id, size)));
    Ok(found.collect())
}
