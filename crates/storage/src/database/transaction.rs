//! Transactions that write.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;

use sea_orm::{DatabaseTransaction, DbErr};

use super::Database;
use super::request::{self, RequestPermit};

thread_local! {
    /// Whether the transaction that this thread polls enqueued jobs.
    static ENQUEUED_JOBS: Cell<bool> = const { Cell::new(false) };
}

/// Marks the current [`Database::transaction`], so that its commit wakes the receivers of
/// [`Database::commits`]. Has no effect outside a transaction: the receivers also poll.
pub fn wake_on_commit() {
    ENQUEUED_JOBS.set(true);
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
    /// # Errors
    /// The error of `work`, or a database error when the transaction starts or commits.
    pub async fn transaction<T, E: From<DbErr>>(
        &self,
        work: impl AsyncFnOnce(&DatabaseTransaction) -> Result<T, E>,
    ) -> Result<T, E> {
        // The compiler creates this function again for each caller, so the steps around `work` are functions of their own.
        let started = self.start().await?;
        let mut enqueued_jobs = false;
        let outcome = {
            let mut work = pin!(work(&started.transaction));
            poll_fn(|context| {
                let outer = ENQUEUED_JOBS.replace(enqueued_jobs);
                let state = work.as_mut().poll(context);
                enqueued_jobs = ENQUEUED_JOBS.replace(outer);
                state
            })
            .await
        };
        match outcome {
            Ok(value) => {
                self.commit(started, enqueued_jobs).await?;
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

    async fn commit(&self, started: Started, enqueued_jobs: bool) -> Result<(), DbErr> {
        started.transaction.commit().await?;
        if enqueued_jobs {
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
