//! Annotations on metrics dashboards of environments and clusters.

use reqwest::Method;
use sea_orm::{ActiveModelTrait, ActiveValue::Set, ConnectionTrait, EntityTrait};
use serde_json::{Value, json};
use storage::entities::metrics_annotations::Entity;
use storage::entities::{Visibility, clusters as rows, now, projects};

use super::{BUILT_IN, with_dashboards};
use crate::delivery::{clusters, environments};
use crate::instance::feature_gates::gate;
use crate::support::client::segment;
use crate::support::spaces::{group, join, project};
use crate::support::{Client, TestServer, on_every_database};

/// Creates an environment of a project.
async fn environment(server: &TestServer, project_id: i64) -> i64 {
    let parent = format!("/projects/{project_id}");
    environments::environment(&server.root(), &parent, "production").await
}

/// Creates a cluster of a project for an environment scope.
async fn cluster(server: &TestServer, project_id: i64, scope: &str) -> i64 {
    let parent = format!("/projects/{project_id}");
    clusters::cluster(&server.root(), &parent, scope).await
}

/// Inserts a cluster of a group into the database, because the API has no operation for it.
async fn cluster_of_group(server: &TestServer, namespace_id: i64) -> i64 {
    let row = rows::ActiveModel {
        namespace_id: Set(Some(namespace_id)),
        name: Set("cluster".to_owned()),
        created_at: Set(now()),
        updated_at: Set(now()),
        ..Default::default()
    };
    row.insert(server.backend.database.write()).await.expect("a cluster").id
}

async fn open_gate(root: &Client) {
    gate(root, "metrics_dashboard_annotations", json!({"value": true})).await;
}

fn annotation_body(path: &str) -> Value {
    json!({"dashboard_path": path, "starting_at": "2026-03-01T10:00:00Z", "description": "What happened"})
}

async fn create_annotation_works_for_environments_and_clusters(server: TestServer) {
    let root = server.root();
    let (one, _) = with_dashboards(&server, "one", Visibility::Private).await;
    let team = group(&root, "team", json!({})).await;
    let of_environment = environment(&server, one.id).await;
    let of_project = cluster(&server, one.id, "*").await;
    let of_group = cluster_of_group(&server, team).await;
    open_gate(&root).await;
    for (path, environment_id, cluster_id) in [
        (format!("/environments/{of_environment}"), json!(of_environment), json!(null)),
        (format!("/clusters/{of_project}"), json!(null), json!(of_project)),
        (format!("/clusters/{of_group}"), json!(null), json!(of_group)),
    ] {
        // A trailing slash is accepted.
        for slash in ["", "/"] {
            let all = format!("{path}/metrics_dashboard/annotations{slash}");
            // `send` accepts only paths as in the OpenAPI document, without a trailing slash.
            let post = async |body: Value| {
                let response = root.request(Method::POST, &all).json(&body).send().await.expect("a response");
                assert_eq!(response.status(), 201, "{all}");
                response.json::<Value>().await.expect("JSON")
            };
            let created = post(annotation_body(BUILT_IN)).await;
            assert_eq!(
                created,
                json!({
                    "id": created["id"], "starting_at": "2026-03-01T10:00:00.000Z", "ending_at": null, "dashboard_path": BUILT_IN,
                    "description": "What happened", "environment_id": environment_id, "cluster_id": cluster_id,
                })
            );
            let mut interval = annotation_body(&segment(BUILT_IN));
            interval["ending_at"] = json!("2026-03-01T12:00:00+02:00");
            let created = post(interval).await;
            assert_eq!(
                (&created["ending_at"], &created["dashboard_path"]),
                (&json!("2026-03-01T10:00:00.000Z"), &json!(BUILT_IN))
            );
        }
    }
    let of_file = annotation_body(&segment(".service/dashboards/a & b+c.yml"));
    let all = |path: String| format!("{path}/metrics_dashboard/annotations");
    let created = root.post(&all(format!("/environments/{of_environment}")), of_file.clone()).await.expect(201).json();
    assert_eq!(created["dashboard_path"], ".service/dashboards/a & b+c.yml");
    root.post(&all(format!("/clusters/{of_project}")), of_file.clone()).await.expect(201);
    // A group has no repository and so no dashboard files.
    root.post(&all(format!("/clusters/{of_group}")), of_file).await.expect(400);
    let db = server.backend.database.write();
    assert_eq!(Entity::find().all(db).await.expect("rows").len(), 14);
    projects::Entity::delete_by_id(one.id).exec(db).await.expect("a removal");
    assert_eq!(Entity::find().all(db).await.expect("rows").len(), 4);
}

