//! Transactions that write.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use sea_orm::{ConnectionTrait, DatabaseBackend, DbErr};

use super::Database;
use super::testing::{DatabaseKind, on_every_database, on_migrated};
use crate::entities::settings;

async fn failed_transaction_is_rolled_back(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let outcome: Result<(), DbErr> = db
            .transaction(async |tx| {
                settings::put(tx, "k", "1").await?;
                Err(DbErr::Custom("stop".into()))
            })
            .await;
        assert!(outcome.is_err());
        assert_eq!(settings::get(db.read(), "k").await.unwrap(), None);
    })
    .await;
}

async fn failed_transaction_returns_first_error_if_rollback_fails_too(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let lose = match db.backend() {
            DatabaseBackend::Postgres => "SELECT pg_terminate_backend(pg_backend_pid())",
            _ => "ROLLBACK",
        };
        let done: Result<(), DbErr> = db
            .transaction(async |tx| {
                // Fails on PostgreSQL, because the connection is closed.
                let _ = tx.execute_unprepared(lose).await;
                Err(DbErr::Custom("first".to_owned()))
            })
            .await;
        assert_eq!(done, Err(DbErr::Custom("first".to_owned())));
        settings::put(db.write(), "k", "1").await.unwrap();
    })
    .await;
}

async fn dropped_transaction_is_rolled_back(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let tx = db.begin().await.unwrap();
        settings::put(&tx, "k", "1").await.unwrap();
        drop(tx);
        assert_eq!(settings::get(db.write(), "k").await.unwrap(), None);
    })
    .await;
}

async fn concurrent_read_modify_write_transactions_all_succeed(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        settings::put(db.write(), "count", "0").await.unwrap();
        let tasks: Vec<_> = (0..20)
            .map(|_| {
                let db = db.clone();
                tokio::spawn(async move {
                    db.transaction(async |tx| {
                        if db.backend() == DatabaseBackend::Postgres {
                            tx.execute_unprepared("LOCK TABLE settings").await?;
                        }
                        let count = settings::get(tx, "count").await?.unwrap().parse::<u32>().unwrap();
                        settings::put(tx, "count", &(count + 1).to_string()).await
                    })
                    .await
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap().unwrap();
        }
        assert_eq!(
            settings::get(db.read(), "count").await.unwrap().as_deref(),
            Some("20")
        );
    })
    .await;
}

/// Runs `work` in a transaction, and returns whether a check of debug builds refused it.
async fn is_refused(db: &Database, work: impl AsyncFnOnce() -> Result<Option<String>, DbErr>) -> bool {
    let transaction = db.transaction(async |tx| {
        settings::put(tx, "k", "1").await?;
        work().await
    });
    match AssertUnwindSafe(transaction).catch_unwind().await {
        Ok(_) => false,
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().unwrap();
            assert!(text.contains("uses another connection"), "{text}");
            true
        }
    }
}

async fn transaction_that_waits_for_another_connection_is_refused(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let checks = cfg!(debug_assertions);
        let reads = is_refused(&db, async || settings::get(db.read(), "k").await).await;
        assert_eq!(reads, checks);
        let nested = async || {
            db.transaction(async |inner| settings::get(inner, "k").await)
                .await
        };
        if checks {
            assert!(is_refused(&db, nested).await);
        }
        // The check does not affect later statements of this thread.
        settings::put(db.write(), "other", "1").await.unwrap();
        assert_eq!(
            settings::get(db.read(), "other").await.unwrap().as_deref(),
            Some("1")
        );
    })
    .await;
}

on_every_database![
    failed_transaction_is_rolled_back,
    failed_transaction_returns_first_error_if_rollback_fails_too,
    dropped_transaction_is_rolled_back,
    transaction_that_waits_for_another_connection_is_refused,
];

on_every_database![
    on 4 threads;
    concurrent_read_modify_write_transactions_all_succeed,
];
