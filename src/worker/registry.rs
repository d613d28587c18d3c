//! Binds every job kind to its handler.

use domain::code::jobs::{
    create_repository, delete_merged_branches, maintain_repository, prune_repository, set_head,
};
use domain::delivery::{deployments, pipeline_schedules};
use domain::kernel::Backend;
use domain::lifecycle::deletion;
use domain::mirrors::{project_imports, pull_mirrors, updates};
use domain::packages::cleanup;
use domain::packages::jobs::collect_package_garbage;
use domain::planning::jobs::process_commit_messages;
use domain::registry::jobs::{collect_registry_garbage, delete_registry_repository};
use domain::registry::{expiration_policies, tag_cleanup};
use domain::releases::evidence;
use domain::review::jobs::{auto_merge, refresh_closing_issues};
use domain::review::merge_requests;
use domain::spaces::jobs::sweep_expired_access;
use domain::spaces::projects::forks;
use domain::transfers::{exports, imports};
use domain::webhooks::jobs::{deliver_status_check, deliver_webhook};
use storage::jobs::{Job, JobAttempt, JobFailure, JobRegistry};

/// Returns the handlers of all jobs for a backend.
#[must_use]
pub fn registry(backend: &Backend) -> JobRegistry {
    let of = HandlerRegistry {
        backend,
        registry: JobRegistry::default(),
    };
    of.run(collect_registry_garbage::run)
        .run(collect_package_garbage::run)
        .run(cleanup::run_job)
        .run(create_repository::run)
        .run(deletion::groups::run_job)
        .run(delete_merged_branches::run)
        .run(deletion::projects::run_job)
        .run(delete_registry_repository::run)
        .run(tag_cleanup::run_job)
        .run(expiration_policies::run_job)
        .run(deletion::users::run_job)
        .run(deletion::webhooks::run_job)
        .run(deliver_webhook::run)
        .run(deliver_status_check::run)
        .run(exports::run_job)
        .run(evidence::run_job)
        .run(merge_requests::run_post_merge)
        .attempt(forks::run_job)
        .attempt(imports::run_job)
        .run(merge_requests::run_update_head_ref)
        .attempt(updates::run_job)
        .run(pull_mirrors::update::run_job)
        .attempt(project_imports::run_job)
        .run(maintain_repository::run)
        .run(prune_repository::run)
        .run(set_head::run)
        .run(auto_merge::run)
        .run(merge_requests::run_create_merge_request)
        .run(process_commit_messages::run)
        .run(refresh_closing_issues::run)
        .run(pipeline_schedules::run_job)
        .run(deployments::run_job)
        .run(sweep_expired_access::run)
        .registry
}

/// A registry whose handlers get the backend as the first argument.
struct HandlerRegistry<'a> {
    backend: &'a Backend,
    registry: JobRegistry,
}

impl HandlerRegistry<'_> {
    /// Adds the handler of one kind.
    fn run<J, F, Fut>(self, work: F) -> Self
    where
        J: Job,
        F: Fn(Backend, J) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), JobFailure>> + Send + 'static,
    {
        self.attempt(move |backend, job, _| work(backend, job))
    }

    /// Adds the handler of one kind that also gets the number of the attempt.
    fn attempt<J, F, Fut>(self, work: F) -> Self
    where
        J: Job,
        F: Fn(Backend, J, JobAttempt) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), JobFailure>> + Send + 'static,
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
