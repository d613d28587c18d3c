//! Moves that are refused, and damaged targets.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::process::Stdio;

use sea_orm::ConnectionTrait;
use storage::database::{Database, DatabaseOptions};
use tokio::io::{AsyncBufReadExt, BufReader};

use super::{arguments, contents, counts, execute, in_both_directions, open};
use crate::support::git::output_text;
use crate::support::process::Site;

/// A password in URLs that no output may contain.
const PASSWORD: &str = "url-password";

/// Returns the output of a refused move. The instance must continue to use its database.
async fn refused(from: &Site, to: &str) -> String {
    let identity = std::fs::read(from.data.join("instance.json")).unwrap();
    let printed = from.fails(&arguments(to)).await;
    assert_eq!(std::fs::read(from.data.join("instance.json")).unwrap(), identity, "{printed}");
    printed
}

async fn running_server_worker_or_command_prevents_move(from: Site, to: Site) {
    let server = from.serve(&[]).await;
    let printed = refused(&from, &to.database_url()).await;
    assert!(printed.contains("servers, workers or commands use the database"), "{printed}");
    server.stop().await;
    let mut worker = from.command(&["worker"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(worker.stdout.take().unwrap()).lines();
    let line = lines.next_line().await.unwrap().unwrap();
    assert!(line.contains("runs jobs"), "{line}");
    let printed = refused(&from, &to.database_url()).await;
    assert!(printed.contains("stop them on all nodes"), "{printed}");
    worker.kill().await.unwrap();
    // A command without a registered node holds only the lock of the database.
    let lock = std::fs::File::open(from.data.join("database.lock")).unwrap();
    lock.lock_shared().unwrap();
    let printed = refused(&from, &to.database_url()).await;
    assert!(printed.contains("servers, workers or commands use the database"), "{printed}");
    drop(lock);
    assert_eq!(counts(&from).await["users"], "1");
}

async fn servers_and_commands_are_refused_during_move(from: Site, to: Site) {
    from.serve(&[]).await.stop().await;
    let lock = std::fs::File::open(from.data.join("database.lock")).unwrap();
    lock.lock().unwrap();
    for command in [&["serve", "--listen", "127.0.0.1:0"][..], &["worker"], &["doctor"], &["backup", "copy"]] {
        for site in [&from, &to] {
            let printed = site.fails(command).await;
            let expected =
                if site.database_url() == from.database_url() { "is being moved" } else { "belongs to an instance on" };
            assert!(printed.contains(expected), "{command:?}: {printed}");
        }
    }
    drop(lock);
    from.succeeds(&["doctor"]).await;
}

async fn target_with_other_content_is_refused_and_not_changed(from: Site, to: Site) {
    from.serve(&[]).await.stop().await;
    execute_in(&to.database_url(), "CREATE TABLE other (id bigint PRIMARY KEY)").await;
    let printed = refused(&from, &to.database_url()).await;
    assert!(printed.contains("the target database is not empty"), "{printed}");
    execute_in(&to.database_url(), "INSERT INTO other (id) VALUES (1)").await;
    execute_in(&to.database_url(), "DROP TABLE other").await;
    // The unfinished copy of another instance.
    for sql in [
        "CREATE TABLE database_copy (instance_id text NOT NULL)",
        "INSERT INTO database_copy (instance_id) VALUES ('another')",
    ] {
        execute_in(&to.database_url(), sql).await;
    }
    let printed = refused(&from, &to.database_url()).await;
    assert!(printed.contains("an unfinished copy of the instance another"), "{printed}");
    execute_in(&to.database_url(), "DROP TABLE database_copy").await;
    // Another instance.
    let other = to.another().await;
    other.serve(&[]).await.stop().await;
    let printed = refused(&from, &other.database_url()).await;
    assert!(printed.contains("the target database is not empty"), "{printed}");
    other.succeeds(&["doctor"]).await;
    other.remove().await;
    from.succeeds(&arguments(&to.database_url())).await;
}

async fn target_of_the_same_kind_is_refused(from: Site, _: Site) {
    from.serve(&[]).await.stop().await;
    let other = from.another().await;
    let printed = refused(&from, &other.database_url()).await;
    assert!(printed.contains("the target must be of the other kind"), "{printed}");
    assert!(!other.data.join("holdfast.db").exists());
    other.remove().await;
    let printed = from.fails(&["admin", "migrate-database"]).await;
    assert!(printed.contains("set --to, HOLDFAST_TARGET_DATABASE_URL or --to-file"), "{printed}");
}

async fn output_contains_no_password(from: Site, to: Site) {
    from.serve(&[]).await.stop().await;
    let file = from.sibling_path("target");
    let unreachable = format!("postgres://user:{PASSWORD}@127.0.0.1:1/none");
    std::fs::write(&file, format!("{unreachable}\n")).unwrap();
    let from_file = ["admin", "migrate-database", "--to-file", file.to_str().unwrap()];
    let mut outputs = vec![from.fails(&from_file).await];
    let mut by_environment = from.command(&["admin", "migrate-database"]);
    by_environment.env("HOLDFAST_TARGET_DATABASE_URL", format!("postgres://user:{PASSWORD}@["));
    outputs.push(output_text(&by_environment.output().await.unwrap()));
    outputs.push(from.fails(&arguments(&format!("mysql://user:{PASSWORD}@h/d"))).await);
    let mut help = from.command(&["admin", "migrate-database", "--help"]);
    help.env("HOLDFAST_TARGET_DATABASE_URL", &unreachable);
    outputs.push(output_text(&help.output().await.unwrap()));
    for output in &outputs {
        assert!(!output.is_empty() && !output.contains(PASSWORD), "{output}");
    }
    std::fs::write(&file, "\n").unwrap();
    let printed = from.fails(&from_file).await;
    assert!(printed.contains("the first line must be the URL"), "{printed}");
    std::fs::write(&file, format!("{}\nanother line", to.database_url())).unwrap();
    from.succeeds(&from_file).await;
}

/// Changes a row so that it cannot be copied. The copy then has the table of users, which is copied before.
async fn break_token(site: &Site) {
    let time = if site.database_url().starts_with("sqlite:") { "no time" } else { "infinity" };
    execute(site, &format!("UPDATE access_tokens SET created_at = '{time}'")).await;
}

async fn repair_token(site: &Site) {
    execute(site, "UPDATE access_tokens SET created_at = '2026-01-01T00:00:00+00:00'").await;
}

async fn damaged_copy_is_found_and_copied_again(from: Site, to: Site) {
    from.serve(&[]).await.stop().await;
    repair_token(&from).await;
    let before = contents(&from).await;
    break_token(&from).await;
    let printed = refused(&from, &to.database_url()).await;
    assert!(printed.contains("the copy failed: table access_tokens, row 1, column created_at: "), "{printed}");
    let printed = to.fails(&["doctor"]).await;
    assert!(printed.contains("belongs to an instance on"), "{printed}");
    repair_token(&from).await;
    // A changed row of a table that is already copied.
    execute(&to, "UPDATE users SET name = 'damaged'").await;
    let printed = refused(&from, &to.database_url()).await;
    assert!(
        printed.contains("Continuing the copy after ") && printed.contains("the table users of the copy differs"),
        "{printed}"
    );
    let printed = from.succeeds(&arguments(&to.database_url())).await;
    assert!(printed.contains("Moved the instance"), "{printed}");
    assert_eq!(contents(&from).await, before);
    let users = open(&to).await;
    assert_eq!(super::texts(&users, "SELECT name FROM users").await, ["Administrator"]);
    users.close().await.unwrap();
}

async fn unfinished_copy_is_refused_without_identity_of_directory(from: Site, to: Site) {
    from.serve(&[]).await.stop().await;
    let database = open(&to).await;
    storage::database_copy::begin(&database, "of a test").await.unwrap();
    database.migrate().await.unwrap();
    database.close().await.unwrap();
    let file = from.data.join("instance.json");
    let identity = std::fs::read(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    for arguments in [&["serve", "--listen", "127.0.0.1:0"][..], &["doctor"], &["backup", "copy"]] {
        let printed = to.fails(arguments).await;
        assert!(printed.contains("the database is an unfinished copy of the instance of a test"), "{printed}");
    }
    let mut restored = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&file).unwrap();
    restored.write_all(&identity).unwrap();
    from.succeeds(&["doctor"]).await;
}

async fn original_that_changed_is_copied_again(from: Site, to: Site) {
    from.serve(&[]).await.stop().await;
    break_token(&from).await;
    refused(&from, &to.database_url()).await;
    repair_token(&from).await;
    // The server runs on the original again.
    from.succeeds(&["admin", "create-user", "ann", "--email", "ann@example.com"]).await;
    let output = from.run(&arguments(&to.database_url())).await;
    let printed = output_text(&output);
    assert!(output.status.success(), "{printed}");
    assert!(printed.contains("The table audit_events has changed since the interrupted copy"), "{printed}");
    assert_eq!(counts(&to).await["users"], "2");
}

async fn older_schema_is_refused(from: Site, to: Site) {
    from.serve(&[]).await.stop().await;
    execute(&from, "DELETE FROM seaql_migrations WHERE version = (SELECT max(version) FROM seaql_migrations)").await;
    let printed = refused(&from, &to.database_url()).await;
    assert!(printed.contains("original database: the database has the schema of an older version"), "{printed}");
}

async fn execute_in(url: &str, sql: &str) {
    let database = Database::connect(url, &DatabaseOptions::default()).await.expect("a database");
    database.write().execute_unprepared(sql).await.expect("a statement");
    database.close().await.expect("closing");
}

in_both_directions![
    running_server_worker_or_command_prevents_move,
    servers_and_commands_are_refused_during_move,
    target_with_other_content_is_refused_and_not_changed,
    target_of_the_same_kind_is_refused,
    output_contains_no_password,
    damaged_copy_is_found_and_copied_again,
    unfinished_copy_is_refused_without_identity_of_directory,
    original_that_changed_is_copied_again,
    older_schema_is_refused,
];
