//! `holdfast admin users`, next to a running server.

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use crate::support::git;
use crate::support::process::{Site, TOKEN, on_every_site};
use crate::support::{Client, DatabaseKind};

/// Runs `admin users` with `--json`, which must succeed, and returns the document.
async fn users_json(site: &Site, arguments: &[&str]) -> Value {
    let output = site.succeeds(&[&["admin", "users"], arguments, &["--json"]].concat()).await;
    serde_json::from_str(&output).unwrap_or_else(|error| panic!("{error}: {output}"))
}

async fn users(site: &Site, arguments: &[&str]) -> String {
    site.succeeds(&[&["admin", "users"], arguments].concat()).await
}

/// Creates a user with a token of their own.
async fn create(site: &Site, base: &str, name: &str) -> Client {
    site.succeeds(&["admin", "create-user", name, "--email", &format!("{name}@example.com")]).await;
    let token = site.succeeds(&["admin", "create-token", name]).await;
    Client::new(base, Some(token.trim()))
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array().expect("a list").iter().map(|user| user["username"].as_str().expect("a name")).collect()
}

/// Returns the newest audit event of a kind.
async fn audited(root: &Client, name: &str) -> Value {
    let events = root.get("/audit_events?per_page=100").await.expect(200).json();
    let events = events.as_array().expect("events").iter();
    let found = events.into_iter().find(|event| event["details"]["event_name"] == name);
    found.unwrap_or_else(|| panic!("no event {name}")).clone()
}

async fn list_filters_and_sorts_users(site: Site) {
    let server = site.serve(&[]).await;
    for name in ["zoe", "ann", "bob"] {
        create(&site, &server.base, name).await;
    }
    users(&site, &["block", "bob"]).await;
    for (arguments, expected) in [
        (&["list"][..], &["root", "zoe", "ann", "bob"][..]),
        (&["list", "--state", "active"], &["root", "zoe", "ann"]),
        (&["list", "--state", "blocked"], &["bob"]),
        (&["list", "--state", "deactivated"], &[]),
        (&["list", "--admin"], &["root"]),
        (&["list", "--search", "AN"], &["ann"]),
        (&["list", "--search", "zoe@example.com"], &["zoe"]),
        (&["list", "--search", "%"], &[]),
    ] {
        assert_eq!(names(&users_json(&site, arguments).await), expected, "{arguments:?}");
        let table = users(&site, arguments).await;
        let mut lines = table.lines();
        assert!(lines.next().is_some_and(|line| line.starts_with("ID  USERNAME")), "{table}");
        let shown: Vec<&str> = lines.map(|line| line.split_whitespace().nth(1).expect("a name")).collect();
        assert_eq!(shown, expected, "{table}");
    }
    server.stop().await;
}

/// The list is longer than a batch, and its columns are as wide as the widest cell of all batches.
async fn list_reads_long_lists_in_parts(site: Site) {
    use sea_orm::{ConnectionTrait, DatabaseBackend};
    site.serve(&[]).await.stop().await;
    let options = storage::database::DatabaseOptions::default();
    let database = storage::database::Database::connect(&site.database_url(), &options).await.expect("a database");
    let now = match database.backend() {
        DatabaseBackend::Postgres => "now()",
        _ => "'2026-01-01 00:00:00+00:00'",
    };
    let rows = |from: usize, to: usize| {
        let row = |n: usize| format!("('user{n}', 'user{n}', 'U', 'u', 'user{n}@x', 'user{n}@x', {now}, {now})");
        (from..to).map(row).collect::<Vec<_>>().join(", ")
    };
    let statement = format!(
        "INSERT INTO users (username, username_key, name, name_key, email, email_key, created_at, updated_at) VALUES {}",
        rows(1000, 2200)
    );
    database.write().execute_unprepared(&statement).await.expect("users");
    database.close().await.expect("closing");
    let list = users_json(&site, &["list"]).await;
    assert_eq!(list.as_array().expect("a list").len(), 1201);
    let ids: Vec<i64> = list.as_array().unwrap().iter().map(|user| user["id"].as_i64().unwrap()).collect();
    assert!(ids.is_sorted());
    let table = users(&site, &["list"]).await;
    assert_eq!(table.lines().count(), 1202);
    let column = table.lines().next().unwrap().find("STATE").unwrap();
    assert!(table.lines().skip(1).all(|line| line[column..].starts_with("active")), "{table}");
}

