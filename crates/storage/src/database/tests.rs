//! Behavior of the database handle on both databases.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};
use std::time::Duration;

use sea_orm::{ActiveValue::Set, ConnectionTrait, DatabaseBackend, DbErr, EntityTrait, Statement};

use super::{
    DataVersion, Database, DatabaseOptions, Error, VersionSource, VersionedCache, Violation,
    allow_statements_of, is_deadlock, is_time_exceeded,
    migration_steps::MIGRATION_LOCK,
    testing::{DatabaseKind, on_empty, on_every_database, on_migrated, on_postgresql},
};
use crate::entities::{self, members, namespaces, settings, tests::fixtures};

async fn postgresql_jit_is_off(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let shown = Statement::from_string(DatabaseBackend::Postgres, "SHOW jit");
        let row = db.read().query_one_raw(shown).await.unwrap().unwrap();
        assert_eq!(row.try_get::<String>("", "jit").unwrap(), "off");
    })
    .await;
}

async fn writes_are_stored_after_the_database_rolled_a_transaction_back(kind: DatabaseKind) {
    on_empty(kind, async |url| {
        let connect = async || {
            Database::connect(&url, &DatabaseOptions::default())
                .await
                .unwrap()
        };
        let (db, other) = (connect().await, connect().await);
        db.migrate().await.unwrap();
        let failed = db.transaction(async |transaction| {
            settings::put(transaction, "k", "1").await?;
            // As SQLite does when its disk is full.
            transaction.execute_unprepared("ROLLBACK").await?;
            Err::<(), _>(DbErr::Custom("full".to_owned()))
        });
        assert!(failed.await.is_err());
        let stored = db.transaction(async |transaction| settings::put(transaction, "k", "2").await);
        stored.await.unwrap();
        let seen = settings::get(other.read(), "k").await.unwrap();
        assert_eq!(seen.as_deref(), Some("2"));
        db.close().await.unwrap();
        other.close().await.unwrap();
    })
    .await;
}

async fn failed_commit_of_single_statement_returns_error(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        for sql in [
            "CREATE TABLE commit_parents (id integer PRIMARY KEY)",
            "CREATE TABLE commit_children (id integer PRIMARY KEY, \
             parent_id integer REFERENCES commit_parents (id) DEFERRABLE INITIALLY DEFERRED)",
        ] {
            db.write().execute_unprepared(sql).await.unwrap();
        }
        // The reference is checked by the commit, after the statement has returned its row.
        let sql = "INSERT INTO commit_children (id, parent_id) VALUES (1, 2) RETURNING id";
        let statement = Statement::from_string(db.backend(), sql);
        let inserted = db.write().query_one_raw(statement.clone()).await;
        assert!(inserted.is_err(), "the row is acknowledged");
        assert!(db.write().query_all_raw(statement).await.is_err());
        let rows = Statement::from_string(db.backend(), "SELECT id FROM commit_children");
        assert!(db.read().query_one_raw(rows).await.unwrap().is_none());
    })
    .await;
}

/// Statement that takes longer than the limit of the connections.
const SLOW: &str = "SELECT pg_sleep(0.4)";

/// Runs the slow statement in each way in which code uses the database, and returns the results.
async fn slow_statements(db: &Database) -> Vec<Result<(), DbErr>> {
    let slow = || Statement::from_string(DatabaseBackend::Postgres, SLOW);
    let transaction = db
        .transaction(async |transaction| transaction.execute_unprepared(SLOW).await.map(drop))
        .await;
    let snapshot = async {
        let snapshot = db.snapshot().await?;
        snapshot.query_one_raw(slow()).await.map(drop)
    };
    vec![
        db.read().query_one_raw(slow()).await.map(drop),
        db.read().query_all_raw(slow()).await.map(drop),
        db.write().execute_raw(slow()).await.map(drop),
        db.write().execute_unprepared(SLOW).await.map(drop),
        transaction,
        snapshot.await,
    ]
}

async fn longer_statement_limit_applies_only_to_its_work(kind: DatabaseKind) {
    on_empty(kind, async |url| {
        let options = DatabaseOptions {
            max_connections: 1,
            statement_timeout: Duration::from_millis(100),
            ..DatabaseOptions::default()
        };
        let db = Database::connect(&url, &options).await.unwrap();
        for _ in 0..2 {
            for (at, result) in slow_statements(&db).await.into_iter().enumerate() {
                assert!(result.is_err_and(|error| is_time_exceeded(&error)), "{at}");
            }
            let longer = allow_statements_of(Duration::from_secs(60), slow_statements(&db)).await;
            for (at, result) in longer.into_iter().enumerate() {
                assert!(result.is_ok(), "{at}: {result:?}");
            }
        }
        // A limit below that of the connections has no effect.
        let short = allow_statements_of(
            Duration::from_millis(1),
            db.read().execute_unprepared("SELECT pg_sleep(0.02)"),
        );
        short.await.unwrap();
        db.close().await.unwrap();
    })
    .await;
}

