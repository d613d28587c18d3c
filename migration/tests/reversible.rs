//! Checks that every migration can be applied, reverted and applied again on both databases, that servers of the previous
//! version can continue, and the changes of existing rows.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::pin::Pin;

use migration::{Migrator, MigratorTrait};
use sea_orm_migration::sea_orm::{ConnectionTrait, Database, DatabaseConnection, Statement};

/// Returns the definitions of all tables, indexes, triggers and functions, in a fixed order.
async fn schema(db: &DatabaseConnection) -> Vec<String> {
    let sql = if db.get_database_backend() == sea_orm_migration::sea_orm::DatabaseBackend::Sqlite {
        "SELECT coalesce(sql, name) AS line FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' ORDER BY 1"
    } else {
        "SELECT indexdef AS line FROM pg_indexes WHERE schemaname = current_schema()
         UNION ALL
         SELECT conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid) FROM pg_constraint
         WHERE connamespace = current_schema()::regnamespace
         UNION ALL
         SELECT pg_get_triggerdef(pg_trigger.oid) FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid
         WHERE NOT tgisinternal AND relnamespace = current_schema()::regnamespace
         UNION ALL
         SELECT pg_get_functiondef(oid) FROM pg_proc
         WHERE pronamespace = current_schema()::regnamespace AND prokind = 'f'
         ORDER BY 1"
    };
    lines(db, sql).await
}

/// Returns the column `line` of a query.
async fn lines<T: FromIterator<String>>(db: &DatabaseConnection, sql: &str) -> T {
    let rows = db.query_all_raw(Statement::from_string(db.get_database_backend(), sql));
    let rows = rows.await.unwrap();
    rows.iter().map(|row| row.try_get("", "line").unwrap()).collect()
}

/// The last migration before the rule that migrations only add.
const LAST_FREE: &str = "m20261124_000075_create_audit_events";
/// Migrations that break the rule, and the column that they remove. This one was on main before the rule was checked for
/// functions that a migration calls. No version was released without it.
const EXCEPTIONS: [(&str, &str); 1] = [(
    "m20261130_000112_store_access_levels_of_packages_and_releases",
    "projects.packages_enabled ",
)];

/// Returns all columns with their types. A collation belongs to the type: PostgreSQL rejects the prepared statements of
/// running servers after it changed.
async fn columns(db: &DatabaseConnection) -> BTreeSet<String> {
    let sql = if db.get_database_backend() == sea_orm_migration::sea_orm::DatabaseBackend::Sqlite {
        "SELECT tables.name || '.' || columns.name || ' ' || columns.type AS line
         FROM sqlite_master AS tables JOIN pragma_table_info(tables.name) AS columns
         WHERE tables.type = 'table' AND tables.name NOT LIKE 'sqlite_%'"
    } else {
        "SELECT format('%s.%s %s %s', relname, attname, format_type(atttypid, atttypmod), attcollation) AS line
         FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
         WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace AND attnum > 0 AND NOT attisdropped"
    };
    lines(db, sql).await
}

fn is_exception(migration: &str, column: &str) -> bool {
    EXCEPTIONS
        .iter()
        .any(|(of, start)| *of == migration && column.starts_with(start))
}

/// Applies all migrations. Each of them leaves the columns that servers of the previous version use.
async fn up_only_adding(db: &DatabaseConnection) {
    let mut before = BTreeSet::new();
    for migration in Migrator::migrations() {
        let name = migration.name();
        Migrator::up(db, Some(1)).await.unwrap();
        if name < LAST_FREE {
            continue;
        }
        let after = columns(db).await;
        let removed: Vec<_> = before
            .difference(&after)
            .filter(|column| !is_exception(name, column))
            .collect();
        assert!(
            removed.is_empty(),
            "{name} stops servers of the previous version: {removed:?}"
        );
        before = after;
    }
    assert!(before.len() > 100, "the check reads the columns");
}

async fn up_down_up(db: DatabaseConnection) {
    let db = &db;
    Migrator::up(db, None).await.unwrap();
    let first = schema(db).await;
    let all = Migrator::migrations().len();
    assert!(first.len() > all, "the migrations create tables and indexes");
    for _ in 0..all {
        Migrator::down(db, Some(1)).await.unwrap();
    }
    let emptied = schema(db).await;
    assert!(
        emptied.iter().all(|line| line.contains("seaql_migrations")),
        "left behind: {emptied:?}"
    );
    up_only_adding(db).await;
    assert_eq!(schema(db).await, first);
}

