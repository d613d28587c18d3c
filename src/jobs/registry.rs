//! Which job is run by what: the one list of all kinds.

use super::Registry;
use super::delete_merged_branches;
use super::maintain_repository;
use crate::services::Backend;

/// The handlers of all jobs over one backend.
#[must_use]
pub fn registry(backend: &Backend) -> Registry {
    let (merged, upkeep) = (backend.clone(), backend.clone());
    Registry::default()
        .handle(move |job, _| delete_merged_branches::run(merged.clone(), job))
        .handle(move |job, _| maintain_repository::run(upkeep.clone(), job))
}
