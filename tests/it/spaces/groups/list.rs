//! Lists of groups.

use serde_json::{Value, json};

use crate::packages;
use crate::support::spaces::{group, join, project};
use crate::support::{TestServer, on_every_database};

async fn list_groups_returns_visible_groups_of_caller(server: TestServer) {
    let root = server.root();
    group(&root, "open", json!({"visibility": "public"})).await;
    group(&root, "inside", json!({"visibility": "internal"})).await;
    let hidden = group(&root, "hidden", json!({})).await;
    let below = group(&root, "below", json!({"parent_id": hidden})).await;
    group(&root, "lowest", json!({"parent_id": below})).await;
    let ada = server.create_user("ada").await;
    let paths = async |client: &crate::support::Client, query: &str| {
        client.get(&format!("/groups?{query}")).await.expect(200).pluck("path")
    };
    assert_eq!(paths(&server.anonymous(), "").await, ["open"]);
    assert_eq!(paths(&ada.client, "").await, [] as [Value; 0]);
    assert_eq!(paths(&ada.client, "all_available=true").await, ["inside", "open"]);
    assert_eq!(paths(&root, "").await, ["below", "hidden", "inside", "lowest", "open"]);
    join(&root, &format!("/groups/{hidden}"), ada.id, 30).await;
    // Membership is inherited by two levels of subgroups.
    assert_eq!(paths(&ada.client, "").await, ["below", "hidden", "lowest"]);
    assert_eq!(paths(&ada.client, "min_access_level=40").await, [] as [Value; 0]);
    assert_eq!(paths(&ada.client, "owned=true").await, [] as [Value; 0]);
    assert_eq!(paths(&ada.client, "top_level_only=true").await, ["hidden"]);
    assert_eq!(paths(&server.anonymous(), "owned=true").await, [] as [Value; 0]);
    assert_eq!(
        paths(&root, &format!("skip_groups[]={hidden}&order_by=path&sort=desc")).await,
        ["open", "lowest", "inside", "below"]
    );
    assert_eq!(paths(&root, "search=LOW").await, ["below", "lowest"]);
    assert_eq!(paths(&root, "search=%25").await, [] as [Value; 0]);
}

async fn group_statistics_include_descendants_and_require_administrator(server: TestServer) {
    let root = server.root();
    let outer = group(&root, "outer", json!({})).await;
    let inner = group(&root, "inner", json!({"parent_id": outer})).await;
    let inner_project = project(&root, "held", json!({"namespace_id": inner})).await;
    use sea_orm::ConnectionTrait;
    let sql = format!("UPDATE projects SET repository_size = 1234 WHERE id = {inner_project}");
    server.backend.database.write().execute_unprepared(&sql).await.expect("an update");
    let outer_project = project(&root, "wide", json!({"namespace_id": outer})).await;
    for (project, content) in [(inner_project, "12345"), (outer_project, "123")] {
        for version in ["1", "2"] {
            let path = format!("/projects/{project}");
            packages::upload(&root, &path, ["a", version, "f"], content.as_bytes()).await.expect(201);
        }
    }
    let list = root.get("/groups?statistics=true&order_by=path").await.expect(200).json();
    for (entry, packages) in list.as_array().expect("a list").iter().zip([10, 16]) {
        let sizes = &entry["statistics"];
        assert_eq!(
            (&sizes["repository_size"], &sizes["packages_size"], &sizes["storage_size"]),
            (&json!(1234), &json!(packages), &json!(1234 + packages)),
            "{}",
            entry["path"]
        );
    }
    for (group, packages) in [(inner, 10), (outer, 16)] {
        let one = root.get(&format!("/groups/{group}?statistics=true&with_projects=false")).await.expect(200).json();
        let sizes = (&one["statistics"]["packages_size"], &one["statistics"]["storage_size"]);
        assert_eq!(sizes, (&json!(packages), &json!(1234 + packages)));
        assert_eq!(root.get(&format!("/groups/{group}")).await.expect(200).json().get("statistics"), None);
    }
    let empty = group(&root, "empty", json!({})).await;
    let empty = root.get(&format!("/groups/{empty}?statistics=true")).await.expect(200).json();
    assert_eq!(empty["statistics"]["storage_size"], 0);
    let ada = server.create_user("ada").await;
    join(&root, &format!("/groups/{outer}"), ada.id, 50).await;
    let one = ada.client.get(&format!("/groups/{outer}?statistics=true")).await.expect(200).json();
    assert_eq!((&one["path"], one.get("statistics")), (&json!("outer"), None));
    let list = ada.client.get("/groups?statistics=true").await.expect(200).json();
    assert_eq!((list[0]["path"].as_str(), list[0].get("statistics")), (Some("inner"), None));
}

async fn list_groups_statement_count_is_constant(server: TestServer) {
    let root = server.root();
    group(&root, "g1", json!({})).await;
    let cost = async || {
        let before = server.statements();
        root.get("/groups?statistics=true").await.expect(200);
        server.statements() - before
    };
    let one = cost().await;
    for number in 2..=20 {
        group(&root, &format!("g{number}"), json!({})).await;
    }
    assert_eq!(cost().await, one);
    assert!(one <= 8, "{one}");
}

async fn list_groups_rejects_invalid_parameters(server: TestServer) {
    let root = server.root();
    group(&root, "one", json!({})).await;
    let far = root.get("/groups?page=1000000000000000000&per_page=-1").await.expect(200);
    assert_eq!((far.json(), far.header("x-per-page")), (json!([]), "20"));
    for query in ["order_by=size", "sort=up", "min_access_level=15", "owned=perhaps", "search=%00", "search=%ff"] {
        root.get(&format!("/groups?{query}")).await.expect(400);
    }
}

on_every_database![
    list_groups_returns_visible_groups_of_caller,
    group_statistics_include_descendants_and_require_administrator,
    list_groups_statement_count_is_constant,
    list_groups_rejects_invalid_parameters,
];
