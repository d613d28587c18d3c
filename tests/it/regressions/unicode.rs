//! Case-insensitive search and order for letters beyond ASCII, which SQLite's functions do not support.

use sea_orm::{ConnectionTrait, Statement};
use serde_json::{Value, json};

use crate::packages::package;
use crate::support::spaces::{group, join, project};
use crate::support::{Client, TestServer, on_every_database};

/// Returns one field of each entry that a search finds.
async fn found(client: &Client, path: &str, text: (&str, &str), field: &str) -> Vec<Value> {
    let request = client.request(reqwest::Method::GET, path).query(&[text]);
    client.send(request).await.expect(200).pluck(field)
}

async fn searches_are_case_insensitive_beyond_ascii(server: TestServer) {
    let root = server.root();
    let ada = server.create_user("ada").await;
    root.put(&format!("/users/{}", ada.id), json!({"name": "Élodie Ångström"})).await.expect(200);
    let engines = group(&root, "engines", json!({"name": "Örtliche Läufe"})).await;
    let work = project(
        &root,
        "work",
        json!({
            "namespace_id": engines, "name": "Ünder", "description": "ПАРОВОЙ котёл", "visibility": "private",
        }),
    )
    .await;
    join(&root, &format!("/groups/{engines}"), ada.id, 30).await;
    ada.client.post(&format!("/projects/{work}/star"), json!({})).await.expect(201);
    let (group_members, all) = (format!("/groups/{engines}/members"), format!("/projects/{work}/members/all"));
    for text in ["élodie", "ÉLODIE", "ÅNGSTRÖM", "ångström"] {
        for path in ["/users", &group_members, &all] {
            let name = if path == "/users" { "search" } else { "query" };
            assert_eq!(found(&root, path, (name, text), "username").await, ["ada"], "{path} {text}");
        }
        let starrers = found(&root, &format!("/projects/{work}/starrers"), ("search", text), "user").await;
        assert_eq!(starrers.len(), 1, "{text}");
    }
    for text in ["ÖRTLICHE", "läUFE"] {
        for path in ["/groups", "/namespaces"] {
            assert_eq!(found(&root, path, ("search", text), "path").await, ["engines"], "{path} {text}");
        }
        let within = found(&root, "/projects?search_namespaces=true", ("search", text), "path").await;
        assert_eq!(within, ["work"], "{text}");
    }
    for client in [&root, &ada.client] {
        for text in ["ÜNDER", "ünder", "паровой", "КОТЁЛ", "котёл паровой", "во", "ВО"] {
            assert_eq!(found(client, "/projects", ("search", text), "path").await, ["work"], "{text}");
        }
    }
    // The search index follows updates and removals.
    root.put(&format!("/projects/{work}"), json!({"description": "ÇELIK"})).await.expect(200);
    root.put(&format!("/users/{}", ada.id), json!({"name": "Ñandú"})).await.expect(200);
    assert_eq!(found(&root, "/projects", ("search", "çelik"), "path").await, ["work"]);
    assert_eq!(found(&root, "/projects", ("search", "паровой"), "path").await, [] as [Value; 0]);
    assert_eq!(found(&root, "/users", ("search", "ñANDÚ"), "username").await, ["ada"]);
    root.put(&format!("/projects/{work}"), json!({"description": null})).await.expect(200);
    assert_eq!(found(&root, "/projects", ("search", "çelik"), "path").await, [] as [Value; 0]);
    // A new user name is the path of the personal namespace.
    root.put(&format!("/users/{}", ada.id), json!({"username": "Lovelace"})).await.expect(200);
    assert_eq!(found(&root, "/namespaces", ("search", "LOVELACE"), "path").await, ["Lovelace"]);
}

async fn lists_ordered_by_name_ignore_case(server: TestServer) {
    let root = server.root();
    for (path, name) in [("a", "zebra"), ("B", "Apple"), ("c", "Émile"), ("D", "apricot"), ("e", "éclair")] {
        project(&root, path, json!({"name": name})).await;
        group(&root, &format!("g-{path}"), json!({"name": name})).await;
        let user = server.create_user(&format!("u-{path}")).await;
        root.put(&format!("/users/{}", user.id), json!({"name": name})).await.expect(200);
    }
    let names = ["Apple", "apricot", "zebra", "éclair", "Émile"];
    let list = async |query: &str, field: &str| root.get(query).await.expect(200).pluck(field);
    assert_eq!(list("/projects?order_by=name&sort=asc", "name").await, names);
    assert_eq!(list("/projects?order_by=path&sort=asc", "path").await, ["a", "B", "c", "D", "e"]);
    assert_eq!(list("/groups", "name").await, names);
    assert_eq!(list("/groups?order_by=path&sort=desc", "path").await, ["g-e", "g-D", "g-c", "g-B", "g-a"]);
    let users = list("/users?order_by=name&sort=asc&search=u-", "name").await;
    assert_eq!(users, names);
    let backwards: Vec<&str> = names.iter().rev().copied().collect();
    assert_eq!(list("/projects?order_by=name", "name").await, backwards);
}

