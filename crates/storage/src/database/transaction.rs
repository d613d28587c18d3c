//! Transactions that write.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;

use sea_orm::{DatabaseTransaction, DbErr};

use super::Database;
use super::request::{self, RequestPermit};

thread_local! {
    /// State of the transaction whose work this thread polls.
    static POLLED: Cell<Option<Progress>> = const { Cell::new(None) };
}

/// State of a transaction during its work.
#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    /// Whether the transaction enqueued jobs.
    enqueued_jobs: bool,
}

/// One poll of the work of a transaction. When it is dropped, also by a panic, it restores the state of the outer
/// transaction.
struct Polled {
    outer: Option<Progress>,
}

impl Polled {
    fn begin(progress: Progress) -> Self {
        Self {
            outer: POLLED.replace(Some(progress)),
        }
    }

    /// Returns the state of the transaction after the poll.
    fn end(self) -> Progress {
        POLLED.get().unwrap_or_default()
    }
}

impl Drop for Polled {
    fn drop(&mut self) {
        POLLED.set(self.outer);
    }
}

/// Marks the current [`Database::transaction`], so that its commit wakes the receivers of
/// [`Database::commits`]. Has no effect outside a transaction: the receivers also poll.
pub fn wake_on_commit() {
    if POLLED.get().is_some() {
        POLLED.set(Some(Progress { enqueued_jobs: true }));
    }
}

/// Checks that the caller does not wait for a connection while its transaction occupies one. If all connections were
/// occupied in this way, each would wait for another until the time limit. Transactions of [`Database::begin`] and
/// [`Database::snapshot`] are not checked.
pub(super) fn check_outside_transaction() {
    debug_assert!(
        POLLED.get().is_none(),
        "a statement in a transaction uses another connection"
    );
}

/// A transaction, and the permit of the request that runs it.
struct Started {
    transaction: DatabaseTransaction,
    _permit: RequestPermit,
}

impl Database {
    /// Runs `work` in one transaction. It is committed if `work` succeeds, and rolled back if it fails,
    /// panics or is dropped. Slow operations such as Git or network access must run outside, because they
    /// block all other writers.
    ///
    /// `work` must run all its statements in this transaction. In debug builds, a statement on another connection panics.
    ///
    /// # Errors
    /// The error of `work`, or a database error when the transaction starts or commits.
    pub async fn transaction<T, E: From<DbErr>>(
        &self,
        work: impl AsyncFnOnce(&DatabaseTransaction) -> Result<T, E>,
    ) -> Result<T, E> {
        // The compiler creates this function again for each caller, so the steps around `work` are functions of their own.
        let started = self.start().await?;
        let mut progress = Progress::default();
        let outcome = {
            let mut work = pin!(work(&started.transaction));
            poll_fn(|context| {
                let polled = Polled::begin(progress);
                let state = work.as_mut().poll(context);
                progress = polled.end();
                state
            })
            .await
        };
        match outcome {
            Ok(value) => {
                self.commit(started, progress).await?;
                Ok(value)
            }
            Err(error) => {
                started.roll_back().await;
                Err(error)
            }
        }
    }

    async fn start(&self) -> Result<Started, DbErr> {
        let permit = request::admit().await?;
        let transaction = self.begin().await?;
        Ok(Started {
            transaction,
            _permit: permit,
        })
    }

    async fn commit(&self, started: Started, progress: Progress) -> Result<(), DbErr> {
        started.transaction.commit().await?;
        if progress.enqueued_jobs {
            self.work_committed.send_replace(());
        }
        Ok(())
    }
}

impl Started {
    async fn roll_back(self) {
        // The error of the work has the cause. A rollback fails too if the connection is lost, or if SQLite has already
        // rolled the transaction back because its disk is full.
        if let Err(rollback) = self.transaction.rollback().await {
            tracing::debug!(error = %rollback, "failed to roll back a failed transaction");
        }
    }
}
