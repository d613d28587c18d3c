//! Versions of the database's state, round trips, lost connections and locks of migrations on PostgreSQL.

use std::pin::pin;
use std::process::Command;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use harness::postgresql::PrivateServer;
use migration::{Migrator, MigratorTrait};
use sea_orm::{ConnectionTrait, DatabaseBackend, Statement};

use super::migration_steps::{REPETITION_LOCK, TableWait};
use super::testing::{DatabaseKind, on_empty, on_migrated, on_postgresql};
use super::wire_proxy::WireProxy;
use super::{DataVersion, Database, DatabaseOptions, VersionedCache, known_migrations, measure};
use crate::entities::settings;

fn one_connection() -> DatabaseOptions {
    DatabaseOptions {
        max_connections: 1,
        ..DatabaseOptions::default()
    }
}

async fn connect(url: &str, options: &DatabaseOptions) -> Database {
    Database::connect(url, options).await.unwrap()
}

/// Runs a statement that returns one number, on any free connection.
async fn number(db: &Database, sql: &str) -> i32 {
    let statement = Statement::from_string(DatabaseBackend::Postgres, sql);
    let row = db.read().query_one_raw(statement).await.unwrap().unwrap();
    row.try_get_by_index(0).unwrap()
}

async fn version(db: &Database) -> DataVersion {
    db.read_version().await.unwrap()
}

/// Runs `work` until it succeeds. A server that recovers from a crash rejects connections for a while.
async fn eventually<T>(mut work: impl AsyncFnMut() -> Option<T>) -> T {
    loop {
        if let Some(value) = work().await {
            return value;
        }
        tokio::task::yield_now().await;
    }
}

async fn statements_need_one_round_trip_and_are_prepared_once(kind: DatabaseKind) {
    on_empty(kind, async |url| {
        let proxy = WireProxy::start(&url).await;
        let db = connect(&proxy.url, &one_connection()).await;
        let texts: Vec<String> = (0..300).map(|text| format!("SELECT {text}")).collect();
        for text in &texts {
            number(&db, text).await;
        }
        let before = (proxy.sent(b'P'), proxy.sent(b'S'));
        for text in &texts {
            number(&db, text).await;
        }
        assert_eq!(proxy.sent(b'P'), before.0);
        // sqlx tests each connection after its use, which no statement waits for.
        let round_trips = proxy.sent(b'S') - before.1;
        assert!(round_trips <= 2 * texts.len() + 1, "{round_trips}");
        db.close().await.unwrap();
    })
    .await;
}

async fn connection_lost_while_idle_is_replaced_before_next_statement(kind: DatabaseKind) {
    on_empty(kind, async |url| {
        let db = connect(&url, &one_connection()).await;
        let admin = connect(&url, &one_connection()).await;
        let lost = number(&db, "SELECT pg_backend_pid()").await;
        let end = format!("SELECT pg_terminate_backend({lost}, 30000)::int");
        assert_eq!(number(&admin, &end).await, 1);
        // Only connections that were idle for a while are tested.
        tokio::time::sleep(super::postgresql::IDLE_TEST).await;
        assert_ne!(number(&db, "SELECT pg_backend_pid()").await, lost);
        db.close().await.unwrap();
        admin.close().await.unwrap();
    })
    .await;
}

async fn indexed_snapshot_finds_rows_by_an_index(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let snapshot = db.indexed_snapshot().await.unwrap();
        let explain = "EXPLAIN SELECT id FROM notes WHERE author_id IN (1) LIMIT 1000";
        let statement = Statement::from_string(DatabaseBackend::Postgres, explain);
        let lines = snapshot.query_all_raw(statement).await.unwrap();
        let scan: String = lines[1].try_get_by_index(0).unwrap();
        assert!(scan.contains("Index Scan using"), "{scan}");
        snapshot.rollback().await.unwrap();
    })
    .await;
}

