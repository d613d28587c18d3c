//! Test of the time limit of statements in jobs.

use std::time::Duration;

use sea_orm::{ConnectionTrait, DatabaseBackend, Statement};
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};

use super::super::{Job, JobRegistry, JobRunner, RunnerOptions, enqueue};
use crate::database::testing::{DatabaseKind, on_empty, on_postgresql};
use crate::database::{Database, DatabaseOptions};

#[derive(Serialize, Deserialize)]
struct ReportLimit {}

impl Job for ReportLimit {
    const KIND: &'static str = "report_limit";
}

/// Returns the limit of PostgreSQL on the time of a statement.
async fn statement_limit(db: &Database) -> String {
    let shown = Statement::from_string(DatabaseBackend::Postgres, "SHOW statement_timeout");
    let row = db.read().query_one_raw(shown).await.unwrap().unwrap();
    row.try_get("", "statement_timeout").unwrap()
}

async fn statement_of_job_has_time_limit_of_the_job(kind: DatabaseKind) {
    on_empty(kind, async |url| {
        let limited = DatabaseOptions {
            statement_timeout: Duration::from_secs(600),
            ..DatabaseOptions::default()
        };
        let db = Database::connect(&url, &limited).await.unwrap();
        db.migrate().await.unwrap();
        let (found, mut limits) = mpsc::unbounded_channel();
        let own = db.clone();
        let registry = JobRegistry::default().handle(move |_: ReportLimit, _| {
            let (own, found) = (own.clone(), found.clone());
            async move {
                found.send(statement_limit(&own).await).unwrap();
                Ok(())
            }
        });
        enqueue(db.write(), &ReportLimit {}).await.unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let runner = JobRunner::new(db.clone(), registry, RunnerOptions::default());
        let task = tokio::spawn(runner.run(async {
            let _ = stopped.await;
        }));
        assert_eq!(limits.recv().await.unwrap(), "1h");
        assert_eq!(statement_limit(&db).await, "10min");
        stop.send(()).unwrap();
        task.await.unwrap();
        db.close().await.unwrap();
    })
    .await;
}

on_postgresql![
    on 1 threads;
    statement_of_job_has_time_limit_of_the_job,
];