async fn create_annotation_returns_404_while_gate_is_closed(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    let all = format!("/environments/{}/metrics_dashboard/annotations", environment(&server, work).await);
    root.post(&all, annotation_body(BUILT_IN)).await.expect(404);
    root.post(&all, json!({})).await.expect(400);
    server.anonymous().post(&all, json!({})).await.expect(401);
    gate(&root, "metrics_dashboard_annotations", json!({"value": true, "user": "root"})).await;
    root.post(&all, annotation_body(BUILT_IN)).await.expect(201);
    let ada = server.create_user("ada").await;
    join(&root, &format!("/projects/{work}"), ada.id, 40).await;
    ada.client.post(&all, annotation_body(BUILT_IN)).await.expect(404);
    open_gate(&root).await;
    ada.client.post(&all, annotation_body(BUILT_IN)).await.expect(201);
    root.delete("/features/metrics_dashboard_annotations").await.expect(204);
    root.post(&all, annotation_body(BUILT_IN)).await.expect(404);
}

async fn create_annotation_requires_developer(server: TestServer) {
    let root = server.root();
    let open = project(&root, "open", json!({"visibility": "public"})).await;
    let hidden = project(&root, "hidden", json!({})).await;
    let team = group(&root, "team", json!({"visibility": "public"})).await;
    let secret = group(&root, "secret", json!({})).await;
    open_gate(&root).await;
    let (reporter, developer) = (server.create_user("reporter").await, server.create_user("developer").await);
    for parent in [format!("/projects/{open}"), format!("/groups/{team}")] {
        join(&root, &parent, reporter.id, 20).await;
        join(&root, &parent, developer.id, 30).await;
    }
    let all = |kind: &str, id: i64| format!("/{kind}/{id}/metrics_dashboard/annotations");
    let non_member = server.create_user("stranger").await.client;
    for path in [
        all("environments", environment(&server, open).await),
        all("clusters", cluster(&server, open, "*").await),
        all("clusters", cluster_of_group(&server, team).await),
    ] {
        for (client, status) in
            [(&server.anonymous(), 401), (&non_member, 403), (&reporter.client, 403), (&developer.client, 201)]
        {
            client.post(&path, annotation_body(BUILT_IN)).await.expect(status);
        }
    }
    let unknown = non_member.post(&all("environments", 4711), annotation_body(BUILT_IN)).await.expect(404);
    for path in [
        all("environments", environment(&server, hidden).await),
        all("clusters", cluster(&server, hidden, "*").await),
        all("clusters", cluster_of_group(&server, secret).await),
        all("clusters", 4711),
    ] {
        assert_eq!(non_member.post(&path, annotation_body(BUILT_IN)).await.expect(404).body, unknown.body, "{path}");
    }
    let of_hidden = environment(&server, project(&root, "third", json!({})).await).await;
    root.post(&all("environments", of_hidden), annotation_body(BUILT_IN)).await.expect(201);
    let archived = cluster(&server, open, "archived").await;
    root.post(&format!("/projects/{open}/archive"), json!({})).await.expect(201);
    developer.client.post(&all("clusters", archived), annotation_body(BUILT_IN)).await.expect(403);
}

