//! Which job is run by what: the one list of all kinds.

use super::{
    Registry, create_repository, delete_group, delete_merged_branches, delete_project, delete_user,
    deliver_hook, finish_merge, fork_repository, keep_merge_request, maintain_repository, merge_waiting,
    read_messages, recount_closing, run_schedule, ship_merge_requests, sweep_expired_access,
};
use crate::services::Backend;

/// The handlers of all jobs over one backend.
#[must_use]
pub fn registry(backend: &Backend) -> Registry {
    let own = || backend.clone();
    let (creation, merged, project, user, upkeep) = (own(), own(), own(), own(), own());
    let (group, expired, hooks, forks) = (own(), own(), own(), own());
    let (finished, kept, counted, read) = (own(), own(), own(), own());
    let (waiting, schedules, shipped) = (own(), own(), own());
    Registry::default()
        .handle(move |job, _| create_repository::run(creation.clone(), job))
        .handle(move |job, _| delete_group::run(group.clone(), job))
        .handle(move |job, _| delete_merged_branches::run(merged.clone(), job))
        .handle(move |job, _| delete_project::run(project.clone(), job))
        .handle(move |job, _| delete_user::run(user.clone(), job))
        .handle(move |job, _| deliver_hook::run(hooks.clone(), job))
        .handle(move |job, _| finish_merge::run(finished.clone(), job))
        .handle(move |job, attempt| fork_repository::run(forks.clone(), job, attempt))
        .handle(move |job, _| keep_merge_request::run(kept.clone(), job))
        .handle(move |job, _| maintain_repository::run(upkeep.clone(), job))
        .handle(move |job, _| merge_waiting::run(waiting.clone(), job))
        .handle(move |job, _| read_messages::run(read.clone(), job))
        .handle(move |job, _| recount_closing::run(counted.clone(), job))
        .handle(move |job, _| run_schedule::run(schedules.clone(), job))
        .handle(move |job, _| ship_merge_requests::run(shipped.clone(), job))
        .handle(move |job, _| sweep_expired_access::run(expired.clone(), job))
}
