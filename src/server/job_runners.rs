//! Runners of background jobs. Kinds of jobs that may take long have a runner of their own, so that other jobs do not
//! wait for them.

use std::path::PathBuf;
use std::time::Duration;

use domain::activity::jobs::deliver_status_check::DeliverStatusCheck;
use domain::activity::jobs::deliver_webhook::DeliverWebhook;
use domain::code::jobs::maintain_repository::MaintainRepository;
use domain::code::jobs::prune_repository::PruneRepository;
use domain::kernel::Backend;
use domain::mirrors::jobs::update_pull_mirror::UpdatePullMirror;
use domain::mirrors::jobs::update_remote_mirror::UpdateRemoteMirror;
use domain::spaces::jobs::import_repository::ImportRepository;
use domain::transfers::jobs::import_group::ImportGroup;
use futures_util::future::join_all;
use storage::jobs::{Job, JobRunner, RunnerOptions};
use tokio_util::sync::CancellationToken;

use crate::worker;

/// Number of concurrent webhook deliveries; they mostly wait for the network.
const MAX_DELIVERIES: usize = 64;
/// Number of concurrent imports of groups, which may take long.
const MAX_IMPORTS: usize = 1;
/// Number of concurrent updates of remote mirrors. Each can run a Git program and store a list of references.
const MAX_MIRROR_UPDATES: usize = 4;
/// Number of concurrent updates of pull mirrors. Each can receive a pack, which Git then checks.
const MAX_PULL_MIRROR_UPDATES: usize = 4;
/// Number of concurrent imports of projects by URL, which receive packs too, and may take longer than all updates.
const MAX_PROJECT_IMPORTS: usize = 2;
/// Number of repositories that are maintained concurrently. The time of the programs depends on the pushed content.
const MAX_MAINTENANCE: usize = 2;

/// Kinds of jobs with a runner of their own, and the number of them that run concurrently.
const SEPARATE: [(usize, &[&str]); 6] = [
    (MAX_DELIVERIES, &[DeliverWebhook::KIND, DeliverStatusCheck::KIND]),
    (MAX_IMPORTS, &[ImportGroup::KIND]),
    (MAX_MIRROR_UPDATES, &[UpdateRemoteMirror::KIND]),
    (MAX_PULL_MIRROR_UPDATES, &[UpdatePullMirror::KIND]),
    (MAX_PROJECT_IMPORTS, &[ImportRepository::KIND]),
    (
        MAX_MAINTENANCE,
        &[MaintainRepository::KIND, PruneRepository::KIND],
    ),
];

/// Runs background jobs and recurring work until `stopping`; jobs that run then have `drain` to finish.
pub(super) async fn run_jobs(
    backend: Backend,
    data_dir: PathBuf,
    drain: Duration,
    stopping: CancellationToken,
) {
    let running = runners(&backend, drain)
        .into_iter()
        .map(|runner| runner.run(stopping.clone().cancelled_owned()));
    let running = join_all(running);
    tokio::join!(
        running,
        worker::restrict_data_directory(data_dir, stopping.clone()),
        worker::recur(backend, stopping),
    );
}

/// Returns the runners of all jobs.
fn runners(backend: &Backend, drain: Duration) -> Vec<JobRunner> {
    let options = RunnerOptions {
        drain,
        ..RunnerOptions::default()
    };
    let mut others = worker::registry(backend);
    let mut runners = Vec::with_capacity(SEPARATE.len() + 1);
    for (concurrency, kinds) in SEPARATE {
        let (registry, rest) = others.divide(kinds);
        others = rest;
        let options = RunnerOptions {
            concurrency,
            ..options.clone()
        };
        runners.push(JobRunner::new(backend.database.clone(), registry, options));
    }
    runners.push(JobRunner::new(backend.database.clone(), others, options));
    runners
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_of_projects_and_updates_of_pull_mirrors_have_their_own_runners() {
        for (number, kind) in [
            (MAX_PULL_MIRROR_UPDATES, UpdatePullMirror::KIND),
            (MAX_PROJECT_IMPORTS, ImportRepository::KIND),
        ] {
            let mut separate = SEPARATE.into_iter().filter(|(_, kinds)| kinds.contains(&kind));
            assert_eq!(separate.next(), Some((number, &[kind][..])), "{kind}");
        }
    }

    #[test]
    fn maintenance_of_repositories_has_its_own_runner() {
        let maintenance = [MaintainRepository::KIND, PruneRepository::KIND];
        for kind in maintenance {
            let mut separate = SEPARATE.into_iter().filter(|(_, kinds)| kinds.contains(&kind));
            assert_eq!(
                separate.next(),
                Some((MAX_MAINTENANCE, &maintenance[..])),
                "{kind}"
            );
        }
    }
}