async fn create_annotation_rejects_invalid_attributes(server: TestServer) {
    let root = server.root();
    let (one, _) = with_dashboards(&server, "one", Visibility::Private).await;
    let all = format!("/environments/{}/metrics_dashboard/annotations", environment(&server, one.id).await);
    open_gate(&root).await;
    let message = async |change: Value| {
        let mut body = annotation_body(BUILT_IN);
        body.as_object_mut().expect("an object").extend(change.as_object().expect("an object").clone());
        root.post(&all, body).await.expect(400).json()["message"].clone()
    };
    let missing = root.post(&all, json!({})).await.expect(400).message();
    assert_eq!(
        missing,
        "dashboard_path is missing, dashboard_path is empty, starting_at is missing, description is missing, description is empty"
    );
    assert_eq!(message(json!({"starting_at": ""})).await, "starting_at is missing");
    assert_eq!(message(json!({"starting_at": "soon"})).await, "starting_at is invalid");
    assert_eq!(message(json!({"ending_at": "soon"})).await, "ending_at is invalid");
    assert_eq!(message(json!({"description": " "})).await, "description is empty");
    assert_eq!(
        message(json!({"description": "x".repeat(256)})).await,
        "description is too long (maximum is 255 characters)"
    );
    assert_eq!(
        message(json!({"ending_at": "2026-03-01T09:59:59Z"})).await,
        json!({"ending_at": ["can't be before starting_at time"]})
    );
    assert_eq!(message(json!({"dashboard_path": "README.md"})).await, "Dashboard with requested path can not be found");
    assert_eq!(message(json!({"dashboard_path": "%FF"})).await, "dashboard_path is invalid");
    let long = format!(".service/dashboards/{}.yml", "x".repeat(255));
    assert_eq!(
        message(json!({"dashboard_path": long})).await,
        json!({"dashboard_path": ["is too long (maximum is 255 characters)"]})
    );
    message(json!({"description": "a\0"})).await;
    root.post("/environments/x/metrics_dashboard/annotations", annotation_body(BUILT_IN)).await.expect(400);
    // `ending_at` can be equal to `starting_at`.
    let mut moment = annotation_body(BUILT_IN);
    moment["ending_at"] = moment["starting_at"].clone();
    root.post(&all, moment).await.expect(201);
    assert_eq!(Entity::find().all(server.backend.database.read()).await.expect("rows").len(), 1);
}

async fn create_annotation_rejects_more_than_maximum(server: TestServer) {
    let root = server.root();
    let project_id = project(&root, "full", json!({})).await;
    let all = |id: i64| format!("/environments/{id}/metrics_dashboard/annotations");
    let full = environment(&server, project_id).await;
    let other = environments::environment(&root, &format!("/projects/{project_id}"), "staging").await;
    open_gate(&root).await;
    root.post(&all(full), annotation_body(BUILT_IN)).await.expect(201);
    let columns = "environment_id, dashboard_path, description, starting_at, created_at";
    let copy = format!("INSERT INTO metrics_annotations ({columns}) SELECT {columns} FROM metrics_annotations");
    let db = server.backend.database.write();
    for _ in 0..13 {
        db.execute_unprepared(&copy).await.expect("annotations");
    }
    // 8,192 annotations were copied.
    db.execute_unprepared(&format!("{copy} LIMIT 1807")).await.expect("annotations");
    root.post(&all(full), annotation_body(BUILT_IN)).await.expect(201);
    let rejected = root.post(&all(full), annotation_body(BUILT_IN)).await.expect(400);
    assert_eq!(rejected.message(), "the environment has 10,000 annotations (the maximum): use another environment");
    root.post(&all(other), annotation_body(BUILT_IN)).await.expect(201);
    let of_cluster = cluster(&server, project_id, "*").await;
    let of_cluster = format!("/clusters/{of_cluster}/metrics_dashboard/annotations");
    root.post(&of_cluster, annotation_body(BUILT_IN)).await.expect(201);
}

on_every_database![
    create_annotation_works_for_environments_and_clusters,
    create_annotation_returns_404_while_gate_is_closed,
    create_annotation_requires_developer,
    create_annotation_rejects_invalid_attributes,
    create_annotation_rejects_more_than_maximum,
];
