//! The registry of container images: what a client of OCI Distribution 1.1 may do with the repositories of projects, and how
//! their bytes are kept (specification 2.17 and 4.17, `docs/adr/0025-store-registry-blobs-in-pieces.md`).
//!
//! A blob is kept once, whichever repositories have it; which may serve it is told by rows of their own. Its bytes lie in
//! pieces in the object storage. An upload is a list of pieces as well, so that any node goes on with it and its end moves
//! no byte. A piece is noted before anything of it is written, so that nothing lies in the storage that nobody knows of.
//!
//! Whoever changes the manifests or tags of a repository holds it; blobs are locked after that.

pub mod blobs;
pub mod cleaning;
pub mod collecting;
pub mod deleting;
mod digest;
pub mod examining;
mod fault;
pub mod listing;
pub mod manifests;
mod names;
pub mod places;
mod receiving;
pub mod repositories;
mod rights;
pub mod tags;
pub mod tokens;
pub mod uploads;

use sea_orm::{ColumnTrait, ConnectionTrait, QueryFilter};
use storage::entities::registry_repositories::{self, Column, Model};

use crate::error::{Error, Result};
use crate::services::access::ProjectAccess;

pub use digest::Digest;
pub use fault::{Code, Fault};
pub use names::Name;
pub use repositories::Place;
pub use rights::{Action, Actions};

/// Refuses whoever may not pull images from a project, and everybody where the registry is switched off.
///
/// # Errors
/// 403.
fn admit(access: &ProjectAccess) -> Result<()> {
    match rights::may_pull(access) {
        true => Ok(()),
        false => Err(Error::forbidden()),
    }
}

/// A repository of a project.
///
/// # Errors
/// 404.
async fn find(db: &impl ConnectionTrait, access: &ProjectAccess, id: i64) -> Result<Model> {
    let found = registry_repositories::of_project(access.project.id).filter(Column::Id.eq(id));
    found.one(db).await?.ok_or_else(|| Error::not_found(""))
}
