//! Killed moves.

use std::process::Stdio;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};

use super::{arguments, contents, counts, execute, in_both_directions};
use crate::support::git::output_text;
use crate::support::process::{Process, Site, TOKEN};
use crate::support::{Client, DatabaseKind};

/// Rows of each large table, whose copy takes longer than it takes to kill a process.
const ROWS: usize = 40_000;

/// Adds rows to a table that is copied first, and to one that is copied after the users.
async fn add_rows(site: &Site) {
    let (numbers, digest) = match site.kind {
        DatabaseKind::Sqlite => (
            format!("WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS})"),
            "hex(randomblob(32))",
        ),
        DatabaseKind::Postgresql(_) => (format!("WITH n (i) AS (SELECT generate_series(1, {ROWS}))"), "md5(i::text)"),
    };
    let time = "'2026-01-01T00:00:00+00:00'";
    let events = format!(
        "{numbers} INSERT INTO audit_events (author_id, entity_type, entity_id, event_name, details, created_at) \
         SELECT i, 'User', i, 'event', '{{}}', {time} FROM n"
    );
    let emails = format!(
        "{numbers} INSERT INTO user_emails (user_id, email, email_key, created_at) \
         SELECT 1, {digest}, {digest}, {time} FROM n"
    );
    for sql in [events, emails] {
        execute(site, &sql).await;
    }
}

/// Starts a move, and kills it when it has printed a line that starts with `text`.
async fn kill_after(from: &Site, to: &Site, text: &str) {
    let url = to.database_url();
    let mut child = from.command(&arguments(&url)).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let found = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            if line.starts_with(text) {
                return true;
            }
        }
        false
    };
    let found = tokio::time::timeout(Duration::from_secs(120), found).await.expect("a line");
    assert!(found, "the move did not print {text}");
    child.kill().await.unwrap();
}

fn kind(site: &Site) -> String {
    let text = std::fs::read_to_string(site.data.join("instance.json")).unwrap();
    let identity: serde_json::Value = serde_json::from_str(&text).unwrap();
    identity["database"].as_str().unwrap().to_owned()
}

/// Checks that an instance works: its administrator exists, and the token is valid.
async fn assert_works(server: &Process) {
    Client::new(&server.base, Some(TOKEN)).get("/user").await.expect(200);
}

async fn killed_move_is_continued_and_original_works_until_then(from: Site, to: Site) {
    from.serve(&[]).await.stop().await;
    add_rows(&from).await;
    let (before, original, rows) = (contents(&from).await, kind(&from), counts(&from).await);
    for text in ["Copied audit_events: ", "Copied users: ", "Copied user_emails: ", "Verified audit_events: "] {
        kill_after(&from, &to, text).await;
        assert_eq!(kind(&from), original, "{text}");
        let printed = to.fails(&["serve", "--listen", "127.0.0.1:0"]).await;
        assert!(printed.contains("belongs to an instance on"), "{printed}");
        let identity = std::fs::read(from.data.join("instance.json")).unwrap();
        std::fs::remove_file(from.data.join("instance.json")).unwrap();
        let printed = to.fails(&["serve", "--listen", "127.0.0.1:0"]).await;
        assert!(printed.contains("the database is an unfinished copy of the instance"), "{printed}");
        std::fs::write(from.data.join("instance.json"), identity).unwrap();
        assert_eq!(contents(&from).await, before, "{text}");
    }
    let output = from.run(&arguments(&to.database_url())).await;
    let printed = output_text(&output);
    assert!(output.status.success(), "{printed}");
    assert!(printed.contains("Continuing the copy after ") && !printed.contains("Copied audit_events"), "{printed}");
    assert_ne!(kind(&from), original);
    assert_eq!(counts(&to).await, rows);
    let server = to.serve(&[]).await;
    assert_works(&server).await;
    server.stop().await;
}

async fn move_killed_at_any_time_leaves_one_usable_database(from: Site, to: Site) {
    from.serve(&[]).await.stop().await;
    let (original, rows) = (kind(&from), counts(&from).await);
    let mut delay = Duration::from_millis(20);
    let killed = loop {
        let url = to.database_url();
        let mut child = from.command(&arguments(&url)).stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        match tokio::time::timeout(delay, child.wait()).await {
            Ok(status) => {
                assert!(status.unwrap().success());
                break false;
            }
            Err(_) => child.kill().await.unwrap(),
        }
        let current = if kind(&from) == original { &from } else { &to };
        let server = current.serve(&["--no-worker"]).await;
        assert_works(&server).await;
        server.stop().await;
        if kind(&from) != original {
            break true;
        }
        delay += Duration::from_millis(150);
    };
    assert_ne!(kind(&from), original);
    assert!(killed || counts(&to).await == rows, "rows are missing");
    to.succeeds(&["doctor"]).await;
}

async fn move_killed_before_data_directory_changed_is_completed(from: Site, to: Site) {
    from.serve(&[]).await.stop().await;
    let identity = std::fs::read(from.data.join("instance.json")).unwrap();
    from.succeeds(&arguments(&to.database_url())).await;
    // The state between the removal of the mark in the copy and the change of the data directory.
    std::fs::write(from.data.join("instance.json"), &identity).unwrap();
    execute(&from, "DROP TABLE database_moved").await;
    let output = from.run(&arguments(&to.database_url())).await;
    let printed = output_text(&output);
    assert!(output.status.success() && printed.contains("The target has all tables"), "{printed}");
    // The same, but the server ran on the original in the meantime.
    std::fs::write(from.data.join("instance.json"), &identity).unwrap();
    execute(&from, "DROP TABLE database_moved").await;
    from.succeeds(&["admin", "create-user", "ann", "--email", "ann@example.com"]).await;
    let printed = from.fails(&arguments(&to.database_url())).await;
    assert!(printed.contains("but the instance has changed since: the table "), "{printed}");
    from.succeeds(&["doctor"]).await;
}

/// A killed server leaves commits in the log of SQLite, which is not part of the file.
async fn move_after_killed_server_has_all_acknowledged_rows(from: Site, to: Site) {
    let server = from.serve(&["--no-worker"]).await;
    let root = Client::new(&server.base, Some(TOKEN));
    for number in 0..20 {
        let project = json!({ "name": format!("p{number}"), "visibility": "private" });
        root.post("/projects", project).await.expect(201);
    }
    server.kill().await;
    from.succeeds(&arguments(&to.database_url())).await;
    assert_eq!(counts(&to).await["projects"], "20");
    let server = to.serve(&[]).await;
    let projects = Client::new(&server.base, Some(TOKEN)).get("/projects?per_page=100").await.expect(200).json();
    assert_eq!(projects.as_array().unwrap().len(), 20);
    server.stop().await;
    to.succeeds(&["doctor"]).await;
}

in_both_directions![
    move_after_killed_server_has_all_acknowledged_rows,
    killed_move_is_continued_and_original_works_until_then,
    move_killed_at_any_time_leaves_one_usable_database,
    move_killed_before_data_directory_changed_is_completed,
];
