//! Container registry of projects: OCI Distribution 1.1 and the storage of its content
//! (`docs/adr/0025-store-registry-blobs-in-pieces.md`).
//!
//! A blob is stored once. Separate rows link it to the repositories that may serve it. Its bytes are stored
//! in pieces in the object storage. An upload is also a list of pieces, so that any node can continue it and
//! its completion copies no data. A piece is recorded before it is written, so that the storage contains no
//! unknown objects.
//!
//! Every change of manifests or tags locks the repository first, and blobs after that.

pub mod blobs;
pub mod deletion;
mod digest;
mod error;
pub mod expiration_policies;
pub mod garbage_collection;
pub mod integrity;
pub mod jobs;
pub mod listing;
pub mod manifests;
mod permissions;
mod reauthorization;
pub mod repositories;
pub mod tag_cleanup;
pub mod tags;
pub mod tokens;
mod upload_stream;
pub mod uploads;

use sea_orm::{ColumnTrait, ConnectionTrait, QueryFilter};
use storage::entities::registry_repositories::{self, Column, Model};

use crate::identity::access::ProjectAccess;
use crate::kernel::error::{Error, Result};

pub use crate::registry::error::{RegistryError, RegistryErrorCode};
pub use crate::registry::permissions::{RegistryAction, RegistryActions};
pub use digest::Digest;
pub use parsers::registry::ImageName;
pub use repositories::RepositoryPath;

/// Returns whether the object storage has a part of a blob under a key.
pub(crate) fn is_object_key(key: &str) -> bool {
    key.strip_prefix(upload_stream::FOLDER)
        .is_some_and(|rest| rest.starts_with('/'))
}

/// Refuses callers who cannot pull images of a project, and all callers if the registry is disabled.
///
/// # Errors
/// Returns `Forbidden` for refused callers.
fn check_can_pull(access: &ProjectAccess) -> Result<()> {
    match permissions::can_pull(access) {
        true => Ok(()),
        false => Err(Error::forbidden()),
    }
}

/// Returns a repository of a project.
///
/// # Errors
/// Returns `NotFound` if the repository does not exist.
async fn find_repository(db: &impl ConnectionTrait, access: &ProjectAccess, id: i64) -> Result<Model> {
    let found = registry_repositories::of_project(access.project.id).filter(Column::Id.eq(id));
    found.one(db).await?.ok_or_else(|| Error::not_found(""))
}