async fn version_read_contains_commits_during_an_earlier_query(kind: DatabaseKind) {
    on_migrated(kind, async |direct| {
        let url = url_of(&direct).await;
        let proxy = WireProxy::start(&url).await;
        let db = connect(&proxy.url, &one_connection()).await;
        let before = version(&db).await;
        let (queries, chunks) = (proxy.sent(b'E'), proxy.received());
        proxy.stop_responses();
        let mut first = Box::pin(db.read_version());
        assert!((&mut first).now_or_never().is_none());
        while proxy.received() == chunks {
            tokio::task::yield_now().await;
        }
        // The first query has its snapshot, and its response is on its way.
        settings::put(direct.write(), "k", "1").await.unwrap();
        let mut others: Vec<_> = (0..50).map(|_| Box::pin(db.read_version())).collect();
        for other in &mut others {
            assert!(other.now_or_never().is_none());
        }
        proxy.open();
        let first = first.await.unwrap();
        let others = join_all(others).await;
        assert!(others.iter().all(|other| *other == others[0]));
        assert_ne!(others[0].unwrap(), before);
        assert_ne!(others[0].unwrap(), first);
        // One query for the first, and one for all others.
        assert_eq!(proxy.sent(b'E') - queries, 2);
        db.close().await.unwrap();
    })
    .await;
}

async fn write_after_canceled_begin_is_stored(kind: DatabaseKind) {
    on_migrated(kind, async |direct| {
        let proxy = WireProxy::start(&url_of(&direct).await).await;
        let db = connect(&proxy.url, &one_connection()).await;
        settings::get(db.read(), "k").await.unwrap();
        // The driver tests the connection before it is idle.
        while db.pool_usage()[0].idle == 0 {
            tokio::task::yield_now().await;
        }
        proxy.stop_responses();
        let sent = proxy.sent(b'Q');
        let mut beginning = Box::pin(db.begin());
        while proxy.sent(b'Q') == sent {
            assert!((&mut beginning).now_or_never().is_none());
            tokio::task::yield_now().await;
        }
        drop(beginning);
        proxy.open();
        settings::put(db.write(), "k", "1").await.unwrap();
        let stored = settings::get(direct.read(), "k").await.unwrap();
        assert_eq!(stored.as_deref(), Some("1"));
        db.close().await.unwrap();
    })
    .await;
}

