//! Lists of the projects of a group.

use sea_orm::{ActiveModelTrait, ActiveValue::Set};
use serde_json::{Value, json};
use storage::entities::{AccessLevel, now, project_shares};

use crate::support::spaces::{group, join, project};
use crate::support::{Client, TestServer, on_every_database};

async fn share(server: &TestServer, project_id: i64, group_id: i64, ended: bool) {
    let row = project_shares::ActiveModel {
        project_id: Set(project_id),
        group_id: Set(group_id),
        access_level: Set(AccessLevel::Developer),
        expires_at: Set(ended.then(|| now().date_naive())),
        created_at: Set(now()),
        updated_at: Set(now()),
        ..Default::default()
    };
    row.insert(server.backend.database.write()).await.expect("a share");
}

async fn paths(client: &Client, list: &str) -> Vec<Value> {
    client.get(list).await.expect(200).pluck("path")
}

async fn list_group_projects_filters_own_shared_and_subgroup_projects(server: TestServer) {
    let root = server.root();
    let top = group(&root, "top", json!({"visibility": "public"})).await;
    let inner = group(&root, "inner", json!({"parent_id": top})).await;
    let other = group(&root, "other", json!({})).await;
    project(&root, "own", json!({"namespace_id": top, "visibility": "public"})).await;
    project(&root, "deep", json!({"namespace_id": inner})).await;
    for (path, ended) in [("lent", false), ("past", true)] {
        let project_id = project(&root, path, json!({"namespace_id": other})).await;
        share(&server, project_id, top, ended).await;
    }
    let list = format!("/groups/{top}/projects");
    let with = |query: &str| format!("{list}?order_by=path&sort=asc&{query}");
    assert_eq!(paths(&root, &list).await, ["lent", "own"]);
    assert_eq!(paths(&root, &with("with_shared=false")).await, ["own"]);
    assert_eq!(paths(&root, &with("include_subgroups=true")).await, ["deep", "lent", "own"]);
    assert_eq!(paths(&root, &with("include_subgroups=true&with_shared=false")).await, ["deep", "own"]);
    assert_eq!(paths(&server.anonymous(), &with("include_subgroups=true")).await, ["own"]);
    assert_eq!(paths(&server.anonymous(), &with("owned=true")).await, [] as [Value; 0]);
    let ada = server.create_user("ada").await;
    join(&root, &format!("/groups/{top}"), ada.id, 20).await;
    // The share makes the project visible to the members of the group.
    assert_eq!(paths(&ada.client, &with("include_subgroups=true")).await, ["deep", "lent", "own"]);
    assert_eq!(paths(&ada.client, &with("min_access_level=30")).await, [] as [Value; 0]);
    for (query, found) in [
        ("visibility=public", vec!["own"]),
        ("search=OW", vec!["own"]),
        ("archived=true", vec![]),
        ("starred=true", vec![]),
        ("with_issues_enabled=true", vec!["lent", "own"]),
    ] {
        assert_eq!(paths(&root, &with(query)).await, found, "{query}");
    }
    let simple = root.get(&with("simple=true")).await.expect(200).json();
    assert_eq!(simple[0].get("visibility"), None);
    assert!(root.get(&with("")).await.expect(200).json()[0]["permissions"].is_object());
}

async fn list_group_shared_projects_returns_only_shares_of_the_group(server: TestServer) {
    let root = server.root();
    let top = group(&root, "top", json!({"visibility": "public"})).await;
    let inner = group(&root, "inner", json!({"parent_id": top})).await;
    let other = group(&root, "other", json!({})).await;
    project(&root, "own", json!({"namespace_id": top, "visibility": "public"})).await;
    for (path, target, ended) in [("lent", top, false), ("past", top, true), ("deep", inner, false)] {
        let project_id = project(&root, path, json!({"namespace_id": other})).await;
        share(&server, project_id, target, ended).await;
    }
    let list = format!("/groups/{top}/projects/shared");
    assert_eq!(paths(&root, &list).await, ["lent"]);
    assert_eq!(paths(&root, &format!("/groups/{inner}/projects/shared/")).await, ["deep"]);
    assert_eq!(paths(&server.anonymous(), &list).await, [] as [Value; 0]);
    let ada = server.create_user("ada").await;
    join(&root, &format!("/groups/{top}"), ada.id, 20).await;
    assert_eq!(paths(&ada.client, &list).await, ["lent"]);
    for (query, found) in [
        ("visibility=public", vec![]),
        ("search=LEN", vec!["lent"]),
        ("archived=true", vec![]),
        ("starred=true", vec![]),
        ("min_access_level=30", vec![]),
        ("with_issues_enabled=true", vec!["lent"]),
        ("order_by=name&sort=asc", vec!["lent"]),
    ] {
        assert_eq!(paths(&ada.client, &format!("{list}?{query}")).await, found, "{query}");
    }
    let simple = root.get(&format!("{list}?simple=true")).await.expect(200).json();
    assert_eq!(simple[0].get("visibility"), None);
    root.get(&format!("{list}?page=501&per_page=100")).await.expect(405);
    root.get(&format!("{list}?order_by=size")).await.expect(400);
}

async fn list_group_projects_limits_pages_and_rejects_invalid_parameters(server: TestServer) {
    let root = server.root();
    let top = group(&root, "top", json!({})).await;
    let list = format!("/groups/{top}/projects");
    root.get(&format!("{list}?page=501&per_page=100")).await.expect(405);
    root.get(&format!("{list}?page=500&per_page=100")).await.expect(200);
    for query in ["order_by=size", "sort=up", "min_access_level=15", "with_shared=perhaps", "visibility=open"] {
        root.get(&format!("{list}?{query}")).await.expect(400);
    }
}

async fn list_group_projects_statement_count_is_constant(server: TestServer) {
    let root = server.root();
    let ada = server.create_user("ada").await;
    let top = group(&root, "top", json!({})).await;
    let inner = group(&root, "inner", json!({"parent_id": top})).await;
    join(&root, &format!("/groups/{top}"), ada.id, 30).await;
    project(&root, "p0", json!({"namespace_id": top})).await;
    // Names of projects in subgroups need a statement.
    project(&root, "q0", json!({"namespace_id": inner})).await;
    let cost = async || {
        let before = server.statements();
        ada.client.get(&format!("/groups/{top}/projects?include_subgroups=true")).await.expect(200);
        server.statements() - before
    };
    // The first use of a token writes its time of last use.
    cost().await;
    let one = cost().await;
    for number in 1..12 {
        let namespace = if number % 2 == 0 { top } else { inner };
        project(&root, &format!("p{number}"), json!({"namespace_id": namespace})).await;
    }
    assert_eq!(cost().await, one);
    assert!(one <= 14, "{one}");
}

on_every_database![
    list_group_projects_filters_own_shared_and_subgroup_projects,
    list_group_shared_projects_returns_only_shares_of_the_group,
    list_group_projects_limits_pages_and_rejects_invalid_parameters,
    list_group_projects_statement_count_is_constant,
];