/// Applies the migrations before the one with this name.
async fn up_before(db: &DatabaseConnection, name: &str) {
    let all = Migrator::migrations();
    let before = all.iter().position(|migration| migration.name() == name).unwrap();
    Migrator::up(db, Some(u32::try_from(before).unwrap()))
        .await
        .unwrap();
}

/// Returns whether each user's address is confirmed, by ID.
async fn confirmed(db: &DatabaseConnection) -> Vec<bool> {
    let sql = "SELECT CASE WHEN confirmed_at IS NULL THEN 0 ELSE 1 END AS confirmed FROM users ORDER BY id";
    let rows = db
        .query_all_raw(Statement::from_string(db.get_database_backend(), sql))
        .await
        .unwrap();
    rows.iter()
        .map(|row| row.try_get::<i32>("", "confirmed").unwrap() == 1)
        .collect()
}

async fn provisioned_users_become_unconfirmed(db: DatabaseConnection) {
    up_before(&db, "m20261124_000071_mark_provisioned_users").await;
    let time = "'2026-01-31 12:00:00+00:00'";
    let user = |id: i32| {
        format!(
            "INSERT INTO users (id, username, username_key, name, email, email_key, confirmed_at, created_at, updated_at)
             VALUES ({id}, 'u{id}', 'u{id}', 'u', 'u{id}@x', 'u{id}@x', {time}, {time}, {time})"
        )
    };
    let identity = |id: i32, uid: &str| {
        format!(
            "INSERT INTO scim_identities (saml_provider_id, user_id, extern_uid_key, user_name_key, created_at, updated_at)
             VALUES (1, {id}, {uid}, 'u', {time}, {time})"
        )
    };
    for statement in [
        user(1),
        user(2),
        user(3),
        format!(
            "INSERT INTO namespaces (id, kind, name, name_key, path, full_path, full_path_key, visibility, created_at, updated_at)
             VALUES (1, 'group', 'g', 'g', 'g', 'g', 'g', 'private', {time}, {time})"
        ),
        format!(
            "INSERT INTO saml_providers (id, namespace_id, enabled, default_membership_role, created_at, updated_at)
             VALUES (1, 1, TRUE, 10, {time}, {time})"
        ),
        identity(2, "'uid'"),
        identity(3, "NULL"),
    ] {
        db.execute_unprepared(&statement).await.unwrap();
    }
    Migrator::up(&db, Some(1)).await.unwrap();
    assert_eq!(confirmed(&db).await, [true, false, false]);
    Migrator::down(&db, Some(1)).await.unwrap();
    assert_eq!(confirmed(&db).await, [true, true, true]);
}

async fn protected_branches_preserve_their_roles(db: DatabaseConnection) {
    up_before(&db, "m20261127_000087_create_protected_tags_and_grants").await;
    let time = "'2026-01-31 12:00:00+00:00'";
    for statement in [
        format!(
            "INSERT INTO users (id, username, username_key, name, email, email_key, created_at, updated_at)
             VALUES (1, 'u', 'u', 'u', 'u@x', 'u@x', {time}, {time})"
        ),
        format!(
            "INSERT INTO namespaces (id, kind, name, name_key, path, full_path, full_path_key, visibility, created_at, updated_at)
             VALUES (1, 'group', 'g', 'g', 'g', 'g', 'g', 'private', {time}, {time})"
        ),
        format!(
            "INSERT INTO projects (id, namespace_id, name, name_key, path, path_key, visibility, last_activity_at, created_at, updated_at)
             VALUES (1, 1, 'p', 'p', 'p', 'p', 'private', {time}, {time}, {time})"
        ),
        format!(
            "INSERT INTO protected_branches (id, project_id, name, push_access_level, merge_access_level, created_at, updated_at)
             VALUES (7, 1, 'main', 0, 30, {time}, {time})"
        ),
    ] {
        db.execute_unprepared(&statement).await.unwrap();
    }
    let roles = async |columns: &str| {
        let sql = format!("SELECT {columns} AS found FROM protected_branches WHERE id = 7");
        let row = db.query_one_raw(Statement::from_string(db.get_database_backend(), sql));
        row.await.unwrap().unwrap().try_get::<i32>("", "found").unwrap()
    };
    Migrator::up(&db, Some(1)).await.unwrap();
    assert_eq!(roles("push_access_level * 100 + merge_access_level").await, 30);
    assert_eq!(roles("CASE WHEN allow_force_push THEN 1 ELSE 0 END").await, 0);
    assert_eq!(roles("coalesce(unprotect_access_level, 0)").await, 0);
    let grant =
        "INSERT INTO protected_ref_grants (protected_branch_id, action, user_id) VALUES (7, 'push', 1)";
    db.execute_unprepared(grant).await.unwrap();
    for broken in [
        "INSERT INTO protected_ref_grants (protected_branch_id, action) VALUES (7, 'push')",
        "INSERT INTO protected_ref_grants (action, user_id) VALUES ('push', 1)",
        "INSERT INTO protected_ref_grants (protected_branch_id, action, user_id) VALUES (7, 'delete', 1)",
    ] {
        assert!(db.execute_unprepared(broken).await.is_err(), "{broken}");
    }
    Migrator::down(&db, Some(1)).await.unwrap();
    assert_eq!(roles("push_access_level * 100 + merge_access_level").await, 30);
}