async fn block_and_unblock_take_effect_on_running_server(site: Site) {
    let server = site.serve(&[]).await;
    let root = Client::new(&server.base, Some(TOKEN));
    let ann = create(&site, &server.base, "ann").await;
    ann.get("/user").await.expect(200);
    let id = users_json(&site, &["show", "ann"]).await["id"].as_i64().unwrap();
    let expected = format!("User ann (ID {id}) is now blocked, and the sessions of the user have ended.\n");
    // An ID and a username in any case name the same user.
    assert_eq!(users(&site, &["block", "ANN"]).await, expected);
    ann.get("/user").await.expect(403);
    assert_eq!(users_json(&site, &["show", &id.to_string()]).await["state"], "blocked");
    let event = audited(&root, "user_blocked").await;
    assert_eq!((&event["author_id"], &event["entity_id"]), (&json!(-1), &json!(id)));
    assert_eq!(event["details"]["author_name"], "Command line");
    let again = users_json(&site, &["block", "ann"]).await;
    let message = format!("User ann (ID {id}) was already blocked.");
    assert_eq!(again, json!({ "changed": false, "message": message, "id": id }));
    assert_eq!(users(&site, &["unblock", "ann"]).await, format!("User ann (ID {id}) is not blocked any more.\n"));
    ann.get("/user").await.expect(200);
    assert_eq!(users(&site, &["unblock", "ann"]).await, format!("User ann (ID {id}) was not blocked.\n"));
    server.stop().await;
}

async fn promote_and_demote_change_permissions(site: Site) {
    let server = site.serve(&[]).await;
    let root = Client::new(&server.base, Some(TOKEN));
    let ann = create(&site, &server.base, "ann").await;
    ann.get("/application/settings").await.expect(403);
    let promoted = users_json(&site, &["promote", "ann"]).await;
    assert_eq!(promoted["changed"], true);
    ann.get("/application/settings").await.expect(200);
    assert_eq!(audited(&root, "user_admin_changed").await["details"]["author_name"], "Command line");
    assert!(users(&site, &["promote", "ann"]).await.contains("was already an administrator"));
    users(&site, &["demote", "ann"]).await;
    ann.get("/application/settings").await.expect(403);
    assert!(users(&site, &["demote", "ann"]).await.contains("was not an administrator"));
    server.stop().await;
}

async fn last_administrator_is_protected(site: Site) {
    let server = site.serve(&[]).await;
    create(&site, &server.base, "ann").await;
    let refused = async || {
        for (command, reason) in [("demote", "must remain one"), ("block", "cannot be blocked")] {
            let output = site.fails(&["admin", "users", command, "root"]).await;
            assert!(output.contains(reason) && output.contains("make another user an administrator first"), "{output}");
        }
    };
    refused().await;
    // A blocked administrator does not count.
    users(&site, &["promote", "ann"]).await;
    users(&site, &["block", "ann"]).await;
    refused().await;
    users(&site, &["unblock", "ann"]).await;
    users(&site, &["demote", "root"]).await;
    assert_eq!(names(&users_json(&site, &["list", "--admin"]).await), ["ann"]);
    server.stop().await;
}

