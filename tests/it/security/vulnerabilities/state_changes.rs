//! Decisions on vulnerabilities and their permissions.

use futures_util::future::join_all;
use holdfast::config::ConfigOptions;
use sea_orm::EntityTrait;
use serde_json::{Value, json};
use storage::entities::Visibility;
use storage::entities::vulnerabilities::Entity;

use super::{report, security, send, vulnerability};
use crate::instance::feature_gates::gate;
use crate::support::spaces::{group, join, project};
use crate::support::{Client, TestServer, on_every_database};

const DECISIONS: [(&str, &str); 3] = [("confirm", "confirmed"), ("resolve", "resolved"), ("dismiss", "closed")];

async fn decide(client: &Client, one: &str, decision: &str, status: u16) -> Value {
    let response = client.post(&format!("{one}/{decision}"), json!({})).await.expect(status);
    match status {
        201 => response.json(),
        _ => Value::Null,
    }
}

fn premium_plan() -> ConfigOptions {
    ConfigOptions { plan: Some("premium".to_owned()), ..ConfigOptions::default() }
}

async fn decide_vulnerability_allows_any_order_of_states(server: TestServer) {
    let root = server.root();
    let team = group(&root, "team", json!({"name": "The team"})).await;
    let work = project(&root, "work", json!({"namespace_id": team, "name": "The work"})).await;
    let (ada, me) = (server.create_user("ada").await, root.get("/user").await.expect(200).json()["id"].clone());
    let base_path = format!("/projects/{work}");
    join(&root, &base_path, ada.id, 30).await;
    let number = vulnerability(&root, &base_path, "weak").await;
    let one = format!("/vulnerabilities/{number}");
    let created = ada.client.get(&one).await.expect(200).json();
    let mut shown = json!({
        "id": number, "title": "weak", "description": "What weak is", "state": "opened", "severity": "high",
        "confidence": "medium", "report_type": "sast",
        "project": {"id": work, "name": "The work", "full_path": "team/work", "full_name": "The team / The work"},
        "author_id": me, "updated_by_id": null, "last_edited_by_id": null, "closed_by_id": null, "start_date": null,
        "due_date": null, "created_at": created["created_at"], "updated_at": created["created_at"], "last_edited_at": null,
        "closed_at": null,
    });
    assert_eq!(created, shown);
    for (decision, state) in DECISIONS.into_iter().chain([DECISIONS[1], DECISIONS[2], DECISIONS[0], DECISIONS[2]]) {
        let decided = decide(&ada.client, &one, decision, 201).await;
        shown["state"] = json!(state);
        shown["updated_by_id"] = json!(ada.id);
        shown["updated_at"] = decided["updated_at"].clone();
        let dismissed = state == "closed";
        shown["closed_by_id"] = if dismissed { json!(ada.id) } else { json!(null) };
        assert_eq!(decided["closed_at"].is_string(), dismissed);
        shown["closed_at"] = decided["closed_at"].clone();
        assert_eq!(decided, shown);
        assert_eq!(root.get(&one).await.expect(200).json(), shown);
        decide(&root, &one, decision, 304).await;
        assert_eq!(root.get(&one).await.expect(200).json(), shown);
    }
    let tag = root.get(&one).await.expect(200).header("etag").to_owned();
    root.clone().header("If-None-Match", &tag).get(&one).await.expect(304);
}

async fn vulnerabilities_require_developer(server: TestServer) {
    let root = server.root();
    let open = format!("/projects/{}", project(&root, "open", json!({"visibility": "public"})).await);
    let hidden = format!("/projects/{}", project(&root, "hidden", json!({})).await);
    let (guest, reporter, developer) = (
        server.create_user("guest").await,
        server.create_user("reporter").await,
        server.create_user("developer").await,
    );
    for base_path in [&open, &hidden] {
        for (user, level) in [(&guest, 10), (&reporter, 20), (&developer, 30)] {
            join(&root, base_path, user.id, level).await;
        }
    }
    let non_member = server.create_user("stranger").await.client;
    let of_open = format!("/vulnerabilities/{}", vulnerability(&developer.client, &open, "weak").await);
    let of_hidden = format!("/vulnerabilities/{}", vulnerability(&developer.client, &hidden, "weak").await);
    for (client, on_open, on_hidden) in [
        (&server.anonymous(), 401, 401),
        (&non_member, 403, 404),
        (&guest.client, 403, 403),
        (&reporter.client, 403, 403),
    ] {
        for (one, base_path, status) in [(&of_open, &open, on_open), (&of_hidden, &hidden, on_hidden)] {
            client.get(one).await.expect(status);
            for (decision, _) in DECISIONS {
                decide(client, one, decision, status).await;
            }
            client.get(&format!("{base_path}/vulnerabilities")).await.expect(status);
            send(client, base_path, &security(&["new"])).await.expect(status);
        }
    }
    let unknown = non_member.get("/vulnerabilities/4711").await.expect(404);
    assert_eq!((unknown.message(), non_member.get(&of_hidden).await.body), ("404 Not found".to_owned(), unknown.body));
    for (decision, _) in DECISIONS {
        let path = format!("/vulnerabilities/4711/{decision}");
        assert_eq!(root.post(&path, json!({})).await.expect(404).message(), "404 Not found");
        root.post(&format!("/vulnerabilities/x/{decision}"), json!({})).await.expect(400);
    }
    root.get("/vulnerabilities/x").await.expect(400);
    assert_eq!(developer.client.get(&of_open).await.expect(200).json()["state"], "opened");
    decide(&developer.client, &of_open, "confirm", 201).await;
    // In an archived project reads succeed, and a decision that changes nothing returns 304.
    root.post(&format!("{open}/archive"), json!({})).await.expect(201);
    developer.client.get(&of_open).await.expect(200);
    decide(&developer.client, &of_open, "confirm", 304).await;
    decide(&developer.client, &of_open, "dismiss", 403).await;
    decide(&reporter.client, &of_open, "confirm", 403).await;
    send(&developer.client, &open, &security(&["new"])).await.expect(403);
    assert_eq!(developer.client.get(&of_open).await.expect(200).json()["state"], "confirmed");
}

