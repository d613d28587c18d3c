//! Which job is run by what: the one list of all kinds.

use super::{Registry, delete_merged_branches, delete_user, maintain_repository};
use crate::services::Backend;

/// The handlers of all jobs over one backend.
#[must_use]
pub fn registry(backend: &Backend) -> Registry {
    let own = || backend.clone();
    let (merged, user, upkeep) = (own(), own(), own());
    Registry::default()
        .handle(move |job, _| delete_merged_branches::run(merged.clone(), job))
        .handle(move |job, _| delete_user::run(user.clone(), job))
        .handle(move |job, _| maintain_repository::run(upkeep.clone(), job))
}