/// Waits until a condition is true.
async fn until(mut condition: impl AsyncFnMut() -> bool) {
    while !condition().await {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Returns the number of locks of this database, granted or not, that match a condition.
async fn locks(db: &Database, condition: &str) -> i32 {
    let sql = format!(
        "SELECT count(*)::int FROM pg_locks WHERE {condition} AND database = \
         (SELECT oid FROM pg_database WHERE datname = current_database())"
    );
    number(db, &sql).await
}

/// Returns the number of sessions that apply migrations, also between their attempts.
async fn migrating_sessions(db: &Database) -> i32 {
    let condition = format!(
        "granted AND locktype = 'advisory' AND ((classid::bigint << 32) | objid::bigint) = {REPETITION_LOCK}"
    );
    locks(db, &condition).await
}

/// Returns the number of sessions that wait for another migration without a snapshot.
async fn waiting_sessions(db: &Database) -> i32 {
    let sql = "SELECT count(*)::int FROM pg_stat_activity a WHERE datname = current_database() AND state = 'idle' \
               AND backend_xmin IS NULL AND query LIKE 'SELECT pg_try_advisory_lock(%' AND NOT EXISTS \
               (SELECT 1 FROM pg_locks l WHERE l.pid = a.pid AND locktype = 'advisory')";
    number(db, sql).await
}

/// Reads a table until a read has waited behind a migration that waits for the table. The read must end while the
/// migration continues.
async fn read_behind_migration(db: &Database) {
    const READ_WAITS: &str =
        "NOT granted AND relation = 'hook_deliveries'::regclass AND mode = 'AccessShareLock'";
    loop {
        let mut read = pin!(number(db, "SELECT count(*)::int FROM hook_deliveries"));
        let has_waited = tokio::select! {
            _ = &mut read => false,
            () = until(async || locks(db, READ_WAITS).await == 1) => true,
        };
        if has_waited {
            let read = tokio::time::timeout(Duration::from_secs(10), read).await;
            read.expect("the read waits for the migration");
            return;
        }
        // The migration was between two attempts.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn reads_continue_while_migrations_wait_for_a_table(kind: DatabaseKind) {
    const ALTERS_DELIVERIES: &str = "m20261130_000121_count_payload_attempts_of_deliveries";
    const MIGRATION_WAITS: &str =
        "NOT granted AND relation = 'hook_deliveries'::regclass AND mode = 'AccessExclusiveLock'";
    on_migrated(kind, async |db| {
        let known = known_migrations();
        let before = known.iter().position(|name| name == ALTERS_DELIVERIES).unwrap();
        let later = u32::try_from(known.len() - before).unwrap();
        db.transaction(async |transaction| Migrator::down(transaction, Some(later)).await)
            .await
            .unwrap();
        let backup = db.begin().await.unwrap();
        backup
            .execute_unprepared("LOCK TABLE hook_deliveries IN ACCESS SHARE MODE")
            .await
            .unwrap();
        let wait = TableWait {
            limit: Duration::from_millis(200),
            pause: Duration::from_millis(500),
        };
        let others = async {
            until(async || locks(&db, MIGRATION_WAITS).await == 1).await;
            let reads = async {
                until(async || waiting_sessions(&db).await == 1).await;
                read_behind_migration(&db).await;
                // The second migration does not start in the pause of the first one.
                assert_eq!(migrating_sessions(&db).await, 1);
            };
            tokio::select! {
                outcome = db.migrate_waiting(wait) => panic!("{outcome:?}"),
                () = reads => {}
            }
            // The second migration was dropped, and its session ends although the first one continues.
            until(async || waiting_sessions(&db).await == 0).await;
            assert_eq!(migrating_sessions(&db).await, 1);
            let release = async {
                until(async || waiting_sessions(&db).await == 1).await;
                backup.rollback().await.unwrap();
            };
            let (second, ()) = tokio::join!(db.migrate_waiting(wait), release);
            second.unwrap();
        };
        let (first, ()) = tokio::join!(db.migrate_waiting(wait), others);
        first.unwrap();
        db.check_schema().await.unwrap();
        assert_eq!(wait.pause_after(wait.limit), wait.pause);
        assert_eq!(
            wait.pause_after(Duration::from_secs(100)),
            Duration::from_secs(200)
        );
    })
    .await;
}

async fn url_of(db: &Database) -> String {
    let statement = Statement::from_string(DatabaseBackend::Postgres, "SELECT current_database()::text");
    let row = db.read().query_one_raw(statement).await.unwrap().unwrap();
    let name: String = row.try_get_by_index(0).unwrap();
    let (server, _) = harness::postgresql::url().rsplit_once('/').unwrap();
    format!("{server}/{name}")
}

/// Uses a server that no other test writes to.
async fn version_is_equal_until_a_transaction_with_changes_ends() {
    let server = PrivateServer::start("versions").unwrap();
    let db = connect(&server.url(), &DatabaseOptions::default()).await;
    db.migrate().await.unwrap();
    settings::put(db.write(), "k", "1").await.unwrap();
    let before = version(&db).await;
    settings::get(db.read(), "k").await.unwrap();
    db.transaction(async |tx| settings::get(tx, "k").await.map(drop))
        .await
        .unwrap();
    assert_eq!(version(&db).await, before);

    let node = connect(&server.url(), &DatabaseOptions::default()).await;
    let cached = version(&node).await;
    db.invalidate_on_all_nodes().await.unwrap();
    assert_ne!(version(&node).await, cached);
    node.close().await.unwrap();

    // A transaction changes the version when it starts to write, and when it ends.
    let open = db.begin().await.unwrap();
    settings::put(&open, "other", "1").await.unwrap();
    let during = version(&db).await;
    assert_eq!(version(&db).await, during);
    settings::put(db.write(), "k", "2").await.unwrap();
    let written = version(&db).await;
    assert_ne!(written, during);
    open.commit().await.unwrap();
    assert_ne!(version(&db).await, written);
    db.close().await.unwrap();
}

async fn request_uses_cached_values_until_it_writes() {
    let server = PrivateServer::start("caches").unwrap();
    let db = connect(&server.url(), &DatabaseOptions::default()).await;
    db.migrate().await.unwrap();
    settings::put(db.write(), "k", "1").await.unwrap();
    let cache = VersionedCache::<(), Option<String>>::new(1 << 20, |_, _| 0);
    let load = async || {
        cache
            .get_or_load(&db, (), settings::get(db.read(), "k"))
            .await
            .unwrap()
    };
    // Stores a value that the database does not have.
    let hidden = async |value: &str| {
        cache.insert(version(&db).await, (), Some(value.to_owned()));
    };
    measure(None, async {
        assert_eq!(db.version(), None);
        version(&db).await;
        hidden("cached").await;
        assert_eq!(load().await.as_deref(), Some("cached"));
        settings::put(db.write(), "k", "2").await.unwrap();
        assert_eq!(db.version(), None);
        assert_eq!(load().await.as_deref(), Some("2"));
    })
    .await;
    // Work outside of requests does not use the cache.
    hidden("cached").await;
    assert_eq!(load().await.as_deref(), Some("2"));
    db.close().await.unwrap();
}

/// Returns the ID of the session of the only connection, if the server accepts connections.
async fn session(db: &Database) -> Option<i32> {
    let statement = Statement::from_string(DatabaseBackend::Postgres, "SELECT pg_backend_pid()");
    let row = db.read().query_one_raw(statement).await.ok().flatten()?;
    row.try_get_by_index(0).ok()
}

async fn version_changes_after_crash_of_a_session() {
    let server = PrivateServer::start("version-crash").unwrap();
    let db = connect(&server.url(), &DatabaseOptions::default()).await;
    let other = connect(&server.url(), &one_connection()).await;
    db.migrate().await.unwrap();
    let started = "SELECT extract(epoch FROM pg_postmaster_start_time())::int";
    let start = number(&other, started).await;
    let mut seen = vec![version(&db).await];
    for _ in 0..2 {
        // The number of a transaction that is rolled back is assigned again after the crash.
        let undone = eventually(async || db.begin().await.ok()).await;
        settings::put(&undone, "k", "1").await.unwrap();
        seen.push(version(&db).await);
        let victim = session(&other).await.unwrap();
        let killed = Command::new("kill")
            .args(["-9", &victim.to_string()])
            .status()
            .unwrap();
        assert!(killed.success());
        // PostgreSQL ends all sessions, and accepts new ones after it has recovered.
        eventually(async || session(&other).await.filter(|session| *session != victim)).await;
        drop(undone);
        let current = eventually(async || db.read_version().await).await;
        assert!(!seen.contains(&current));
        seen.push(current);
    }
    assert_eq!(
        number(&other, started).await,
        start,
        "the server itself did not restart"
    );
    db.close().await.unwrap();
    other.close().await.unwrap();
}

async fn version_is_unknown_while_the_server_is_stopped() {
    let mut server = PrivateServer::start("version-stop").unwrap();
    let db = connect(&server.url(), &DatabaseOptions::default()).await;
    let before = version(&db).await;
    server.stop().unwrap();
    assert_eq!(db.read_version().await, None);
    server.start_again().unwrap();
    let after = version(&db).await;
    assert_ne!(after, before);
    assert_eq!(version(&db).await, after);
    db.close().await.unwrap();
}

on_postgresql![
    on 2 threads;
    statements_need_one_round_trip_and_are_prepared_once,
    connection_lost_while_idle_is_replaced_before_next_statement,
    indexed_snapshot_finds_rows_by_an_index,
    version_read_contains_commits_during_an_earlier_query,
    write_after_canceled_begin_is_stored,
    reads_continue_while_migrations_wait_for_a_table,
];

harness::tests![requires harness::postgresql::missing;
    version_is_equal_until_a_transaction_with_changes_ends,
    request_uses_cached_values_until_it_writes,
    version_changes_after_crash_of_a_session,
    version_is_unknown_while_the_server_is_stopped,
];
