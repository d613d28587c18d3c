//! Which job is run by what: the one list of all kinds.

use super::Registry;
use super::{create_repository, delete_project, maintain_repository};
use crate::services::Backend;

/// The handlers of all jobs over one backend.
#[must_use]
pub fn registry(backend: &Backend) -> Registry {
    let (upkeep, creation, deletion) = (backend.clone(), backend.clone(), backend.clone());
    Registry::default()
        .handle(move |job, _| maintain_repository::run(upkeep.clone(), job))
        .handle(move |job, _| create_repository::run(creation.clone(), job))
        .handle(move |job, _| delete_project::run(deletion.clone(), job))
}
