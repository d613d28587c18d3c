//! `holdfast admin tokens`, next to a running server.

use chrono::TimeDelta;
use sea_orm::{ActiveModelTrait, ActiveValue::Set};
use serde_json::{Value, json};
use storage::database::{Database, DatabaseOptions};
use storage::entities::{now, oauth_tokens};

use crate::support::Client;
use crate::support::process::{Site, TOKEN, on_every_site};
use crate::support::spaces::{group, project};

async fn tokens(site: &Site, arguments: &[&str]) -> String {
    site.succeeds(&[&["admin", "tokens"], arguments].concat()).await
}

async fn list(site: &Site, arguments: &[&str]) -> Vec<Value> {
    let output = tokens(site, &[&["list", "--json"], arguments].concat()).await;
    serde_json::from_str(&output).unwrap_or_else(|error| panic!("{error}: {output}"))
}

fn id(value: &Value) -> String {
    value["id"].as_i64().expect("an ID").to_string()
}

/// Returns the author of the newest audit event of a kind.
async fn author(root: &Client, name: &str) -> String {
    let events = root.get("/audit_events?per_page=100").await.expect(200).json();
    let found = events.as_array().expect("events").iter().find(|event| event["details"]["event_name"] == name).cloned();
    found.expect("an event")["details"]["author_name"].as_str().expect("a name").to_owned()
}

async fn tokens_of_user_are_listed_without_secrets_and_revoked(site: Site) {
    let server = site.serve(&[]).await;
    let root = Client::new(&server.base, Some(TOKEN));
    site.succeeds(&["admin", "create-user", "ann", "--email", "ann@example.com"]).await;
    let secret = site.succeeds(&["admin", "create-token", "ann", "--scopes", "read_user,api"]).await;
    site.succeeds(&["admin", "create-token", "ann", "--name", "old", "--expires-at", "2020-01-31"]).await;
    let user = root.get("/users?username=ann").await.expect(200).json()[0]["id"].clone();
    let body = json!({ "name": "\u{1b}[2J\nx", "scopes": ["api"] });
    root.post(&format!("/users/{user}/impersonation_tokens"), body).await.expect(201);
    let all = list(&site, &["--user", "ann"]).await;
    let shown = |field: &str| all.iter().map(|token| token[field].clone()).collect::<Vec<_>>();
    assert_eq!(shown("kind"), ["personal", "personal", "impersonation"]);
    assert_eq!(shown("state"), ["active", "expired", "active"]);
    assert_eq!(shown("name"), ["command line", "old", "\u{1b}[2J\nx"]);
    assert_eq!(all[0]["scopes"], json!(["read_user", "api"]));
    assert_eq!(all[1]["expires_at"], "2020-01-31");
    let table = tokens(&site, &["list", "--user", &user.to_string()]).await;
    assert_eq!(table.lines().count(), 4, "{table}");
    assert!(table.contains("\\u{1b}[2J\\nx") && !table.contains('\u{1b}'), "{table:?}");
    for output in [&table, &json!(all).to_string()] {
        assert!(!output.contains(secret.trim()) && !output.contains(&domain::secrets::digest(secret.trim())));
    }
    // The token works until it is revoked.
    let ann = Client::new(&server.base, Some(secret.trim()));
    ann.get("/user").await.expect(200);
    let first = id(&all[0]);
    let expected = format!("Token {first} (\"command line\") is now revoked.\n");
    assert_eq!(tokens(&site, &["revoke", &first]).await, expected);
    ann.get("/user").await.expect(401);
    assert_eq!(author(&root, "personal_access_token_revoked").await, "Command line");
    let again = tokens(&site, &["revoke", &first, "--json"]).await;
    assert!(again.starts_with("{\"changed\":false,"), "{again}");
    tokens(&site, &["revoke", &id(&all[2])]).await;
    assert_eq!(author(&root, "impersonation_token_revoked").await, "Command line");
    let count = async |state| list(&site, &["--user", "ann", "--state", state]).await.len();
    assert_eq!((count("active").await, count("inactive").await), (0, 3));
    server.stop().await;
}

async fn token_of_project_is_listed_and_revoked_with_its_bot(site: Site) {
    let server = site.serve(&[]).await;
    let root = Client::new(&server.base, Some(TOKEN));
    let work = project(&root, "work", json!({})).await;
    let body = json!({ "name": "ci", "scopes": ["api"], "access_level": 30 });
    let created = root.post(&format!("/projects/{work}/access_tokens"), body).await.expect(201).json();
    let bot = Client::new(&server.base, created["token"].as_str());
    bot.get(&format!("/projects/{work}")).await.expect(200);
    let listed = list(&site, &["--project", "root/work"]).await;
    assert_eq!((listed.len(), &listed[0]["kind"], &listed[0]["name"]), (1, &json!("project"), &json!("ci")));
    tokens(&site, &["revoke", &id(&listed[0])]).await;
    bot.get("/user").await.expect(401);
    assert_eq!(author(&root, "project_access_token_revoked").await, "Command line");
    assert_eq!(list(&site, &["--project", &work.to_string()]).await, [Value::Null; 0]);
    server.stop().await;
}

