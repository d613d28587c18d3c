//! Runner of background jobs.

use std::{future::Future, panic::AssertUnwindSafe, pin::pin, time::Duration};

use chrono::TimeDelta;
use futures_util::FutureExt;
use rand::RngExt;
use sea_orm::DbErr;
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};
use tracing::Instrument;

use super::{JobAttempt, JobFailure, JobRegistry, queue};
use crate::database::{Database, allow_statements_of};
use crate::entities;
use crate::entities::jobs::Model;

/// Options of a runner.
#[derive(Debug, Clone)]
pub struct RunnerOptions {
    /// Number of jobs that run concurrently.
    pub concurrency: usize,
    /// Duration of a claim without renewal, at least one millisecond. It is renewed three times within this
    /// duration.
    pub lease: Duration,
    /// Interval of polling for jobs of other processes and jobs that become due. Jobs enqueued in this
    /// process start at once.
    pub poll: Duration,
    /// Delay after the first failure; each further failure doubles it.
    pub backoff: Duration,
    /// Maximum delay after a failure.
    pub longest_backoff: Duration,
    /// Maximum time a shutdown waits for running jobs; unfinished jobs are released then.
    pub drain: Duration,
}

impl Default for RunnerOptions {
    fn default() -> Self {
        Self {
            concurrency: 4,
            lease: Duration::from_secs(60),
            poll: Duration::from_secs(1),
            backoff: Duration::from_secs(5),
            longest_backoff: Duration::from_secs(60 * 60),
            drain: Duration::from_secs(20),
        }
    }
}

impl RunnerOptions {
    /// Returns the delay after the given number of attempts. It doubles each time up to the maximum. The
    /// result is random between half of that and all of it, so that jobs that failed together do not retry
    /// together.
    #[must_use]
    pub fn retry_delay(&self, attempts: i32) -> Duration {
        let doublings = u32::try_from(attempts - 1).unwrap_or(0).min(31);
        let delay = self
            .backoff
            .saturating_mul(1 << doublings)
            .min(self.longest_backoff);
        delay.mul_f64(rand::rng().random_range(0.5..=1.0))
    }
}

/// Claims jobs and runs them until it is stopped.
#[derive(Debug)]
pub struct JobRunner {
    db: Database,
    registry: JobRegistry,
    options: RunnerOptions,
    id: String,
}

impl JobRunner {
    /// Creates a runner with a unique ID.
    pub fn new(db: Database, registry: JobRegistry, options: RunnerOptions) -> Self {
        Self {
            db,
            registry,
            options,
            id: hex::encode(rand::random::<[u8; 16]>()),
        }
    }

    /// Runs jobs until `shutdown` is ready, then waits for running jobs, at most [`RunnerOptions::drain`]. Database
    /// errors are logged and retried.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let mut shutdown = pin!(shutdown);
        let kinds = self.registry.kinds();
        let mut running = JoinSet::new();
        let mut commits = self.db.commits();
        loop {
            while running.try_join_next().is_some() {}
            // Check for a stop between claims too, even if many jobs are due.
            if shutdown.as_mut().now_or_never().is_some() {
                break;
            }
            let full = running.len() >= self.options.concurrency.max(1);
            if !full && let Some(job) = self.next(&kinds).await {
                running.spawn(self.execution(job));
                continue;
            }
            tokio::select! {
                () = &mut shutdown => break,
                Some(_) = running.join_next() => {}
                () = commits.wait(), if !full => {}
                () = sleep(self.options.poll), if !full => {}
            }
        }
        self.drain(running).await;
    }

    /// Claims the next job, if one is due.
    async fn next(&self, kinds: &[&str]) -> Option<Model> {
        let now = entities::now();
        let claimed = async {
            match queue::claim(self.db.write(), kinds, &self.id, now, lease(&self.options)).await? {
                None => {
                    let lost = queue::mark_lost_dead(self.db.write(), now).await?;
                    if lost > 0 {
                        tracing::error!(lost, "marked jobs of lost runners as failed");
                    }
                    Ok(None)
                }
                job => Ok::<_, DbErr>(job),
            }
        };
        claimed.await.unwrap_or_else(|error| {
            tracing::error!(%error, "failed to query due jobs");
            None
        })
    }

    fn execution(&self, job: Model) -> impl Future<Output = ()> + Send + 'static {
        let span = tracing::info_span!("job", kind = job.kind, id = job.id, attempt = job.attempts);
        let execution = JobExecution {
            db: self.db.clone(),
            registry: self.registry.clone(),
            options: self.options.clone(),
            job,
        };
        execution.run().instrument(span)
    }

    async fn drain(&self, mut running: JoinSet<()>) {
        let all_done = async { while running.join_next().await.is_some() {} };
        if timeout(self.options.drain, all_done).await.is_ok() {
            return;
        }
        tracing::warn!(jobs = running.len(), "shutdown timed out with jobs still running");
        running.shutdown().await;
        if let Err(error) = queue::requeue_all(self.db.write(), &self.id).await {
            tracing::error!(%error, "failed to release jobs; they restart when their leases expire");
        }
    }
}