async fn concurrent_decisions_change_state_once(server: TestServer) {
    let root = server.root();
    let base_path = format!("/projects/{}", project(&root, "work", json!({})).await);
    let one = format!("/vulnerabilities/{}", vulnerability(&root, &base_path, "weak").await);
    for (decision, _) in DECISIONS {
        let path = format!("{one}/{decision}");
        let mut statuses: Vec<u16> = join_all((0..4).map(|_| root.post(&path, json!({}))))
            .await
            .iter()
            .map(|response| response.status)
            .collect();
        statuses.sort_unstable();
        assert_eq!(statuses, [201, 304, 304, 304]);
    }
    let both = join_all(["confirm", "resolve"].map(|decision| decide(&root, &one, decision, 201))).await;
    let last = root.get(&one).await.expect(200).json();
    assert!(both.contains(&last) && last["closed_at"].is_null());
}

async fn feature_gate_is_evaluated_for_caller_and_project(server: TestServer) {
    let root = server.root();
    let (work, other) = (project(&root, "work", json!({})).await, project(&root, "other", json!({})).await);
    let (base_path, elsewhere) = (format!("/projects/{work}"), format!("/projects/{other}"));
    let number = vulnerability(&root, &base_path, "weak").await;
    let other_number = vulnerability(&root, &elsewhere, "weak").await;
    let (one, another) = (format!("/vulnerabilities/{number}"), format!("/vulnerabilities/{other_number}"));
    let name = "first_class_vulnerabilities";
    gate(&root, name, json!({"value": false})).await;
    for (path, status) in [(&one, 404), (&another, 404), (&format!("{base_path}/vulnerabilities"), 404)] {
        root.get(path).await.expect(status);
    }
    decide(&root, &one, "confirm", 404).await;
    send(&root, &base_path, &security(&["weak"])).await.expect(404);
    // A project that is not visible returns 404 before the feature gate is evaluated.
    server.create_user("stranger").await.client.get(&one).await.expect(404);
    gate(&root, name, json!({"value": true, "project": "root/work"})).await;
    root.get(&one).await.expect(200);
    decide(&root, &one, "confirm", 201).await;
    root.get(&format!("{base_path}/vulnerabilities")).await.expect(200);
    root.get(&another).await.expect(404);
    decide(&root, &another, "confirm", 404).await;
    root.get(&format!("{elsewhere}/vulnerabilities")).await.expect(404);
    gate(&root, name, json!({"value": false, "project": "root/work"})).await;
    gate(&root, name, json!({"value": true, "user": "root"})).await;
    root.get(&one).await.expect(200);
    root.get(&another).await.expect(200);
    let ada = server.create_user("ada").await;
    join(&root, &base_path, ada.id, 40).await;
    ada.client.get(&one).await.expect(404);
    root.delete(&format!("/features/{name}")).await.expect(204);
    ada.client.get(&one).await.expect(200);
}

async fn plans_below_ultimate_reject_vulnerabilities(server: TestServer) {
    let root = server.root();
    let base_path = format!("/projects/{}", project(&root, "work", json!({})).await);
    let mut responses = vec![
        root.get("/vulnerabilities/1").await,
        root.get(&format!("{base_path}/vulnerabilities")).await,
        send(&root, &base_path, &security(&["weak"])).await,
    ];
    for (decision, _) in DECISIONS {
        responses.push(root.post(&format!("/vulnerabilities/1/{decision}"), json!({})).await);
    }
    for response in responses {
        assert!(response.expect(403).message().contains("plan"));
    }
}

async fn vulnerabilities_survive_user_deletion_but_not_project_deletion(server: TestServer) {
    let root = server.root();
    let work = server.insert_project_at("ours/work", Visibility::Private).await.id;
    let base_path = format!("/projects/{work}");
    let ada = server.create_user("ada").await;
    join(&root, &base_path, ada.id, 30).await;
    let one = format!("/vulnerabilities/{}", vulnerability(&ada.client, &base_path, "weak").await);
    decide(&ada.client, &one, "dismiss", 201).await;
    root.delete(&format!("/users/{}", ada.id)).await.expect(204);
    server.finish_jobs().await;
    let left = root.get(&one).await.expect(200).json();
    for name in ["author_id", "updated_by_id", "closed_by_id"] {
        assert_eq!(left[name], json!(null), "{name}");
    }
    assert!(left["closed_at"].is_string());
    assert_eq!(report(&root, &base_path, &security(&["weak"])).await, [0, 0, 1]);
    let db = server.backend.database.write();
    storage::entities::projects::Entity::delete_by_id(work).exec(db).await.expect("a removal");
    assert_eq!(Entity::find().all(db).await.expect("rows"), []);
}

on_every_database![
    decide_vulnerability_allows_any_order_of_states,
    vulnerabilities_require_developer,
    concurrent_decisions_change_state_once,
    feature_gate_is_evaluated_for_caller_and_project,
    plans_below_ultimate_reject_vulnerabilities with premium_plan(),
    vulnerabilities_survive_user_deletion_but_not_project_deletion,
];
