//! Background jobs, stored in the database with the data they refer to and run at least once.
//!
//! A job is a small serializable struct that implements [`Job`]. [`enqueue`] adds it in the transaction of
//! the change that causes it, so both happen or neither. A [`JobRunner`] on any node runs it with the handler
//! its [`JobRegistry`] has for the kind. If a node dies during a job, the lease on the job expires and another
//! node starts it again. Handlers must therefore be idempotent.
//!
//! For the reasons against a library, see `docs/adr/0004-store-background-jobs-in-the-database.md`.

mod claimed;
mod failed;
mod queue;
mod runner;
mod statistics;
// A function that is not registered as a test is an error.
#[cfg(test)]
#[warn(dead_code)]
mod tests;

use std::{collections::HashMap, error::Error as StdError, fmt, future::Future, sync::Arc, time::Duration};

use futures_util::{FutureExt, future::BoxFuture};
use serde::{Serialize, de::DeserializeOwned};

use crate::error_chain::error_chain;

pub use claimed::enqueue_claimed;
pub use failed::{discard_failed, failed_with_keys, list_failed, retry_failed};
pub use queue::{
    EnqueueError, JobBacklog, backlog, cancel, enqueue, enqueue_at, is_scheduled, purge_dead,
    requeue_abandoned,
};
pub use runner::{JobRunner, RunnerOptions};
pub use statistics::{JobStatistics, statistics};

/// A unit of deferred work: its payload and its limits.
pub trait Job: Serialize + DeserializeOwned + Send + 'static {
    /// The name stored in rows. Neither the name nor the format of the payload may change incompatibly while
    /// rows may exist.
    const KIND: &'static str;

    /// Maximum number of attempts.
    const MAX_ATTEMPTS: u16 = 10;

    /// Time limit of one attempt, and of each of its statements.
    const TIMEOUT: Duration = Duration::from_secs(60 * 60);

    /// Returns the deduplication key. Jobs of one kind and key are equivalent: while one waits, enqueueing
    /// another only updates it. No two of them run at the same time. Jobs without a key are independent.
    fn dedup_key(&self) -> Option<String> {
        None
    }
}

/// Position of an attempt among the allowed ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobAttempt {
    /// The number of the attempt, from 1.
    pub number: i32,
    /// The maximum number of attempts.
    pub of: i32,
}

impl JobAttempt {
    /// Returns whether the job fails permanently if this attempt fails.
    pub fn is_last(self) -> bool {
        self.number >= self.of
    }
}

/// The reason why an attempt did not succeed. An error of another type is transient: it leads to a retry.
#[derive(Debug)]
pub struct JobFailure {
    reason: String,
    kind: FailureKind,
}

/// Consequence of an attempt without success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FailureKind {
    /// The job fails at once.
    Permanent,
    /// The job is retried, unless this was the last attempt.
    Transient,
    /// The attempt does not count, and the job runs again after this time.
    Postponed(Duration),
}

impl JobFailure {
    /// Creates a failure that a retry cannot fix: the job fails at once.
    pub fn permanent(reason: impl fmt::Display) -> Self {
        Self {
            reason: reason.to_string(),
            kind: FailureKind::Permanent,
        }
    }

    /// Creates a failure that a retry may fix.
    pub fn transient(reason: impl fmt::Display) -> Self {
        Self {
            reason: reason.to_string(),
            kind: FailureKind::Transient,
        }
    }

    /// Returns the job to the queue for at least this time, because it cannot run now. The attempt does not count.
    pub fn postponed(delay: Duration, reason: impl fmt::Display) -> Self {
        Self {
            reason: reason.to_string(),
            kind: FailureKind::Postponed(delay),
        }
    }
}

impl<E: StdError> From<E> for JobFailure {
    fn from(error: E) -> Self {
        Self::transient(error_chain(&error))
    }
}

/// Handlers by kind. A runner ignores kinds without a handler, which may belong to nodes that already run the
/// next version.
#[derive(Clone, Default)]
pub struct JobRegistry {
    handlers: HashMap<&'static str, RegisteredHandler>,
}

type JobHandler = Arc<dyn Fn(&str, JobAttempt) -> BoxFuture<'static, Result<(), JobFailure>> + Send + Sync>;

#[derive(Clone)]
struct RegisteredHandler {
    work: JobHandler,
    timeout: Duration,
    max_attempts: u16,
}

impl JobRegistry {
    /// Adds the handler of a kind, replacing an earlier one.
    #[must_use]
    pub fn handle<J, F, Fut>(mut self, work: F) -> Self
    where
        J: Job,
        F: Fn(J, JobAttempt) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), JobFailure>> + Send + 'static,
    {
        let work: JobHandler = Arc::new(move |payload, attempt| match serde_json::from_str::<J>(payload) {
            Ok(job) => work(job, attempt).boxed(),
            Err(error) => {
                let failure = JobFailure::permanent(format!("malformed payload: {error}"));
                std::future::ready(Err(failure)).boxed()
            }
        });
        self.handlers.insert(
            J::KIND,
            RegisteredHandler {
                work,
                timeout: J::TIMEOUT,
                max_attempts: J::MAX_ATTEMPTS,
            },
        );
        self
    }

    /// Splits the handlers into those of the given kinds and the others.
    #[must_use]
    pub fn divide(self, kinds: &[&str]) -> (Self, Self) {
        let (those, others) = self
            .handlers
            .into_iter()
            .partition(|(kind, _)| kinds.contains(kind));
        (Self { handlers: those }, Self { handlers: others })
    }

    /// Returns the maximum number of attempts of a new job of a kind, or `None` without a handler of the kind.
    fn max_attempts(&self, kind: &str) -> Option<i32> {
        self.get(kind).map(|(_, handler)| i32::from(handler.max_attempts))
    }

    fn kinds(&self) -> Vec<&'static str> {
        self.handlers.keys().copied().collect()
    }

    fn get(&self, kind: &str) -> Option<(&'static str, &RegisteredHandler)> {
        self.handlers
            .get_key_value(kind)
            .map(|(kind, handler)| (*kind, handler))
    }
}

impl fmt::Debug for JobRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.handlers.keys()).finish()
    }
}