/// An attempt at a job.
struct JobExecution {
    db: Database,
    registry: JobRegistry,
    options: RunnerOptions,
    job: Model,
}

impl JobExecution {
    async fn run(self) {
        let outcome = tokio::select! {
            outcome = self.work() => outcome,
            () = self.keep_lease() => {
                tracing::warn!("lost the claim on the job to another runner");
                return;
            }
        };
        let settled = match outcome {
            Ok(()) => queue::complete(self.db.write(), &self.job).await,
            Err(failure) => self.fail(failure).await,
        };
        if let Err(error) = settled {
            tracing::error!(%error, "failed to store the result of the job; it restarts when its lease expires");
        }
    }

    async fn work(&self) -> Result<(), JobFailure> {
        let attempt = JobAttempt {
            number: self.job.attempts,
            of: self.job.max_attempts,
        };
        let Some(registered) = self.registry.get(&self.job.kind) else {
            return Err(JobFailure::transient("no handler for the job kind"));
        };
        // A statement may take as long as the job.
        let work = async { (registered.work)(&self.job.payload, attempt).await };
        let work = AssertUnwindSafe(allow_statements_of(registered.timeout, work));
        match timeout(registered.timeout, work.catch_unwind()).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(panic)) => Err(JobFailure::transient(format!(
                "panicked: {}",
                panic_text(&*panic)
            ))),
            Err(_) => Err(JobFailure::transient(format!(
                "took longer than {:?}",
                registered.timeout
            ))),
        }
    }

    /// Renews the lease until the claim is lost.
    async fn keep_lease(&self) {
        let mut ends = entities::now() + lease(&self.options);
        loop {
            sleep(self.options.lease / 3).await;
            let now = entities::now();
            match queue::renew(self.db.write(), &self.job, now, lease(&self.options)).await {
                Ok(true) => ends = now + lease(&self.options),
                Ok(false) => return,
                Err(error) if entities::now() < ends => {
                    tracing::warn!(%error, "failed to renew the claim on the job");
                }
                Err(_) => return,
            }
        }
    }

    async fn fail(&self, failure: JobFailure) -> Result<(), DbErr> {
        let now = entities::now();
        let reason = failure.reason.as_str();
        if failure.permanent || self.job.attempts >= self.job.max_attempts {
            tracing::error!(reason, "job failed permanently");
            return queue::mark_dead(self.db.write(), &self.job, now, reason).await;
        }
        let wait = self.options.retry_delay(self.job.attempts);
        tracing::warn!(reason, ?wait, "job failed and was rescheduled");
        let run_at = now + TimeDelta::from_std(wait).unwrap_or(TimeDelta::MAX);
        queue::retry(self.db.write(), &self.job, run_at, reason).await
    }
}

fn lease(options: &RunnerOptions) -> TimeDelta {
    TimeDelta::from_std(options.lease).unwrap_or(TimeDelta::MAX)
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}
