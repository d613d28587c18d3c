//! Migration of the schema.

use std::time::{Duration, Instant};

use migration::{Migrator, MigratorTrait};
use sea_orm::sqlx::Connection;
use sea_orm::sqlx::postgres::PgConnection;
use sea_orm::{ConnectionTrait, DatabaseBackend, DbErr, Statement};

use super::violation::is_lock_timeout;
use super::{Database, Error, is_deadlock, postgresql};

/// Advisory lock of a migration in PostgreSQL; the number is arbitrary but must never change.
pub(super) const MIGRATION_LOCK: i64 = 0x484f_4c44_4641_5354;
/// Advisory lock of the process that repeats a migration, also between its attempts. Otherwise the attempts of several
/// processes would follow each other without a pause.
pub(super) const REPETITION_LOCK: i64 = 0x484f_4c44_4641_5355;
/// Pause between two attempts to acquire this lock.
const REPETITION_LOCK_PAUSE: Duration = Duration::from_secs(1);

/// Maximum time that a statement of a migration waits for a table. PostgreSQL queues all later statements on the table
/// behind it, also reads.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// Minimum pause before the next attempt, in which the other statements run.
const LOCK_PAUSE: Duration = Duration::from_secs(10);
/// Minimum pause in relation to the attempt before it, which can build indexes and block writes meanwhile.
const PAUSE_PER_ATTEMPT: u32 = 2;

/// How a migration on PostgreSQL waits for tables that other sessions use.
#[derive(Debug, Clone, Copy)]
pub(super) struct TableWait {
    /// Maximum time of one statement.
    pub(super) limit: Duration,
    /// Minimum time between two attempts.
    pub(super) pause: Duration,
}

impl TableWait {
    const DEFAULT: Self = Self {
        limit: LOCK_TIMEOUT,
        pause: LOCK_PAUSE,
    };

    /// Returns the pause after an attempt.
    pub(super) fn pause_after(self, attempt: Duration) -> Duration {
        self.pause.max(attempt.saturating_mul(PAUSE_PER_ATTEMPT))
    }
}

impl Database {
    /// Migrates the schema in one transaction. Other nodes and processes that start at the same time wait for
    /// it.
    ///
    /// # Errors
    /// A database error; also if the schema is newer than this program.
    pub async fn migrate(&self) -> Result<(), Error> {
        self.migrate_waiting(TableWait::DEFAULT).await
    }

    /// As [`Self::migrate`].
    pub(super) async fn migrate_waiting(&self, wait: TableWait) -> Result<(), Error> {
        match self.check_schema().await {
            Err(Error::OlderSchema) => {}
            checked => return checked,
        }
        self.apply_migrations(None, wait).await
    }

    /// Applies the first `count` migrations to an empty database, as [`Self::migrate`] does. Migrations that are applied
    /// count too.
    ///
    /// # Errors
    /// A database error.
    pub async fn migrate_first(&self, count: u32) -> Result<(), Error> {
        let applied = u32::try_from(self.applied_migrations().await.len()).unwrap_or(u32::MAX);
        match count.checked_sub(applied) {
            None | Some(0) => Ok(()),
            missing => self.apply_migrations(missing, TableWait::DEFAULT).await,
        }
    }

    /// Applies migrations. On PostgreSQL, one process at a time does so.
    async fn apply_migrations(&self, count: Option<u32>, wait: TableWait) -> Result<(), Error> {
        if self.backend() != DatabaseBackend::Postgres {
            tracing::info!("started to migrate the schema");
            return self.try_migrations(count, wait.limit).await;
        }
        let session = self.lock_repetition().await?;
        tracing::info!("started to migrate the schema");
        let outcome = self.repeat_migrations(count, wait).await;
        // An error has no effect: PostgreSQL also detects a lost connection.
        let _ = session.close().await;
        outcome
    }

    /// Waits until no other process applies migrations, and returns the session that has the lock until its end. The wait
    /// can take hours, so no statement waits: its snapshot would prevent VACUUM from removing rows, and PostgreSQL would not
    /// detect the end of this process.
    async fn lock_repetition(&self) -> Result<PgConnection, DbErr> {
        let mut session = postgresql::open_session(&self.writer.pool).await?;
        let mut is_logged = false;
        while !postgresql::try_lock(&mut session, REPETITION_LOCK).await? {
            if !is_logged {
                tracing::info!("started to wait for another process that applies migrations");
                is_logged = true;
            }
            tokio::time::sleep(REPETITION_LOCK_PAUSE).await;
        }
        Ok(session)
    }

    /// Repeats the transaction until it receives all its locks. There is no limit on the attempts, because a backup of a
    /// large instance uses the tables for hours.
    async fn repeat_migrations(&self, count: Option<u32>, wait: TableWait) -> Result<(), Error> {
        loop {
            let started = Instant::now();
            match self.try_migrations(count, wait.limit).await {
                Err(Error::Database(error)) if is_lock_timeout(&error) || is_deadlock(&error) => {
                    let pause = wait.pause_after(started.elapsed());
                    tracing::warn!(
                        %error,
                        ?pause,
                        "failed to lock the tables of the migration, which other sessions such as a backup use"
                    );
                    tokio::time::sleep(pause).await;
                }
                outcome => return outcome,
            }
        }
    }

    async fn try_migrations(&self, count: Option<u32>, limit: Duration) -> Result<(), Error> {
        self.transaction(async |transaction| {
            if self.backend() == DatabaseBackend::Postgres {
                transaction
                    .execute_unprepared("SET LOCAL statement_timeout = 0")
                    .await?;
                let lock = Statement::from_sql_and_values(
                    DatabaseBackend::Postgres,
                    "SELECT pg_advisory_xact_lock($1)",
                    [MIGRATION_LOCK.into()],
                );
                transaction.execute_raw(lock).await?;
                // Set after the lock, because a process of an older version may migrate for longer.
                let limit = format!("SET LOCAL lock_timeout = {}", limit.as_millis());
                transaction.execute_unprepared(&limit).await?;
            }
            Ok(Migrator::up(transaction, count).await?)
        })
        .await
    }
}
