//! Background jobs: kept in the database beside the data they are about, run at least once.
//!
//! A job is a small serialisable struct that implements [`Job`]. It is enqueued in the transaction of the
//! change that causes it ([`enqueue`]), so that both happen or neither. A [`Runner`] on any node runs it with
//! the handler its [`Registry`] has for the kind. A node that dies in the middle loses nothing: the lease on
//! the job ends, and another node begins it again. Handlers must therefore bear being run twice.
//!
//! Why this is not a library: `docs/adr/0004-store-background-jobs-in-the-database.md`.

pub mod collect_images;
pub mod create_repository;
pub mod delete_group;
pub mod delete_merged_branches;
pub mod delete_project;
pub mod delete_registry_repository;
pub mod delete_registry_tags;
pub mod delete_user;
pub mod deliver_hook;
pub mod export_group;
pub mod finish_merge;
pub mod fork_repository;
pub mod import_group;
pub mod keep_merge_request;
pub mod maintain_repository;
pub mod merge_waiting;
mod queue;
pub mod read_messages;
pub mod recount_closing;
mod registry;
pub mod run_schedule;
mod runner;
mod scheduler;
pub mod ship_merge_requests;
pub mod sweep_expired_access;
#[cfg(test)]
mod tests;

use std::{collections::HashMap, error::Error as StdError, fmt, future::Future, sync::Arc, time::Duration};

use futures_util::{FutureExt, future::BoxFuture};
use serde::{Serialize, de::DeserializeOwned};

pub use queue::{
    Backlog, EnqueueError, backlog, enqueue, enqueue_at, purge_dead, release_abandoned, withdraw,
};
pub use registry::registry;
pub use runner::{Options, Runner};
pub use scheduler::run as recur;

/// Something to be done later: what is needed to do it, and the rules for doing it.
pub trait Job: Serialize + DeserializeOwned + Send + 'static {
    /// The name that rows carry; never to be changed while rows may exist, nor the payload incompatibly.
    const KIND: &'static str;

    /// How often it may be begun before it is given up.
    const MAX_ATTEMPTS: u16 = 10;

    /// How long one attempt may take.
    const TIMEOUT: Duration = Duration::from_secs(60 * 60);

    /// Jobs of one kind and key do the same thing: while one waits, another only renews it, and no two run at
    /// a time. None stands alone.
    fn dedup_key(&self) -> Option<String> {
        None
    }
}

/// Which attempt at a job this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    /// Counted from 1.
    pub number: i32,
    /// How many there may be.
    pub of: i32,
}

impl Attempt {
    /// Whether the job is given up when this attempt fails.
    pub fn is_last(self) -> bool {
        self.number >= self.of
    }
}

/// Why an attempt failed. Any error is a reason to try again, unless it is marked as permanent.
#[derive(Debug)]
pub struct Failure {
    reason: String,
    permanent: bool,
}

impl Failure {
    /// A failure that will not go away: the job is given up at once.
    pub fn permanent(reason: impl fmt::Display) -> Self {
        Self {
            reason: reason.to_string(),
            permanent: true,
        }
    }

    /// A failure that may go away.
    pub fn passing(reason: impl fmt::Display) -> Self {
        Self {
            reason: reason.to_string(),
            permanent: false,
        }
    }
}

impl<E: StdError> From<E> for Failure {
    fn from(error: E) -> Self {
        let mut reason = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            reason = format!("{reason}: {cause}");
            source = cause.source();
        }
        Self::passing(reason)
    }
}

/// The handlers, by kind. A runner leaves kinds that it has no handler for to others, such as to nodes that
/// already run the next version.
#[derive(Clone, Default)]
pub struct Registry {
    handlers: HashMap<&'static str, Registered>,
}

type Work = Arc<dyn Fn(&str, Attempt) -> BoxFuture<'static, Result<(), Failure>> + Send + Sync>;

#[derive(Clone)]
struct Registered {
    work: Work,
    timeout: Duration,
}

impl Registry {
    /// Adds the handler of one kind; a second one for the kind replaces the first.
    #[must_use]
    pub fn handle<J, F, Fut>(mut self, work: F) -> Self
    where
        J: Job,
        F: Fn(J, Attempt) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        let work: Work = Arc::new(move |payload, attempt| match serde_json::from_str::<J>(payload) {
            Ok(job) => work(job, attempt).boxed(),
            Err(error) => {
                let failure = Failure::permanent(format!("malformed payload: {error}"));
                std::future::ready(Err(failure)).boxed()
            }
        });
        self.handlers.insert(
            J::KIND,
            Registered {
                work,
                timeout: J::TIMEOUT,
            },
        );
        self
    }

    /// Divides the handlers into those of some kinds and the others.
    #[must_use]
    pub fn divide(self, kinds: &[&str]) -> (Self, Self) {
        let (those, others) = self
            .handlers
            .into_iter()
            .partition(|(kind, _)| kinds.contains(kind));
        (Self { handlers: those }, Self { handlers: others })
    }

    fn kinds(&self) -> Vec<&'static str> {
        self.handlers.keys().copied().collect()
    }

    fn get(&self, kind: &str) -> Option<&Registered> {
        self.handlers.get(kind)
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.handlers.keys()).finish()
    }
}
