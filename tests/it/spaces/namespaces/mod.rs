//! Namespaces.

use serde_json::{Value, json};

use crate::support::spaces::{group, join};
use crate::support::{TestServer, on_every_database};

async fn list_namespaces_returns_namespaces_of_the_caller(server: TestServer) {
    let root = server.root();
    let (ada, bob) = (server.create_user("ada").await, server.create_user("bob").await);
    let engines = group(&root, "engines", json!({"visibility": "public"})).await;
    let inner = group(&root, "Inner", json!({"parent_id": engines})).await;
    let mine = group(&ada.client, "mine", json!({})).await;
    let names = async |client: &crate::support::Client, query: &str| {
        client.get(&format!("/namespaces?{query}")).await.expect(200).pluck("full_path")
    };
    assert_eq!(names(&bob.client, "").await, ["bob"]);
    assert_eq!(names(&root, "").await, ["root", "ada", "bob", "engines", "engines/Inner", "mine"]);
    join(&root, &format!("/groups/{engines}"), ada.id, 10).await;
    assert_eq!(names(&ada.client, "").await, ["ada", "engines", "engines/Inner", "mine"]);
    assert_eq!(names(&ada.client, "search=INNER").await, ["engines/Inner"]);
    assert_eq!(names(&ada.client, "search=gines%2Fin").await, ["engines/Inner"]);
    assert_eq!(names(&ada.client, "search=%25").await, [] as [Value; 0]);
    assert_eq!(names(&ada.client, "owned_only=true").await, ["ada", "mine"]);
    assert_eq!(names(&ada.client, "top_level_only=true").await, ["ada", "engines", "mine"]);
    let list = ada.client.get("/namespaces?per_page=1&page=2").await.expect(200);
    assert_eq!(
        (list.json(), list.header("x-total")),
        (
            json!([{
                "id": engines, "name": "engines", "path": "engines", "kind": "group", "full_path": "engines",
                "parent_id": null, "avatar_url": null, "web_url": format!("{}/groups/engines", server.base),
            }]),
            "4"
        )
    );
    server.anonymous().get("/namespaces").await.expect(401);
    assert_eq!(ada.client.get(&format!("/namespaces/{mine}")).await.expect(200).json()["path"], "mine");
    let read = ada.client.get("/namespaces/engines%2Finner").await.expect(200).json();
    assert_eq!((&read["id"], &read["parent_id"]), (&json!(inner), &json!(engines)));
}

async fn get_namespace_by_id_or_path_requires_visibility(server: TestServer) {
    let root = server.root();
    let (ada, bob) = (server.create_user("ada").await, server.create_user("bob").await);
    let hidden = group(&root, "hidden", json!({})).await;
    let open = group(&root, "open", json!({"visibility": "public"})).await;
    let own = ada.client.get("/namespaces/ADA").await.expect(200).json();
    assert_eq!((&own["kind"], &own["web_url"]), (&json!("user"), &json!(format!("{}/ada", server.base))));
    for name in ["ada".to_owned(), own["id"].to_string(), hidden.to_string(), "999999".to_owned()] {
        let response = bob.client.get(&format!("/namespaces/{name}")).await.expect(404);
        assert_eq!(response.message(), "404 Namespace Not Found");
    }
    bob.client.get(&format!("/namespaces/{open}")).await.expect(200);
    root.get("/namespaces/ada").await.expect(200);
    server.anonymous().get(&format!("/namespaces/{open}")).await.expect(401);
}

async fn exists_returns_whether_a_path_is_taken_and_an_available_one(server: TestServer) {
    let root = server.root();
    let ada = server.create_user("ada").await.client;
    let engines = group(&root, "Engines", json!({"visibility": "public"})).await;
    let hidden = group(&root, "hidden", json!({})).await;
    group(&root, "inner", json!({"parent_id": engines})).await;
    group(&root, "inner", json!({"parent_id": hidden})).await;
    group(&root, "engines1", json!({})).await;
    let taken = |available: &str| json!({ "exists": true, "suggests": [available] });
    let free = json!({ "exists": false, "suggests": [] });
    for (path, expected) in [
        ("engines/exists".to_owned(), taken("engines2")),
        ("ADA/exists".to_owned(), taken("ADA1")),
        ("hidden/exists".to_owned(), taken("hidden1")),
        ("inner/exists".to_owned(), free.clone()),
        ("engines%2Finner/exists".to_owned(), free.clone()),
        ("4711/exists".to_owned(), free.clone()),
        (format!("{engines}/exists"), free.clone()),
        (format!("inner/exists?parent_id={engines}"), taken("inner1")),
        (format!("engines/exists?parent_id={engines}"), free.clone()),
        // A group that is not visible is considered empty.
        (format!("inner/exists?parent_id={hidden}"), free.clone()),
        ("inner/exists?parent_id=4711".to_owned(), free.clone()),
    ] {
        let found = ada.get(&format!("/namespaces/{path}")).await.expect(200);
        assert_eq!(found.json(), expected, "{path}");
    }
    let inside = format!("/namespaces/inner/exists?parent_id={hidden}");
    assert_eq!(root.get(&inside).await.expect(200).json(), taken("inner1"));
    server.anonymous().get("/namespaces/engines/exists").await.expect(401);
    for path in
        ["engines/exists?parent_id=x".to_owned(), "%00/exists".to_owned(), format!("{}/exists", "x".repeat(256))]
    {
        ada.get(&format!("/namespaces/{path}")).await.expect(400);
    }
}

async fn list_statement_count_is_independent_of_namespace_count(server: TestServer) {
    let root = server.root();
    let cost = async || {
        let before = server.statements();
        root.get("/namespaces").await.expect(200);
        server.statements() - before
    };
    // The first use of a token needs an additional statement.
    cost().await;
    let one = cost().await;
    // A list that is longer than a page is also counted.
    for number in 0..8 {
        group(&root, &format!("g{number}"), json!({})).await;
        server.create_user(&format!("p{number}")).await;
    }
    assert_eq!(cost().await, one);
    assert!(one <= 6, "{one}");
}

on_every_database![
    list_namespaces_returns_namespaces_of_the_caller,
    get_namespace_by_id_or_path_requires_visibility,
    exists_returns_whether_a_path_is_taken_and_an_available_one,
    list_statement_count_is_independent_of_namespace_count,
];