async fn snapshot_is_consistent_and_read_only(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        settings::put(db.write(), "k", "1").await.unwrap();
        let snapshot = db.snapshot().await.unwrap();
        assert_eq!(settings::get(&snapshot, "k").await.unwrap().as_deref(), Some("1"));
        settings::put(db.write(), "k", "2").await.unwrap();
        assert_eq!(settings::get(&snapshot, "k").await.unwrap().as_deref(), Some("1"));
        assert!(settings::put(&snapshot, "k", "3").await.is_err());
        drop(snapshot);
        assert_eq!(settings::get(db.read(), "k").await.unwrap().as_deref(), Some("2"));
    })
    .await;
}

async fn two_sqlite_handles_wait_for_each_other() {
    let directory = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", directory.path().join("test.sqlite3").display());
    let first = Database::connect(&url, &DatabaseOptions::default())
        .await
        .unwrap();
    let second = Database::connect(&url, &DatabaseOptions::default())
        .await
        .unwrap();
    let (one, two) = tokio::join!(first.migrate(), second.migrate());
    one.unwrap();
    two.unwrap();
    let transaction = first.begin().await.unwrap();
    settings::put(&transaction, "k", "1").await.unwrap();
    let waiting = tokio::spawn(async move { settings::put(second.write(), "k", "2").await });
    transaction.commit().await.unwrap();
    waiting.await.unwrap().unwrap();
    assert_eq!(
        settings::get(first.read(), "k").await.unwrap().as_deref(),
        Some("2")
    );
}

async fn concurrent_migrations_of_one_database_all_succeed(kind: DatabaseKind) {
    on_empty(kind, async |url| {
        let nodes = futures_util::future::join_all((0..4).map(|_| async {
            let db = Database::connect(&url, &DatabaseOptions::default())
                .await
                .unwrap();
            db.migrate().await.unwrap();
            db
        }))
        .await;
        for db in nodes {
            assert_eq!(settings::get(db.read(), "k").await.unwrap(), None);
            db.close().await.unwrap();
        }
    })
    .await;
}

async fn migration_of_current_schema_waits_for_no_lock(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let held = db.begin().await.unwrap();
        if db.backend() == DatabaseBackend::Postgres {
            let lock = format!("SELECT pg_advisory_xact_lock({MIGRATION_LOCK})");
            held.execute_unprepared(&lock).await.unwrap();
        }
        tokio::time::timeout(Duration::from_secs(10), db.migrate())
            .await
            .expect("no wait for the lock")
            .unwrap();
        held.rollback().await.unwrap();
    })
    .await;
}

async fn schema_of_newer_program_is_refused(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let insert =
            "INSERT INTO seaql_migrations (version, applied_at) VALUES ('m30001231_000001_newer', 0)";
        db.write().execute_unprepared(insert).await.unwrap();
        let refused = db.migrate().await.unwrap_err();
        assert!(
            matches!(&refused, Error::NewerSchema(name) if name == "m30001231_000001_newer"),
            "{refused}"
        );
    })
    .await;
}

async fn sqlite_is_durable_enforces_foreign_keys_and_rejects_reader_writes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("new/test.sqlite3");
    let db = Database::connect(
        &format!("sqlite://{}", path.display()),
        &DatabaseOptions::default(),
    )
    .await
    .unwrap();
    db.migrate().await.unwrap();
    for (pragma, expected) in [
        ("journal_mode", "wal"),
        ("synchronous", "2"),
        ("foreign_keys", "1"),
    ] {
        for connection in [db.read(), db.write()] {
            let row = connection
                .query_one_raw(Statement::from_string(
                    DatabaseBackend::Sqlite,
                    format!("SELECT CAST({pragma} AS text) AS value FROM pragma_{pragma}"),
                ))
                .await
                .unwrap()
                .unwrap();
            assert_eq!(row.try_get::<String>("", "value").unwrap(), expected, "{pragma}");
        }
    }
    assert!(settings::put(db.read(), "k", "1").await.is_err());
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(
            std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
    }
}

async fn connect_rejects_unsupported_url_without_leaking_it() {
    for url in [
        "mysql://u:secret@h/d",
        "sqlite::memory:",
        "sqlite://x?mode=memory",
        "",
        "/a/file",
    ] {
        let error = Database::connect(url, &DatabaseOptions::default())
            .await
            .unwrap_err();
        assert!(matches!(error, Error::UnsupportedUrl), "{url}: {error}");
        assert!(!error.to_string().contains("secret"));
    }
}

