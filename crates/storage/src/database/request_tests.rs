//! Shares and time of requests in the database.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use sea_orm::{ConnectionTrait, DatabaseBackend, DbErr, Statement};
use tokio::sync::{Notify, Semaphore};

use super::testing::{DatabaseKind, on_every_database, on_migrated};
use super::{Database, is_time_exceeded, measure, use_share};
use crate::entities::settings;

/// Runs a statement that takes longer than a hundred statements that read a row.
async fn slow(db: &Database) -> Result<(), DbErr> {
    let sql = match db.backend() {
        DatabaseBackend::Postgres => "SELECT pg_sleep(0.1)",
        _ => {
            "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 300000) SELECT count(*) FROM c"
        }
    };
    let statement = Statement::from_string(db.backend(), sql);
    db.read().query_all_raw(statement).await.map(drop)
}

async fn client_with_many_slow_requests_leaves_connections_to_others(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let (finished, permits) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(5)));
        let requests: Vec<_> = (0..200)
            .map(|_| {
                let (db, finished, permits) = (db.clone(), Arc::clone(&finished), Arc::clone(&permits));
                tokio::spawn(measure(None, async move {
                    use_share(permits);
                    slow(&db).await.unwrap();
                    finished.fetch_add(1, Ordering::SeqCst);
                }))
            })
            .collect();
        while permits.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        let other = Arc::new(Semaphore::new(5));
        let answered = measure(None, async {
            use_share(other);
            settings::get(db.read(), "k").await
        });
        assert_eq!(answered.await.0.unwrap(), None);
        // Without shares, the statement would wait for all others.
        let before = finished.load(Ordering::SeqCst);
        assert!(before < 100, "{before}");
        requests.iter().for_each(tokio::task::JoinHandle::abort);
    })
    .await;
}

async fn statement_next_to_transaction_of_same_request_needs_no_second_permit(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let permits = Arc::new(Semaphore::new(1));
        let request = measure(None, async {
            use_share(Arc::clone(&permits));
            let (started, read) = (Notify::new(), Notify::new());
            let transaction = db.transaction(async |tx| {
                settings::put(tx, "k", "1").await?;
                started.notify_one();
                read.notified().await;
                Ok::<_, DbErr>(())
            });
            let statement = async {
                started.notified().await;
                assert_eq!(permits.available_permits(), 0);
                let found = settings::get(db.read(), "k").await;
                read.notify_one();
                found
            };
            let (committed, found) = tokio::join!(transaction, statement);
            committed.and(found)
        });
        assert_eq!(request.await.0.unwrap(), None);
        assert_eq!(permits.available_permits(), 1);
    })
    .await;
}

async fn statement_of_canceled_request_holds_its_permit_until_it_ends(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let permits = Arc::new(Semaphore::new(1));
        let mut request = Box::pin(measure(None, async {
            use_share(Arc::clone(&permits));
            slow(&db).await
        }));
        while permits.available_permits() > 0 {
            assert!((&mut request).now_or_never().is_none());
            tokio::task::yield_now().await;
        }
        drop(request);
        assert_eq!(permits.available_permits(), 0);
        // The permit returns when the statement has ended.
        let ended = tokio::time::timeout(Duration::from_secs(30), permits.acquire()).await;
        drop(ended.expect("an end").unwrap());
    })
    .await;
}

async fn request_beyond_its_time_starts_no_statement(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let (outcome, used) = measure(Some(Duration::from_millis(1)), async {
            slow(&db).await?;
            settings::get(db.read(), "k").await
        })
        .await;
        assert!(is_time_exceeded(&outcome.unwrap_err()));
        assert!(used >= Duration::from_millis(1), "{used:?}");
        let (outcome, used) = measure(None, async {
            slow(&db).await?;
            settings::get(db.read(), "k").await
        })
        .await;
        assert!(outcome.is_ok() && used >= Duration::from_millis(1), "{used:?}");
        let refused = measure(Some(Duration::ZERO), async {
            db.transaction(async |tx| settings::put(tx, "k", "1").await).await
        });
        assert!(is_time_exceeded(&refused.await.0.unwrap_err()));
        assert_eq!(settings::get(db.read(), "k").await.unwrap(), None);
    })
    .await;
}

on_every_database![
    statement_next_to_transaction_of_same_request_needs_no_second_permit,
    statement_of_canceled_request_holds_its_permit_until_it_ends,
    request_beyond_its_time_starts_no_statement,
];

on_every_database![
    on 2 threads;
    client_with_many_slow_requests_leaves_connections_to_others,
];