/// Inserts a group, and the projects 1 to 3 with these values of a column.
async fn insert_projects(db: &DatabaseConnection, column: &str, values: [&str; 3]) {
    let time = "'2026-01-31 12:00:00+00:00'";
    let group = format!(
        "INSERT INTO namespaces (id, kind, name, name_key, path, full_path, full_path_key, visibility, created_at, updated_at)
         VALUES (1, 'group', 'g', 'g', 'g', 'g', 'g', 'private', {time}, {time})"
    );
    db.execute_unprepared(&group).await.unwrap();
    for (id, value) in (1..).zip(values) {
        let project = format!(
            "INSERT INTO projects (id, namespace_id, name, name_key, path, path_key, visibility, {column},
                 last_activity_at, created_at, updated_at)
             VALUES ({id}, 1, 'p{id}', 'p{id}', 'p{id}', 'p{id}', 'private', {value}, {time}, {time}, {time})"
        );
        db.execute_unprepared(&project).await.unwrap();
    }
}

async fn numbers_of_approvals_become_rules(db: DatabaseConnection) {
    up_before(&db, "m20261127_000090_create_approvals").await;
    let time = "'2026-01-31 12:00:00+00:00'";
    insert_projects(&db, "approvals_before_merge", ["0", "3", "5000"]).await;
    Migrator::up(&db, Some(1)).await.unwrap();
    let sql = "SELECT rule.project_id * 1000 + rule.approvals_required AS found FROM approval_rules rule
               JOIN projects ON projects.id = rule.project_id
                   AND projects.approvals_before_merge = rule.approvals_required
               WHERE rule.rule_type = 'any_approver' ORDER BY rule.project_id";
    let rows = db.query_all_raw(Statement::from_string(db.get_database_backend(), sql));
    let rows = rows.await.unwrap();
    let found: Vec<i64> = rows.iter().map(|row| row.try_get("", "found").unwrap()).collect();
    assert_eq!(found, [2_003, 3_100]);
    let orphan =
        format!("INSERT INTO approvals (merge_request_id, user_id, created_at) VALUES (9, 9, {time})");
    assert!(
        db.execute_unprepared(&orphan).await.is_err(),
        "an approval without its merge request"
    );
    Migrator::down(&db, Some(1)).await.unwrap();
}

async fn flag_of_packages_becomes_access_level(db: DatabaseConnection) {
    up_before(
        &db,
        "m20261130_000112_store_access_levels_of_packages_and_releases",
    )
    .await;
    insert_projects(&db, "packages_enabled", ["TRUE", "FALSE", "TRUE"]).await;
    let found = async |expression: &str| {
        let sql = format!("SELECT {expression} AS found FROM projects ORDER BY id");
        let rows = db.query_all_raw(Statement::from_string(db.get_database_backend(), sql));
        let rows = rows.await.unwrap();
        let texts = rows.iter().map(|row| row.try_get::<String>("", "found").unwrap());
        texts.collect::<Vec<_>>()
    };
    Migrator::up(&db, Some(1)).await.unwrap();
    assert_eq!(
        found("package_registry_access_level").await,
        ["enabled", "disabled", "enabled"]
    );
    assert_eq!(found("releases_access_level").await, ["enabled"; 3]);
    for column in ["package_registry_access_level", "releases_access_level"] {
        let set = |level: &str| format!("UPDATE projects SET {column} = '{level}' WHERE id = 3");
        assert!(
            db.execute_unprepared(&set("public")).await.is_err(),
            "{column} accepts an unknown level"
        );
        db.execute_unprepared(&set("private")).await.unwrap();
    }
    Migrator::down(&db, Some(1)).await.unwrap();
    let enabled = "CASE WHEN packages_enabled THEN 'yes' ELSE 'no' END";
    assert_eq!(found(enabled).await, ["yes", "no", "no"]);
    Migrator::up(&db, Some(1)).await.unwrap();
    assert_eq!(
        found("package_registry_access_level").await,
        ["enabled", "disabled", "disabled"]
    );
}