/// Columns of texts by which lists are sorted.
const SORTED: [(&str, &str); 4] =
    [("labels", "title"), ("packages", "name_key"), ("packages", "version"), ("custom_attributes", "key")];

/// Gives the columns another order on PostgreSQL, as the locale of the database does.
async fn sort_as_other_locale(server: &TestServer) {
    let db = server.backend.database.write();
    if !server.locks_rows() {
        return;
    }
    let collation = "SELECT 1 FROM pg_collation WHERE collname = 'und-x-icu'";
    let found = db.query_one_raw(Statement::from_string(db.get_database_backend(), collation)).await;
    if found.expect("the collations").is_none() {
        // Servers without ICU.
        return;
    }
    for (table, column) in SORTED {
        let alter = format!("ALTER TABLE {table} ALTER COLUMN {column} TYPE text COLLATE \"und-x-icu\"");
        db.execute_unprepared(&alter).await.expect("a change of the collation");
    }
}

async fn lists_are_sorted_by_code_points_in_any_locale(server: TestServer) {
    sort_as_other_locale(&server).await;
    let root = server.root();
    let one = format!("/projects/{}", project(&root, "work", json!({})).await);
    let titles = ["Zeta", "a-b", "ab", "éc"];
    for title in ["éc", "ab", "a-b", "Zeta"] {
        root.post(&format!("{one}/labels"), json!({"name": title, "color": "#ff0000"})).await.expect(201);
    }
    assert_eq!(root.get(&format!("{one}/labels")).await.expect(200).pluck("name"), titles);
    let issue = json!({"title": "t", "labels": titles.join(",")});
    assert_eq!(root.post(&format!("{one}/issues"), issue).await.expect(201).json()["labels"], json!(titles));
    assert_eq!(root.get(&format!("{one}/issues")).await.expect(200).json()[0]["labels"], json!(titles));
    for (name, version) in [("a_b", "1-a"), ("a-b", "1-B")] {
        package(&root, &one, name, version).await;
    }
    for (order, names) in [("name", ["a-b", "a_b"]), ("version", ["a-b", "a_b"])] {
        let listed = root.get(&format!("{one}/packages?order_by={order}")).await.expect(200);
        assert_eq!(listed.pluck("name"), names, "{order}");
    }
    let found = root.get(&format!("{one}/packages?package_version=1-a")).await.expect(200);
    assert_eq!(found.pluck("name"), ["a_b"]);
    for key in ["a", "B"] {
        root.put(&format!("{one}/custom_attributes/{key}"), json!({"value": "1"})).await.expect(200);
    }
    assert_eq!(root.get(&format!("{one}/custom_attributes")).await.expect(200).pluck("key"), ["B", "a"]);
}

async fn search_finds_text_with_database_specific_case_mapping(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    let titles = ["İstanbul office", "Ꭰꮿꭹ", "ẞtraße ǅ", "İ", "plain"];
    for title in titles {
        root.post(&format!("/projects/{work}/issues"), json!({"title": title})).await.expect(201);
    }
    let list = format!("/projects/{work}/issues");
    for (text, title) in [
        ("İstanbul", titles[0]),
        ("STANBUL", titles[0]),
        ("Ꭰꮿꭹ", titles[1]),
        ("ẞtraße", titles[2]),
        ("İ", titles[3]),
        ("PLAIN", titles[4]),
    ] {
        assert_eq!(found(&root, &list, ("search", text), "title").await, [title], "{text}");
        let others = found(&root, &list, ("not[search]", text), "title").await;
        assert_eq!(others.len(), titles.len() - 1, "{text}");
        assert!(!others.contains(&json!(title)), "{text}");
    }
}

on_every_database![
    searches_are_case_insensitive_beyond_ascii,
    lists_ordered_by_name_ignore_case,
    lists_are_sorted_by_code_points_in_any_locale,
    search_finds_text_with_database_specific_case_mapping,
];