async fn violated_constraint_has_same_name_on_both_databases(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let world = fixtures::World::new(&db).await;
        let user = world.user("ada").await;
        let mut twice = fixtures::user_row("other");
        twice.username_key = Set("ada".into());
        let error = entities::users::Entity::insert(twice).exec(db.write()).await.unwrap_err();
        assert_eq!(Violation::of(&error), Some(Violation::Unique("uq_users_username_key".into())));
        assert!(Violation::is_unique(&error, "uq_users_username_key"));

        let project = world.project("ada", "Compiler").await;
        let error = world.try_project(user.personal, "compiler").await.unwrap_err();
        assert!(
            matches!(Violation::of(&error), Some(Violation::Unique(name)) if name.starts_with("uq_projects_namespace_id_"))
        );

        let member = |project_id, level| members::ActiveModel {
            user_id: Set(user.id),
            project_id: Set(Some(project_id)),
            access_level: Set(level),
            created_at: Set(entities::now()),
            updated_at: Set(entities::now()),
            ..Default::default()
        };
        let missing = member(project + 1000, entities::AccessLevel::Guest);
        let error = members::Entity::insert(missing).exec(db.write()).await.unwrap_err();
        assert!(
            matches!(Violation::of(&error), Some(Violation::ForeignKey(name)) if name.as_deref().is_none_or(|name| name == "fk_members_project_id"))
        );

        let mut both = member(project, entities::AccessLevel::Guest);
        both.namespace_id = Set(Some(user.personal));
        let error = members::Entity::insert(both).exec(db.write()).await.unwrap_err();
        assert_eq!(Violation::of(&error), Some(Violation::Check("ck_members_source".into())));

        let error = namespaces::Entity::delete_by_id(user.personal).exec(db.write()).await.unwrap_err();
        assert!(matches!(Violation::of(&error), Some(Violation::ForeignKey(_))), "{error}");
        assert_eq!(Violation::of(&DbErr::Custom("other".into())), None);
    })
    .await;
}

async fn deadlock_victim_is_detected(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        for key in ["a", "b"] {
            settings::put(db.write(), key, "0").await.unwrap();
        }
        let both_hold_one = Arc::new(tokio::sync::Barrier::new(2));
        let crossing = |first: &'static str, second: &'static str| {
            let (db, both_hold_one) = (db.clone(), Arc::clone(&both_hold_one));
            tokio::spawn(async move {
                db.transaction(async |tx| {
                    settings::put(tx, first, "1").await?;
                    both_hold_one.wait().await;
                    settings::put(tx, second, "1").await
                })
                .await
            })
        };
        let (one, other) = tokio::join!(crossing("a", "b"), crossing("b", "a"));
        let outcomes = [one.unwrap(), other.unwrap()];
        let undone: Vec<_> = outcomes
            .iter()
            .filter_map(|outcome| outcome.as_ref().err())
            .collect();
        assert_eq!(undone.len(), 1, "{outcomes:?}");
        assert!(is_deadlock(undone[0]), "{undone:?}");
        assert!(!is_deadlock(&DbErr::Custom("40P01".into())));
    })
    .await;
}

async fn observer_receives_every_statement(kind: DatabaseKind) {
    on_empty(kind, async |url| {
        let count = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&count);
        let options = DatabaseOptions {
            observer: Some(Arc::new(move |sql, _| {
                assert!(!sql.is_empty());
                seen.fetch_add(1, Ordering::Relaxed);
            })),
            ..DatabaseOptions::default()
        };
        let db = Database::connect(&url, &options).await.unwrap();
        db.migrate().await.unwrap();
        let before = count.load(Ordering::Relaxed);
        settings::get(db.read(), "k").await.unwrap();
        db.transaction(async |tx| settings::put(tx, "k", "1").await)
            .await
            .unwrap();
        assert_eq!(count.load(Ordering::Relaxed) - before, 2);
        db.ping().await.unwrap();
        db.close().await.unwrap();
    })
    .await;
}

/// Returns the versions before and after `work`.
async fn versions_around(db: &Database, work: impl AsyncFnOnce()) -> (DataVersion, DataVersion) {
    let before = db.read_version().await.unwrap();
    work().await;
    (before, db.read_version().await.unwrap())
}

async fn version_changes_with_commits(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let written = versions_around(&db, async || settings::put(db.write(), "k", "1").await.unwrap());
        let (before, after) = written.await;
        assert_ne!(before, after);
        let committed = versions_around(&db, async || {
            let done = db.transaction(async |tx| settings::put(tx, "k", "2").await).await;
            done.unwrap();
        });
        let (before, after) = committed.await;
        assert_ne!(before, after);
        let invalidated = versions_around(&db, async || db.invalidate());
        let (before, after) = invalidated.await;
        assert_ne!(before, after);
    })
    .await;
}