/// Two commands that demote or block the last two administrators at the same time: one of them is refused.
async fn one_of_two_administrators_remains(site: Site) {
    let server = site.serve(&[]).await;
    create(&site, &server.base, "ann").await;
    for round in 0..3 {
        users(&site, &["promote", "ann"]).await;
        let second = if round == 1 { "block" } else { "demote" };
        let arguments = ["admin", "users", second, "ann"];
        let (first, second) = tokio::join!(site.run(&["admin", "users", "demote", "root"]), site.run(&arguments));
        let text = format!("{}{}", git::output_text(&first), git::output_text(&second));
        assert_eq!(i32::from(first.status.success()) + i32::from(second.status.success()), 1, "{text}");
        let remaining = users_json(&site, &["list", "--admin", "--state", "active"]).await;
        assert_eq!(names(&remaining).len(), 1, "{text}");
        users(&site, &["promote", "root"]).await;
        users(&site, &["unblock", "ann"]).await;
    }
    server.stop().await;
}

async fn reset_password_prints_generated_password_once_and_requires_change(site: Site) {
    let server = site.serve(&[]).await;
    let root = Client::new(&server.base, Some(TOKEN));
    create(&site, &server.base, "ann").await;
    let reset = users_json(&site, &["reset-password", "ann"]).await;
    assert!(reset["password"].as_str().is_some_and(|password| password.len() >= 20), "{reset}");
    assert_eq!(users_json(&site, &["show", "ann"]).await["password_change_required"], true);
    let event = audited(&root, "user_password_changed").await;
    assert_eq!(event["details"]["author_name"], "Command line");
    assert!(!event.to_string().contains(reset["password"].as_str().unwrap()));
    let printed = users(&site, &["reset-password", "ann"]).await;
    let lines: Vec<&str> = printed.lines().collect();
    assert!(lines[0].contains("must change it at the next sign-in"), "{printed}");
    assert!(lines[1].starts_with("Password (shown once): ") && lines.len() == 2, "{printed}");
    server.stop().await;
}

async fn reset_password_reads_file_and_standard_input(site: Site) {
    let server = site.serve(&[]).await;
    create(&site, &server.base, "ann").await;
    let stored = async || {
        let options = storage::database::DatabaseOptions::default();
        let database = storage::database::Database::connect(&site.database_url(), &options).await.expect("a database");
        let user =
            storage::entities::users::by_username(database.read(), "ann").await.expect("a query").expect("a user");
        database.close().await.expect("closing");
        user.password_hash.expect("a password")
    };
    let is_stored = async |password: &str| {
        let hash = stored().await;
        let password = password.to_owned();
        tokio::task::spawn_blocking(move || domain::secrets::verify_password(&password, Some(&hash)))
            .await
            .unwrap()
            .unwrap()
    };
    let file = site.sibling_path("password");
    std::fs::write(&file, "correct horse battery\r\nignored\n").unwrap();
    let file = file.to_str().unwrap().to_owned();
    let output = users(&site, &["reset-password", "ann", "--password-file", &file]).await;
    assert!(!output.contains("correct horse") && !output.contains("Password"), "{output}");
    assert!(is_stored("correct horse battery").await);
    let mut command = site.command(&["admin", "users", "reset-password", "ann", "--password-stdin"]);
    let mut child = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"another horse battery\n").await.unwrap();
    assert!(child.wait().await.unwrap().success());
    assert!(is_stored("another horse battery").await);
    std::fs::write(&file, "short\n").unwrap();
    for (arguments, reason) in [
        (&["--password-file", &*file][..], "password is too short (minimum is 8 characters)"),
        (&["--password-file", "/missing"], "/missing: No such file"),
        (&["--password-stdin"], "the first line of standard input is empty"),
        (&["--prompt"], "standard input is not a terminal; use --password-stdin"),
    ] {
        let output = site.fails(&[&["admin", "users", "reset-password", "ann"], arguments].concat()).await;
        assert!(output.contains(reason), "{output}");
    }
    assert!(is_stored("another horse battery").await);
    server.stop().await;
}