async fn areas_of_existing_projects_remain_available(db: DatabaseConnection) {
    up_before(&db, "m20261201_000127_store_access_levels_of_project_areas").await;
    insert_projects(&db, "description", ["'a'", "'b'", "'c'"]).await;
    Migrator::up(&db, Some(1)).await.unwrap();
    for (column, default) in [
        ("environments_access_level", "enabled"),
        ("feature_flags_access_level", "enabled"),
        ("infrastructure_access_level", "enabled"),
        ("monitor_access_level", "enabled"),
        ("security_and_compliance_access_level", "private"),
    ] {
        let levels: Vec<String> = lines(&db, &format!("SELECT {column} AS line FROM projects")).await;
        assert_eq!(levels, [default; 3], "{column}");
        let set = |level: &str| format!("UPDATE projects SET {column} = '{level}' WHERE id = 3");
        assert!(
            db.execute_unprepared(&set("public")).await.is_err(),
            "{column} accepts an unknown level"
        );
        db.execute_unprepared(&set("disabled")).await.unwrap();
    }
    Migrator::down(&db, Some(1)).await.unwrap();
    let left: BTreeSet<String> = columns(&db).await;
    assert!(
        !left
            .iter()
            .any(|column| column.starts_with("projects.monitor_access_level"))
    );
    Migrator::up(&db, Some(1)).await.unwrap();
}

async fn keys_without_limits_remain(db: DatabaseConnection) {
    up_before(&db, "m20261130_000117_limit_uses_of_user_keys").await;
    let time = "'2026-01-31 12:00:00+00:00'";
    let user = format!(
        "INSERT INTO users (id, username, username_key, name, email, email_key, created_at, updated_at)
         VALUES (1, 'u', 'u', 'u', 'u@x', 'u@x', {time}, {time})"
    );
    db.execute_unprepared(&user).await.unwrap();
    for id in 1..=3 {
        let key = format!(
            "INSERT INTO user_keys (id, user_id, title, key, fingerprint, created_at)
             VALUES ({id}, 1, 't', 'k{id}', 'f{id}', {time})"
        );
        db.execute_unprepared(&key).await.unwrap();
    }
    let found = async |expression: &str| {
        let sql = format!("SELECT {expression} AS found FROM user_keys ORDER BY id");
        let rows = db.query_all_raw(Statement::from_string(db.get_database_backend(), sql));
        let rows = rows.await.unwrap();
        let texts = rows.iter().map(|row| row.try_get::<String>("", "found").unwrap());
        texts.collect::<Vec<_>>()
    };
    Migrator::up(&db, Some(1)).await.unwrap();
    assert_eq!(found("usage_type").await, ["auth_and_signing"; 3]);
    let unknown = "UPDATE user_keys SET usage_type = 'login' WHERE id = 1";
    assert!(
        db.execute_unprepared(unknown).await.is_err(),
        "a key has an unknown use"
    );
    for change in [
        "usage_type = 'signing' WHERE id = 1".to_owned(),
        format!("expires_at = {time} WHERE id = 2"),
    ] {
        let update = format!("UPDATE user_keys SET {change}");
        db.execute_unprepared(&update).await.unwrap();
    }
    Migrator::down(&db, Some(1)).await.unwrap();
    assert_eq!(found("key").await, ["k3"]);
}

/// A test on an empty database.
type Check = fn(DatabaseConnection) -> Pin<Box<dyn Future<Output = ()> + Send>>;