async fn version_on_sqlite_changes_neither_with_reads_nor_with_rollbacks() {
    on_migrated(DatabaseKind::Sqlite, async |db| {
        let read = versions_around(&db, async || drop(settings::get(db.read(), "k").await.unwrap()));
        let (before, after) = read.await;
        assert_eq!(before, after);
        let undone = versions_around(&db, async || {
            let tx = db.begin().await.unwrap();
            settings::put(&tx, "k", "3").await.unwrap();
            tx.rollback().await.unwrap();
        });
        let (before, after) = undone.await;
        assert_eq!(before, after);
    })
    .await;
}

async fn version_changes_with_writes_of_other_handles_and_after_reopen() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("test.sqlite3");
    let url = format!("sqlite://{}", file.display());
    let first = Database::connect(&url, &DatabaseOptions::default())
        .await
        .unwrap();
    first.migrate().await.unwrap();
    let watched = Database::connect(&url, &DatabaseOptions::default())
        .await
        .unwrap();
    let versions = Arc::clone(&watched.versions);
    let state = || match &*versions {
        VersionSource::LogIndex(index) => index.state(),
        VersionSource::Probe(_) => panic!("PostgreSQL"),
    };
    let before = state().unwrap();
    settings::put(first.write(), "k", "1").await.unwrap();
    let after = state().unwrap();
    assert_ne!(before, after);
    // The last connection removes the log and its index; the next ones create new files.
    first.close().await.unwrap();
    watched.close().await.unwrap();
    assert_eq!(state(), None);
    let mut seen = vec![before, after];
    for _ in 0..2 {
        let again = Database::connect(&url, &DatabaseOptions::default())
            .await
            .unwrap();
        settings::get(again.read(), "k").await.unwrap();
        let version = state().unwrap();
        assert!(!seen.contains(&version));
        seen.push(version);
        again.close().await.unwrap();
        assert_eq!(state(), None);
    }
}

async fn cached_value_is_valid_until_next_write(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let remembered = VersionedCache::<u8, u32>::new(1 << 20, |_, _| 0);
        let loads = AtomicUsize::new(0);
        let ask = async |key: u8| {
            let answer = async {
                loads.fetch_add(1, Ordering::Relaxed);
                if key == 0 { Err(()) } else { Ok(7) }
            };
            remembered.get_or_load(&db, key, answer).await
        };
        let asked_by = async |key: u8| {
            let before = loads.load(Ordering::Relaxed);
            let answer = ask(key).await;
            assert_eq!(answer, if key == 0 { Err(()) } else { Ok(7) });
            loads.load(Ordering::Relaxed) - before
        };
        let known = usize::from(db.version().is_none());
        assert_eq!(asked_by(1).await, 1);
        assert_eq!(asked_by(1).await, known);
        assert_eq!(asked_by(2).await, 1);
        assert_eq!((asked_by(0).await, asked_by(0).await), (1, 1));
        settings::put(db.write(), "k", "1").await.unwrap();
        assert_eq!(asked_by(1).await, 1);
        assert_eq!(asked_by(1).await, known);
    })
    .await;
}

async fn value_read_before_concurrent_write_is_not_cached(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let remembered = VersionedCache::<(), String>::new(1 << 20, |_, _| 0);
        settings::put(db.write(), "k", "1").await.unwrap();
        let overtaken = async {
            let read = settings::get(db.read(), "k").await?.unwrap();
            settings::put(db.write(), "k", "2").await?;
            Ok::<_, DbErr>(read)
        };
        assert_eq!(remembered.get_or_load(&db, (), overtaken).await.unwrap(), "1");
        let now = async { Ok::<_, DbErr>(settings::get(db.read(), "k").await?.unwrap()) };
        assert_eq!(remembered.get_or_load(&db, (), now).await.unwrap(), "2");
    })
    .await;
}

on_every_database![
    snapshot_is_consistent_and_read_only,
    concurrent_migrations_of_one_database_all_succeed,
    writes_are_stored_after_the_database_rolled_a_transaction_back,
    failed_commit_of_single_statement_returns_error,
    migration_of_current_schema_waits_for_no_lock,
    schema_of_newer_program_is_refused,
    violated_constraint_has_same_name_on_both_databases,
    observer_receives_every_statement,
    version_changes_with_commits,
    cached_value_is_valid_until_next_write,
    value_read_before_concurrent_write_is_not_cached,
];

harness::tests![
    two_sqlite_handles_wait_for_each_other,
    sqlite_is_durable_enforces_foreign_keys_and_rejects_reader_writes,
    connect_rejects_unsupported_url_without_leaking_it,
    version_changes_with_writes_of_other_handles_and_after_reopen,
    version_on_sqlite_changes_neither_with_reads_nor_with_rollbacks,
];

// SQLite has one writer at a time and does not compile statements.
on_postgresql![
    on 4 threads;
    postgresql_jit_is_off,
    longer_statement_limit_applies_only_to_its_work,
    deadlock_victim_is_detected,
];
