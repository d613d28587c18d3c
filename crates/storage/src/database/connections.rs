//! Connections of which each client of requests has a share.

use async_trait::async_trait;
use sea_orm::{
    ConnectionTrait, DatabaseBackend, DatabaseConnection, DbErr, ExecResult, QueryResult, Statement,
};

use super::request;

/// A pool of connections for single statements. Statements of a request wait for the share of their client
/// ([`use_share`](super::use_share)).
#[derive(Debug, Clone)]
pub struct Connections(pub(super) DatabaseConnection);

impl Connections {
    /// Returns the pool without shares, for the copies of a backup.
    #[must_use]
    pub fn pool(&self) -> &DatabaseConnection {
        &self.0
    }

    /// Returns the kind of the database.
    #[must_use]
    pub fn get_database_backend(&self) -> DatabaseBackend {
        self.0.get_database_backend()
    }

    /// Runs a statement with a permit of the current request.
    async fn run<T, F>(&self, statement: impl FnOnce(DatabaseConnection) -> F + Send) -> Result<T, DbErr>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, DbErr>> + Send + 'static,
    {
        let permit = request::admit().await?;
        let running = statement(self.0.clone());
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

#[async_trait]
impl ConnectionTrait for Connections {
    fn get_database_backend(&self) -> DatabaseBackend {
        self.0.get_database_backend()
    }

    async fn execute_raw(&self, statement: Statement) -> Result<ExecResult, DbErr> {
        self.run(|pool| async move { pool.execute_raw(statement).await })
            .await
    }

    async fn execute_unprepared(&self, sql: &str) -> Result<ExecResult, DbErr> {
        let sql = sql.to_owned();
        self.run(|pool| async move { pool.execute_unprepared(&sql).await })
            .await
    }

    async fn query_one_raw(&self, statement: Statement) -> Result<Option<QueryResult>, DbErr> {
        self.run(|pool| async move { pool.query_one_raw(statement).await })
            .await
    }

    async fn query_all_raw(&self, statement: Statement) -> Result<Vec<QueryResult>, DbErr> {
        self.run(|pool| async move { pool.query_all_raw(statement).await })
            .await
    }
}
