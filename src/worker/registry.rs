//! Binds every job kind to its handler.

use domain::code::jobs::{create_repository, delete_merged_branches, maintain_repository};
use domain::delivery::jobs::{run_schedule, ship_merge_requests};
use domain::kernel::Backend;
use domain::lifecycle::deletion;
use domain::planning::jobs::read_messages;
use domain::registry::jobs::{collect_images, delete_registry_repository, delete_registry_tags};
use domain::review::jobs::{finish_merge, keep_merge_request, merge_waiting, recount_closing};
use domain::spaces::jobs::{fork_repository, sweep_expired_access};
use domain::transfers::jobs::{export_group, import_group};
use domain::webhooks::jobs::deliver_hook;
use storage::jobs::{Attempt, Failure, Job, Registry};

/// Returns the handlers of all jobs for a backend.
#[must_use]
pub fn registry(backend: &Backend) -> Registry {
    let of = Over {
        backend,
        registry: Registry::default(),
    };
    of.run(collect_images::run)
        .run(create_repository::run)
        .run(deletion::groups::run)
        .run(delete_merged_branches::run)
        .run(deletion::projects::run)
        .run(delete_registry_repository::run)
        .run(delete_registry_tags::run)
        .run(deletion::users::run)
        .run(deliver_hook::run)
        .run(export_group::run)
        .run(finish_merge::run)
        .attempt(fork_repository::run)
        .attempt(import_group::run)
        .run(keep_merge_request::run)
        .run(maintain_repository::run)
        .run(merge_waiting::run)
        .run(read_messages::run)
        .run(recount_closing::run)
        .run(run_schedule::run)
        .run(ship_merge_requests::run)
        .run(sweep_expired_access::run)
        .registry
}

/// A registry whose handlers get the backend as the first argument.
struct Over<'a> {
    backend: &'a Backend,
    registry: Registry,
}

impl Over<'_> {
    /// Adds the handler of one kind.
    fn run<J, F, Fut>(self, work: F) -> Self
    where
        J: Job,
        F: Fn(Backend, J) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        self.attempt(move |backend, job, _| work(backend, job))
    }

    /// Adds the handler of one kind that also gets the number of the attempt.
    fn attempt<J, F, Fut>(self, work: F) -> Self
    where
        J: Job,
        F: Fn(Backend, J, Attempt) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        let own = self.backend.clone();
        Self {
            registry: self
                .registry
                .handle(move |job, attempt| work(own.clone(), job, attempt)),
            ..self
        }
    }
}