async fn unknown_names_and_arguments_have_documented_exit_codes(site: Site) {
    let server = site.serve(&[]).await;
    for command in ["show", "block", "unblock", "promote", "demote", "reset-password"] {
        let output = site.fails(&["admin", "users", command, "missing"]).await;
        assert!(output.contains("user \"missing\" does not exist; list the users with: holdfast admin users list"));
    }
    // Digits are an ID.
    site.fails(&["admin", "users", "show", "999999"]).await;
    let output = site.fails(&["admin", "users", "show", "a\n\u{1b}[31m\u{202e}"]).await;
    assert!(output.contains("user \"a\\n\\u{1b}[31m\\u{202e}\" does not exist"), "{output:?}");
    for arguments in [
        &["admin", "users"][..],
        &["admin", "users", "list", "--state", "asleep"],
        &["admin", "users", "show"],
        &["admin", "users", "reset-password", "root", "--prompt", "--password-stdin"],
        &["admin", "users", "reset-password", "root", "secret"],
    ] {
        assert_eq!(site.run(arguments).await.status.code(), Some(2), "{arguments:?}");
    }
    server.stop().await;
}

async fn names_cannot_control_the_terminal(site: Site) {
    let server = site.serve(&[]).await;
    let root = Client::new(&server.base, Some(TOKEN));
    create(&site, &server.base, "ann").await;
    let id = users_json(&site, &["show", "ann"]).await["id"].as_i64().unwrap();
    let name = "Ann\u{1b}[2J\r\u{202e}evil\u{9b}31m";
    root.put(&format!("/users/{id}"), json!({ "name": name, "note": "a\nroot  admin\u{7}" })).await.expect(200);
    for arguments in [&["list"][..], &["list", "--json"], &["show", "ann"], &["show", "ann", "--json"]] {
        let output = users(&site, arguments).await;
        let unsafe_character = output.chars().find(|c| (c.is_control() && *c != '\n') || *c == '\u{202e}');
        assert_eq!(unsafe_character, None, "{output:?}");
    }
    let table = users(&site, &["list"]).await;
    assert_eq!(table.lines().count(), 3, "{table}");
    assert!(table.contains("Ann\\u{1b}[2J\\r\\u{202e}evil\\u{9b}31m"), "{table}");
    // JSON preserves the text.
    assert_eq!(users_json(&site, &["show", "ann"]).await["name"], name);
    server.stop().await;
}

/// Options of the command come first, and those of the server have their own heading.
async fn help_shows_options_of_the_command_first(site: Site) {
    let help = users(&site, &["list", "--help"]).await;
    let (options, _example) = help.split_once("Example:").unwrap_or_else(|| panic!("{help}"));
    let (own, server) = options.split_once("Server options:").unwrap_or_else(|| panic!("{help}"));
    for option in ["--search", "--state", "--admin", "--json", "--help"] {
        assert!(own.contains(option) && !server.contains(&format!("{option} ")), "{option}: {help}");
    }
    assert!(server.contains("--data-dir") && !own.contains("--data-dir"), "{help}");
    assert!(help.trim_end().ends_with("holdfast admin users list --state blocked --json"), "{help}");
    for command in ["serve", "worker", "doctor"] {
        let help = site.succeeds(&[command, "--help"]).await;
        assert!(help.contains("Server options:\n"), "{help}");
    }
}

async fn commands_work_without_a_server(site: Site) {
    site.serve(&[]).await.stop().await;
    users(&site, &["show", "root"]).await;
    assert_eq!(names(&users_json(&site, &["list"]).await), ["root"]);
    if let DatabaseKind::Sqlite = site.kind {
        let missing = site.another().await;
        let output = missing.fails(&["admin", "users", "list"]).await;
        assert!(output.contains("--data-dir"), "{output}");
    }
}

on_every_site![
    list_filters_and_sorts_users,
    list_reads_long_lists_in_parts,
    block_and_unblock_take_effect_on_running_server,
    promote_and_demote_change_permissions,
    last_administrator_is_protected,
    one_of_two_administrators_remains,
    reset_password_prints_generated_password_once_and_requires_change,
    reset_password_reads_file_and_standard_input,
    unknown_names_and_arguments_have_documented_exit_codes,
    names_cannot_control_the_terminal,
    help_shows_options_of_the_command_first,
    commands_work_without_a_server,
];
