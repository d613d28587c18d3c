//! Query plans of project lists: each list uses its index.

use sea_orm::{ConnectionTrait, DbBackend};
use serde_json::json;

use super::pagination::insert_projects;
use crate::support::query_plans::{plan, statement_with};
use crate::support::spaces::{group, join, project};
use crate::support::{Client, TestServer, on_every_database};

/// Returns the statement that selects the projects of a page.
async fn statement(server: &TestServer, client: &Client, path: &str) -> String {
    let page = ["FROM \"projects\" LEFT JOIN \"namespaces\"", "ORDER BY"];
    statement_with(server, client, path, &page).await
}

/// Returns whether a line of a plan scans all projects or combines several indexes.
fn is_costly(line: &str) -> bool {
    let line = line.trim();
    line == "SCAN projects" || line.contains("Seq Scan on projects") || line.contains("MULTI-INDEX OR")
}

async fn each_order_uses_its_index(server: TestServer) {
    let root = server.root();
    let ada = server.create_user("ada").await;
    let engines = group(&root, "engines", json!({"visibility": "public"})).await;
    join(&root, &format!("/groups/{engines}"), ada.id, 30).await;
    project(&root, "one", json!({"namespace_id": engines, "visibility": "public"})).await;
    for client in [&root, &ada.client, &server.anonymous()] {
        for (query, index) in [
            ("", "ix_projects_created_at_id_visibility_namespace_id"),
            ("order_by=updated_at", "ix_projects_updated_at_id_visibility_namespace_id"),
            ("order_by=last_activity_at", "ix_projects_last_activity_at_id_visibility_namespace_id"),
            ("order_by=name&sort=asc", "ix_projects_name_key_id_visibility_namespace_id"),
            ("order_by=path", "ix_projects_path_key_id_visibility_namespace_id"),
            ("order_by=id", "ix_projects_id_visibility_namespace_id"),
            ("order_by=id&pagination=keyset&id_before=9", "ix_projects_id_visibility_namespace_id"),
            ("page=400&per_page=100", "ix_projects_created_at_id_visibility_namespace_id"),
        ] {
            let sql = statement(&server, client, &format!("/projects?{query}")).await;
            let plan = plan(&server, &sql, None).await;
            assert!(plan.iter().any(|line| line.contains(index)), "{query}: {plan:#?}");
            assert!(!plan.iter().any(|line| is_costly(line)), "{query}: {plan:#?}");
        }
    }
}

async fn search_uses_the_text_index(server: TestServer) {
    let root = server.root();
    let namespace = group(&root, "crowd", json!({"visibility": "public"})).await;
    insert_projects(&server, namespace, 20_000).await;
    project(&root, "needle", json!({})).await;
    let db = server.backend.database.write();
    db.execute_unprepared("ANALYZE").await.expect("statistics");
    let list = "/projects?search=needle";
    let sql = match db.get_database_backend() {
        // The matching IDs are selected before the page.
        DbBackend::Postgres => statement_with(&server, &root, list, &["LIKE", "\"few\""]).await,
        _ => statement(&server, &root, list).await,
    };
    let plan = plan(&server, &sql, Some("%needle%")).await;
    assert!(!plan.iter().any(|line| is_costly(line)), "{plan:#?}");
    let index = match db.get_database_backend() {
        DbBackend::Postgres => "ix_projects_texts",
        _ => "SEARCH projects USING INTEGER PRIMARY KEY",
    };
    assert!(plan.iter().filter(|line| line.contains(index)).count() >= 1, "{plan:#?}");
    assert!(!plan.iter().any(|line| line.starts_with("SCAN projects")), "{plan:#?}");
}

async fn starred_and_search_filters_avoid_membership_joins(server: TestServer) {
    let root = server.root();
    let ada = server.create_user("ada").await;
    let engines = group(&root, "engines", json!({})).await;
    join(&root, &format!("/groups/{engines}"), ada.id, 30).await;
    let one = project(&root, "needle", json!({"namespace_id": engines})).await;
    ada.client.post(&format!("/projects/{one}/star"), json!({})).await.expect(201);
    for query in ["starred=true", "search=needle", "search=needle&starred=true"] {
        let list = format!("/projects?{query}");
        let page = statement(&server, &ada.client, &list).await;
        assert!(!page.contains("\"members\"") && !page.contains("namespace_ancestors"), "{query}: {page}");
        assert_eq!(ada.client.get(&list).await.expect(200).pluck("path"), ["needle"], "{query}");
    }
}

on_every_database![
    each_order_uses_its_index,
    search_uses_the_text_index,
    starred_and_search_filters_avoid_membership_joins,
];
