//! Runner of background jobs.

use std::{
    future::Future,
    panic::AssertUnwindSafe,
    pin::pin,
    time::{Duration, Instant},
};

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::FutureExt;
use rand::RngExt;
use sea_orm::DbErr;
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};
use tracing::Instrument;

use super::{FailureKind, JobAttempt, JobFailure, JobRegistry, queue};
use crate::clock::{ClockWatch, scheduling_time};
use crate::database::{Database, allow_statements_of, is_busy, is_deadlock};
use crate::entities::jobs::Model;
use crate::fault::fault;
use crate::metric_names::{JOB_ATTEMPTS, JOB_SECONDS};

/// First delay before the result of a job is stored again. It is shorter than the interval of polling: otherwise this
/// runner could claim the job again after an outage of the database.
const STORE_DELAY: Duration = Duration::from_millis(50);
/// Maximum delay before the result of a job is stored again.
const LONGEST_STORE_DELAY: Duration = Duration::from_millis(400);

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
        self.longest_retry_delay(attempts)
            .mul_f64(rand::rng().random_range(0.5..=1.0))
    }

    /// Returns the maximum of [`Self::retry_delay`]. An attempt that is scheduled later was scheduled before the clock
    /// of the system was set back.
    #[must_use]
    pub fn longest_retry_delay(&self, attempts: i32) -> Duration {
        let doublings = u32::try_from(attempts - 1).unwrap_or(0).min(31);
        self.backoff
            .saturating_mul(1 << doublings)
            .min(self.longest_backoff)
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
    ///
    /// `shutdown` must not run statements of `db`: it is not polled while the runner waits for a connection.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let mut shutdown = pin!(shutdown);
        let kinds = self.registry.kinds();
        let mut running = JoinSet::new();
        let mut commits = self.db.commits();
        let mut clock = RunnerClock {
            watch: ClockWatch::new(scheduling_time()),
            // The clock may have been set back while no runner was running.
            was_set_back: true,
        };
        loop {
            while running.try_join_next().is_some() {}
            // Check for a stop between claims too, even if many jobs are due.
            if shutdown.as_mut().now_or_never().is_some() {
                break;
            }
            let full = running.len() >= self.options.concurrency.max(1);
            if !full && let Some(job) = self.next(&kinds, &mut clock).await {
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
    async fn next(&self, kinds: &[&str], clock: &mut RunnerClock) -> Option<Model> {
        let now = scheduling_time();
        let claimed = async {
            self.observe_clock(clock, now).await?;
            let leases = clock.watch.lease_time(now, self.options.lease);
            let time = queue::ClaimTime { now, leases };
            match queue::claim(self.db.write(), kinds, &self.id, time, lease(&self.options)).await? {
                None => {
                    let lost = queue::mark_lost_dead(self.db.write(), leases).await?;
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

    /// Corrects the times of jobs if the clock of the system was set back.
    async fn observe_clock(&self, clock: &mut RunnerClock, now: DateTime<Utc>) -> Result<(), DbErr> {
        if let Some(change) = clock.watch.change(now) {
            let seconds = change.num_seconds();
            tracing::warn!(seconds, "the clock of the system was set");
            clock.was_set_back |= change < TimeDelta::zero();
        }
        if clock.was_set_back {
            let longest_delay = |attempts| {
                let delay = self.options.longest_retry_delay(attempts);
                TimeDelta::from_std(delay).unwrap_or(TimeDelta::MAX)
            };
            let lease = lease(&self.options);
            let corrected = queue::correct_times(self.db.write(), now, lease, longest_delay).await?;
            if corrected > 0 {
                tracing::warn!(
                    corrected,
                    "corrected the times of jobs that were dated in the future"
                );
            }
            clock.was_set_back = false;
        }
        Ok(())
    }

    fn execution(&self, job: Model) -> impl Future<Output = ()> + Send + 'static {
        let span = tracing::info_span!("job", kind = job.kind, id = job.id, attempt = job.attempts);
        let trace = tracing::info_span!(
            target: "holdfast::trace",
            parent: None,
            "job",
            otel.name = job.kind,
            job.attempt = job.attempts,
            job.result = tracing::field::Empty,
        );
        let execution = JobExecution {
            db: self.db.clone(),
            registry: self.registry.clone(),
            options: self.options.clone(),
            job,
        };
        execution.run().instrument(trace).instrument(span)
    }

    async fn drain(&self, mut running: JoinSet<()>) {
        let all_done = async { while running.join_next().await.is_some() {} };
        if timeout(self.options.drain, all_done).await.is_ok() {
            return;
        }
        tracing::warn!(jobs = running.len(), "shutdown timed out with jobs still running");
        running.shutdown().await;
        if let Err(error) = queue::requeue_all(&self.db, &self.id).await {
            tracing::error!(%error, "failed to release jobs; they restart when their leases expire");
        }
    }
}

/// The clock of the system, as a runner observes it.
struct RunnerClock {
    watch: ClockWatch,
    /// Whether jobs may be dated in the future.
    was_set_back: bool,
}

/// Result of an attempt.
enum JobResult {
    Done,
    Retry(DateTime<Utc>, String),
    Postponed(DateTime<Utc>, String),
    Dead(String),
}

impl JobResult {
    /// Returns the name of the result in metrics and traces.
    fn name(&self) -> &'static str {
        match self {
            Self::Done => "success",
            Self::Retry(..) => "retry",
            Self::Postponed(..) => "postponed",
            Self::Dead(_) => "failure",
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
        let started = Instant::now();
        let outcome = tokio::select! {
            outcome = self.work() => outcome,
            () = self.keep_lease() => {
                tracing::warn!("lost the claim on the job to another runner");
                self.record("lost", started);
                return;
            }
        };
        let result = match outcome {
            Ok(()) => JobResult::Done,
            Err(failure) => self.result_of(failure),
        };
        self.record(result.name(), started);
        let mut delay = STORE_DELAY;
        while let Err(error) = self.store(&result).await {
            if !is_temporary(&error) {
                tracing::error!(%error, "failed to store the result of the job; it restarts when its lease expires");
                return;
            }
            tracing::warn!(%error, "failed to store the result of the job; it is stored again later");
            sleep(delay).await;
            delay = (delay * 2).min(LONGEST_STORE_DELAY);
        }
    }

    /// Records the result and the time of the attempt in metrics and the trace.
    fn record(&self, result: &'static str, started: Instant) {
        tracing::Span::current().record("job.result", result);
        let kind = self
            .registry
            .get(&self.job.kind)
            .map_or("unknown", |(kind, _)| kind);
        metrics::counter!(JOB_ATTEMPTS, "kind" => kind, "result" => result).increment(1);
        metrics::histogram!(JOB_SECONDS, "kind" => kind).record(started.elapsed().as_secs_f64());
    }

    async fn work(&self) -> Result<(), JobFailure> {
        let attempt = JobAttempt {
            number: self.job.attempts,
            of: self.job.max_attempts,
        };
        let Some((_, registered)) = self.registry.get(&self.job.kind) else {
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
        let mut renewed = Instant::now();
        loop {
            sleep(self.options.lease / 3).await;
            let now = scheduling_time();
            let started = Instant::now();
            match queue::renew(self.db.write(), &self.job, now, lease(&self.options)).await {
                Ok(true) => renewed = started,
                Ok(false) => return,
                Err(error) if renewed.elapsed() < self.options.lease => {
                    tracing::warn!(%error, "failed to renew the claim on the job");
                }
                Err(_) => return,
            }
        }
    }

    /// Returns the result of an attempt without success, and logs the reason.
    fn result_of(&self, failure: JobFailure) -> JobResult {
        let reason = failure.reason;
        let run_at = |wait| scheduling_time() + TimeDelta::from_std(wait).unwrap_or(TimeDelta::MAX);
        if let FailureKind::Postponed(wait) = failure.kind {
            tracing::debug!(reason, ?wait, "postponed the job");
            return JobResult::Postponed(run_at(wait), reason);
        }
        if failure.kind == FailureKind::Permanent || self.job.attempts >= self.job.max_attempts {
            tracing::error!(reason, "job failed permanently");
            return JobResult::Dead(reason);
        }
        let wait = self.options.retry_delay(self.job.attempts);
        tracing::warn!(reason, ?wait, "job failed and was rescheduled");
        JobResult::Retry(run_at(wait), reason)
    }

    /// Stores the result. Has no effect if another runner has claimed the job.
    async fn store(&self, result: &JobResult) -> Result<(), DbErr> {
        let db = self.db.write();
        match result {
            JobResult::Done => queue::complete(db, &self.job).await,
            JobResult::Retry(run_at, reason) => queue::retry(&self.db, &self.job, *run_at, reason).await,
            JobResult::Postponed(run_at, reason) => {
                queue::postpone(&self.db, &self.job, *run_at, reason).await
            }
            JobResult::Dead(reason) => queue::mark_dead(db, &self.job, scheduling_time(), reason).await,
        }
    }
}

/// Returns whether a later attempt can succeed: the database was busy or not available, or its disk was full.
fn is_temporary(error: &DbErr) -> bool {
    matches!(error, DbErr::ConnectionAcquire(_))
        || is_busy(error)
        || is_deadlock(error)
        || fault(error).is_some()
}

fn lease(options: &RunnerOptions) -> TimeDelta {
    TimeDelta::from_std(options.lease).unwrap_or(TimeDelta::MAX)
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}