async fn on_sqlite(check: Check) {
    let directory = tempfile::tempdir_in(harness::directory::shared()).unwrap();
    let url = format!(
        "sqlite://{}?mode=rwc",
        directory.path().join("db.sqlite3").display()
    );
    check(Database::connect(url).await.unwrap()).await;
}

async fn on_postgresql(name: &str, check: Check) {
    let url = harness::postgresql::url();
    let admin = Database::connect(url).await.unwrap();
    let name = format!("migration_{name}_{}", std::process::id());
    admin
        .execute_unprepared(&format!("CREATE SCHEMA {name}"))
        .await
        .unwrap();
    let separator = if url.contains('?') { '&' } else { '?' };
    let scoped = format!("{url}{separator}options[search_path]={name}");
    let outcome = tokio::spawn(async move { check(Database::connect(scoped).await.unwrap()).await }).await;
    admin
        .execute_unprepared(&format!("DROP SCHEMA {name} CASCADE"))
        .await
        .unwrap();
    outcome.unwrap();
}

async fn every_migration_is_reversible_on_sqlite() {
    on_sqlite(|db| Box::pin(up_down_up(db))).await;
}

async fn every_migration_is_reversible_on_postgresql() {
    on_postgresql("reversible", |db| Box::pin(up_down_up(db))).await;
}

async fn provisioned_users_become_unconfirmed_on_sqlite() {
    on_sqlite(|db| Box::pin(provisioned_users_become_unconfirmed(db))).await;
}

async fn provisioned_users_become_unconfirmed_on_postgresql() {
    on_postgresql("unconfirmed", |db| {
        Box::pin(provisioned_users_become_unconfirmed(db))
    })
    .await;
}

async fn protected_branches_preserve_their_roles_on_sqlite() {
    on_sqlite(|db| Box::pin(protected_branches_preserve_their_roles(db))).await;
}

async fn protected_branches_preserve_their_roles_on_postgresql() {
    on_postgresql("protected", |db| {
        Box::pin(protected_branches_preserve_their_roles(db))
    })
    .await;
}

async fn numbers_of_approvals_become_rules_on_sqlite() {
    on_sqlite(|db| Box::pin(numbers_of_approvals_become_rules(db))).await;
}

async fn numbers_of_approvals_become_rules_on_postgresql() {
    on_postgresql("approvals", |db| Box::pin(numbers_of_approvals_become_rules(db))).await;
}

async fn flag_of_packages_becomes_access_level_on_sqlite() {
    on_sqlite(|db| Box::pin(flag_of_packages_becomes_access_level(db))).await;
}

async fn flag_of_packages_becomes_access_level_on_postgresql() {
    on_postgresql("packages", |db| {
        Box::pin(flag_of_packages_becomes_access_level(db))
    })
    .await;
}

async fn areas_of_existing_projects_remain_available_on_sqlite() {
    on_sqlite(|db| Box::pin(areas_of_existing_projects_remain_available(db))).await;
}

async fn areas_of_existing_projects_remain_available_on_postgresql() {
    on_postgresql("areas", |db| {
        Box::pin(areas_of_existing_projects_remain_available(db))
    })
    .await;
}

async fn keys_without_limits_remain_on_sqlite() {
    on_sqlite(|db| Box::pin(keys_without_limits_remain(db))).await;
}

async fn keys_without_limits_remain_on_postgresql() {
    on_postgresql("keys", |db| Box::pin(keys_without_limits_remain(db))).await;
}

harness::tests![
    areas_of_existing_projects_remain_available_on_sqlite,
    every_migration_is_reversible_on_sqlite,
    flag_of_packages_becomes_access_level_on_sqlite,
    keys_without_limits_remain_on_sqlite,
    numbers_of_approvals_become_rules_on_sqlite,
    protected_branches_preserve_their_roles_on_sqlite,
    provisioned_users_become_unconfirmed_on_sqlite
];
harness::tests![
    requires harness::postgresql::missing;
    areas_of_existing_projects_remain_available_on_postgresql,
    every_migration_is_reversible_on_postgresql,
    flag_of_packages_becomes_access_level_on_postgresql,
    keys_without_limits_remain_on_postgresql,
    numbers_of_approvals_become_rules_on_postgresql,
    protected_branches_preserve_their_roles_on_postgresql,
    provisioned_users_become_unconfirmed_on_postgresql
];

fn main() -> std::process::ExitCode {
    harness::main()
}