async fn scim_token_of_group_is_listed_and_revoked(site: Site) {
    let server = site.serve(&[]).await;
    let root = Client::new(&server.base, Some(TOKEN));
    let bank = group(&root, "bank", json!({})).await;
    assert_eq!(list(&site, &["--group", "bank"]).await, [Value::Null; 0]);
    root.put(&format!("/groups/{bank}/saml"), json!({ "enabled": true })).await.expect(200);
    root.post(&format!("/groups/{bank}/scim_token"), json!({})).await.expect(201);
    let listed = list(&site, &["--group", &bank.to_string()]).await;
    assert_eq!((listed.len(), &listed[0]["kind"]), (1, &json!("scim")));
    let expected = format!("The SCIM token of group bank (ID {bank}) is now revoked.\n");
    assert_eq!(tokens(&site, &["revoke", "--group", "bank"]).await, expected);
    assert_eq!(author(&root, "scim_token_revoked").await, "Command line");
    let output = site.fails(&["admin", "tokens", "revoke", "--group", "bank"]).await;
    assert!(output.contains("group bank") && output.contains("has no SCIM token"), "{output}");
    server.stop().await;
}

async fn oauth_tokens_of_user_are_revoked(site: Site) {
    let server = site.serve(&[]).await;
    let root = Client::new(&server.base, Some(TOKEN));
    site.succeeds(&["admin", "create-user", "ann", "--email", "ann@example.com"]).await;
    let user = root.get("/users?username=ann").await.expect(200).json()[0]["id"].as_i64().expect("an ID");
    let body = json!({ "name": "App", "redirect_uri": "https://app.example/cb", "scopes": "api" });
    let application = root.post("/applications", body).await.expect(201).json();
    let secret = "hfoat-of-ann";
    let row = oauth_tokens::ActiveModel {
        application_id: Set(application["id"].as_i64().expect("an ID")),
        user_id: Set(user),
        family: Set("family".to_owned()),
        digest: Set(domain::secrets::digest(secret)),
        refresh_digest: Set(domain::secrets::digest("hfort-of-ann")),
        scopes: Set("api".to_owned()),
        created_at: Set(now()),
        expires_at: Set(now() + TimeDelta::hours(1)),
        ..Default::default()
    };
    let database = Database::connect(&site.database_url(), &DatabaseOptions::default()).await.expect("a database");
    row.insert(database.write()).await.expect("a token");
    database.close().await.expect("closing");
    let ann = Client::new(&server.base, None).header("Authorization", &format!("Bearer {secret}"));
    ann.get("/user").await.expect(200);
    let expected =
        format!("The OAuth tokens of user ann (ID {user}) are now revoked for these applications: \"App\".\n");
    assert_eq!(tokens(&site, &["revoke-oauth", "ann"]).await, expected);
    ann.get("/user").await.expect(401);
    assert_eq!(author(&root, "oauth_tokens_revoked").await, "Command line");
    let again = tokens(&site, &["revoke-oauth", "ann", "--json"]).await;
    assert!(again.starts_with("{\"changed\":false,"), "{again}");
    server.stop().await;
}

async fn unknown_tokens_and_owners_are_refused(site: Site) {
    let server = site.serve(&[]).await;
    for (arguments, reason) in [
        (&["list", "--user", "missing"][..], "user \"missing\" does not exist"),
        (&["list", "--project", "root/missing"], "project \"root/missing\" does not exist; name a project by its ID"),
        (&["list", "--group", "root"], "group \"root\" does not exist; name a group by its ID"),
        (&["revoke", "999999"], "token 999999 does not exist; list tokens with"),
        (&["revoke-oauth", "missing"], "user \"missing\" does not exist"),
    ] {
        let output = site.fails(&[&["admin", "tokens"], arguments].concat()).await;
        assert!(output.contains(reason), "{output}");
    }
    for arguments in [&["list"][..], &["list", "--user", "a", "--group", "b"], &["revoke"], &["revoke", "x"]] {
        let status = site.run(&[&["admin", "tokens"], arguments].concat()).await.status;
        assert_eq!(status.code(), Some(2), "{arguments:?}");
    }
    server.stop().await;
}

on_every_site![
    tokens_of_user_are_listed_without_secrets_and_revoked,
    token_of_project_is_listed_and_revoked_with_its_bot,
    scim_token_of_group_is_listed_and_revoked,
    oauth_tokens_of_user_are_revoked,
    unknown_tokens_and_owners_are_refused,
];
