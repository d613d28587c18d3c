//! Connections of which each client of requests has a share.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use sea_orm::{
    ConnectionTrait, DatabaseBackend, DatabaseConnection, DatabaseTransaction, DbErr, ExecResult,
    QueryResult, Statement, TransactionOptions, TransactionTrait,
};

use super::{pool_usage, request, statement_limit, transaction};

/// A pool of connections for single statements. Statements of a request wait for the share of their client
/// ([`use_share`](super::use_share)).
#[derive(Debug, Clone)]
pub struct Connections {
    pub(super) pool: DatabaseConnection,
    /// Time after which PostgreSQL cancels a statement; zero for never.
    statement_timeout: Duration,
    /// Whether statements may write.
    writes: bool,
}

impl Connections {
    /// Returns connections for statements that only read.
    pub(super) fn reading(pool: DatabaseConnection, statement_timeout: Duration) -> Self {
        Self {
            pool,
            statement_timeout,
            writes: false,
        }
    }

    /// Returns connections for statements that may write.
    pub(super) fn writing(pool: DatabaseConnection, statement_timeout: Duration) -> Self {
        Self {
            writes: true,
            ..Self::reading(pool, statement_timeout)
        }
    }

    /// Starts a transaction with the time limit of the current work.
    ///
    /// # Errors
    /// A database error, for example if no connection becomes free in time.
    pub(super) async fn begin(&self, options: TransactionOptions) -> Result<DatabaseTransaction, DbErr> {
        transaction::check_outside_transaction();
        self.forget_version();
        let (started, pool) = (Instant::now(), self.pool.clone());
        // The driver for PostgreSQL would leave the transaction open on a pooled connection if it was dropped meanwhile. Later
        // statements on that connection would then be acknowledged, but not committed.
        let beginning = request::Statement::new(async move { pool.begin_with_options(options).await });
        let transaction = pool_usage::counted(beginning.await)?;
        pool_usage::record_wait(started.elapsed());
        if let Some(limit) = statement_limit::longer_than(self.statement_timeout) {
            statement_limit::set(&transaction, limit).await?;
        }
        Ok(transaction)
    }

    /// Starts a transaction for a single statement if the current work has a longer time limit than the connections.
    async fn begin_longer(&self) -> Result<Option<DatabaseTransaction>, DbErr> {
        match statement_limit::longer_than(self.statement_timeout) {
            Some(_) => self.begin(TransactionOptions::default()).await.map(Some),
            None => Ok(None),
        }
    }

    /// Stops the use of caches for the rest of the current request if statements of these connections may write: the request
    /// must see its own changes.
    fn forget_version(&self) {
        if self.writes {
            request::forget_version();
        }
    }

    /// Returns the pool without shares, for the copies of a backup.
    #[must_use]
    pub fn pool(&self) -> &DatabaseConnection {
        &self.pool
    }

    /// Checks that the database responds on a connection of this pool.
    ///
    /// # Errors
    /// A database error, for example if no connection becomes free in time.
    pub async fn ping(&self) -> Result<(), DbErr> {
        self.pool.ping().await
    }

    /// Returns the kind of the database.
    #[must_use]
    pub fn get_database_backend(&self) -> DatabaseBackend {
        self.pool.get_database_backend()
    }

    /// Runs a statement with a permit of the current request.
    async fn run<T, F>(&self, statement: impl FnOnce(DatabaseConnection) -> F + Send) -> Result<T, DbErr>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, DbErr>> + Send + 'static,
    {
        transaction::check_outside_transaction();
        self.forget_version();
        let permit = request::admit().await?;
        let running = pool_usage::measure(statement(self.pool.clone()));
        match permit {
            None => running.await,
            Some(permit) => {
                let running = async move {
                    let result = running.await;
                    drop(permit);
                    result
                };
                request::Statement::new(running).await
            }
        }
    }
}

/// Commits the transaction of a single statement. After an error, it is rolled back because it is dropped.
async fn end<T>(transaction: DatabaseTransaction, result: Result<T, DbErr>) -> Result<T, DbErr> {
    let value = result?;
    transaction.commit().await?;
    Ok(value)
}

#[async_trait]
impl ConnectionTrait for Connections {
    fn get_database_backend(&self) -> DatabaseBackend {
        self.pool.get_database_backend()
    }

    async fn execute_raw(&self, statement: Statement) -> Result<ExecResult, DbErr> {
        if let Some(transaction) = self.begin_longer().await? {
            let result = transaction.execute_raw(statement).await;
            return end(transaction, result).await;
        }
        self.run(|pool| async move { pool.execute_raw(statement).await })
            .await
    }

    async fn execute_unprepared(&self, sql: &str) -> Result<ExecResult, DbErr> {
        if let Some(transaction) = self.begin_longer().await? {
            let result = transaction.execute_unprepared(sql).await;
            return end(transaction, result).await;
        }
        let sql = sql.to_owned();
        self.run(|pool| async move { pool.execute_unprepared(&sql).await })
            .await
    }

    async fn query_one_raw(&self, statement: Statement) -> Result<Option<QueryResult>, DbErr> {
        if let Some(transaction) = self.begin_longer().await? {
            let result = transaction.query_one_raw(statement).await;
            return end(transaction, result).await;
        }
        if self.writes && self.get_database_backend() == DatabaseBackend::Sqlite {
            // For one row, the driver does not wait for the end of the statement, so it ignores that the commit failed.
            let rows = self.query_all_raw(statement).await?;
            return Ok(rows.into_iter().next());
        }
        self.run(|pool| async move { pool.query_one_raw(statement).await })
            .await
    }

    async fn query_all_raw(&self, statement: Statement) -> Result<Vec<QueryResult>, DbErr> {
        if let Some(transaction) = self.begin_longer().await? {
            let result = transaction.query_all_raw(statement).await;
            return end(transaction, result).await;
        }
        self.run(|pool| async move { pool.query_all_raw(statement).await })
            .await
    }
}
