//! Which job is run by what: the one list of all kinds.

use super::Registry;
use super::{delete_user, maintain_repository};
use crate::services::Backend;

/// The handlers of all jobs over one backend.
#[must_use]
pub fn registry(backend: &Backend) -> Registry {
    let upkeep = backend.clone();
    let removal = backend.clone();
    Registry::default()
        .handle(move |job, _| maintain_repository::run(upkeep.clone(), job))
        .handle(move |job, _| delete_user::run(removal.clone(), job))
}
