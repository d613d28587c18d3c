//! Deployments of projects.

mod job_status;
mod merge_request_links;

use futures_util::future::join_all;
use sea_orm::{ActiveModelTrait, ActiveValue::Set};
use serde_json::{Value, json};
use storage::entities::{AccessLevel, Visibility, deployment_merge_requests};

use crate::support::code::Project;
use crate::support::spaces::id;
use crate::support::{Client, TestServer, on_every_database};

/// Returns a request body for a deployment of a commit, with these attributes replaced.
fn deployment_body(sha: &str, more: Value) -> Value {
    let mut body = json!({ "environment": "production", "sha": sha, "ref": "main", "tag": false, "status": "success" });
    let Value::Object(more) = more else { panic!("an object") };
    body.as_object_mut().expect("an object").extend(more);
    body
}

/// Deploys `main` to an environment.
pub async fn deployment(client: &Client, project: &Project<'_>, environment: &str, status: &str) -> Value {
    let body = deployment_body(&project.id("main"), json!({ "environment": environment, "status": status }));
    deploy(client, project.id, body).await
}

/// Creates a deployment and returns it.
pub async fn deploy(client: &Client, project: i64, body: Value) -> Value {
    client.post(&format!("/projects/{project}/deployments"), body).await.expect(201).json()
}

/// Inserts a row that links a merge request to a deployment.
pub async fn shipped(server: &TestServer, deployment: &Value, merge_request_id: i64) {
    let row = deployment_merge_requests::ActiveModel {
        deployment_id: Set(id(deployment)),
        environment_id: Set(id(&deployment["environment"])),
        merge_request_id: Set(merge_request_id),
        ..Default::default()
    };
    row.insert(server.backend.database.write()).await.expect("an entry");
}

async fn deployment_lifecycle(server: TestServer) {
    let root = server.root();
    let work = Project::with_commits(&server, "work", Visibility::Private).await;
    let all = format!("/projects/{}/deployments", work.id);
    assert_eq!(root.get(&all).await.expect(200).json(), json!([]));
    let sha = work.id("main");
    let created = deploy(&root, work.id, deployment_body(&sha, json!({ "status": "created" }))).await;
    assert_eq!(
        created,
        json!({
            "id": created["id"], "iid": 1, "ref": "main", "sha": sha, "created_at": created["created_at"],
            "updated_at": created["created_at"],
            "status": "created", "deployable": null,
            "user": { "id": 1, "username": "root", "name": created["user"]["name"], "state": "active", "avatar_url": created["user"]["avatar_url"], "web_url": created["user"]["web_url"] },
            "environment": { "id": created["environment"]["id"], "name": "production", "slug": "production", "external_url": null },
        })
    );
    let one = format!("{all}/{}", created["id"]);
    assert_eq!(root.get(&one).await.expect(200).json(), created);
    // Any status can follow any other.
    for status in ["running", "success", "running", "failed", "canceled", "created", "success"] {
        let changed = root.put(&one, json!({ "status": status })).await.expect(200).json();
        let mut expected = created.clone();
        (expected["status"], expected["updated_at"]) = (json!(status), changed["updated_at"].clone());
        assert_eq!(changed, expected);
        assert!(changed["updated_at"].as_str() >= created["updated_at"].as_str());
        assert_eq!(root.get(&one).await.expect(200).json(), changed);
        assert_eq!(root.put(&one, json!({ "status": status })).await.expect(200).json(), changed);
    }
    // Short commit IDs are expanded. Any revision is accepted as `ref`.
    let other = deployment_body(&sha[..10], json!({ "ref": "main~1", "tag": true, "environment": "review/x" }));
    let second = deploy(&root, work.id, other).await;
    assert_eq!((&second["iid"], &second["sha"], &second["ref"]), (&json!(2), &json!(sha), &json!("main~1")));
    assert_ne!(second["environment"]["id"], created["environment"]["id"]);
    for response in
        [root.get(&format!("{all}/4711")).await, root.put(&format!("{all}/4711"), json!({ "status": "success" })).await]
    {
        assert_eq!((response.status, response.message()), (404, "404 Not found".to_owned()));
    }
    let elsewhere = Project::with_commits(&server, "other", Visibility::Private).await;
    let existing = format!("/projects/{}/deployments/{}", elsewhere.id, created["id"]);
    root.get(&existing).await.expect(404);
    root.put(&existing, json!({ "status": "success" })).await.expect(404);
    root.get(&format!("{existing}/merge_requests")).await.expect(404);
    assert_eq!(deployment(&root, &elsewhere, "production", "success").await["iid"], 1);
}

async fn list_deployments_supports_filters_orders_and_pages(server: TestServer) {
    let root = server.root();
    let work = Project::with_commits(&server, "work", Visibility::Private).await;
    let all = format!("/projects/{}/deployments", work.id);
    let sha = work.id("main");
    for (environment, status, reference) in [
        ("production", "success", "merged"),
        ("staging", "failed", "main"),
        ("production", "running", "feature/x"),
        ("staging", "canceled", "main"),
        ("production", "created", "merged"),
    ] {
        let body = deployment_body(&sha, json!({ "environment": environment, "status": status, "ref": reference }));
        deploy(&root, work.id, body).await;
    }
    let iids = async |query: &str| {
        let list = root.get(&format!("{all}{query}")).await.expect(200).pluck("iid");
        list.iter().map(|iid| iid.as_i64().expect("a number")).collect::<Vec<_>>()
    };
    // The first deployment is updated last, so that `updated_at` has its own order.
    let first = root.get(&all).await.expect(200).json()[0].clone();
    let changed = root.put(&format!("{all}/{}", first["id"]), json!({ "status": "failed" })).await.expect(200).json();
    let now = changed["updated_at"].as_str().expect("a time");
    for (query, found) in [
        ("", &[1, 2, 3, 4, 5][..]),
        ("?sort=desc", &[5, 4, 3, 2, 1]),
        ("?order_by=iid", &[1, 2, 3, 4, 5]),
        ("?order_by=iid&sort=desc", &[5, 4, 3, 2, 1]),
        ("?order_by=created_at", &[1, 2, 3, 4, 5]),
        ("?order_by=created_at&sort=desc", &[5, 4, 3, 2, 1]),
        ("?order_by=updated_at", &[2, 3, 4, 5, 1]),
        ("?order_by=updated_at&sort=desc", &[1, 5, 4, 3, 2]),
        ("?order_by=ref", &[3, 2, 4, 1, 5]),
        ("?order_by=ref&sort=desc", &[5, 1, 4, 2, 3]),
        ("?environment=production", &[1, 3, 5]),
        ("?environment=staging&sort=desc", &[4, 2]),
        ("?environment=prod", &[]),
        ("?environment=production&status=created", &[5]),
        ("?status=failed", &[1, 2]),
        ("?status=success", &[]),
        ("?updated_before=2020-01-01T00:00:00Z", &[]),
        ("?updated_after=2020-01-01T00:00:00Z", &[1, 2, 3, 4, 5]),
        (&format!("?updated_before={now}"), &[1, 2, 3, 4, 5]),
        ("?updated_after=2999-01-01T00:00:00Z", &[]),
        ("?per_page=2&page=2", &[3, 4]),
    ] {
        assert_eq!(iids(query).await, found, "{query}");
    }
    assert!(iids(&format!("?updated_after={now}")).await.contains(&1));
    for (query, text) in [
        ("order_by=x", "order_by does not have a valid value"),
        ("sort=x", "sort does not have a valid value"),
        ("status=x", "status does not have a valid value"),
        ("updated_after=x", "updated_after is invalid"),
        ("updated_before=x", "updated_before is invalid"),
    ] {
        assert_eq!(root.get(&format!("{all}?{query}")).await.expect(400).message(), text);
    }
    let none: [Value; 0] = [];
    let empty = root.get(&format!("{all}?environment=absent")).await.expect(200);
    assert_eq!((empty.header("X-Total"), empty.pluck("id")), ("0", none.to_vec()));
}

async fn create_deployment_rejects_invalid_parameters(server: TestServer) {
    let root = server.root();
    let work = Project::with_commits(&server, "work", Visibility::Private).await;
    let all = format!("/projects/{}/deployments", work.id);
    let sha = work.id("main");
    let errors = async |body: Value| root.post(&all, body).await.expect(400).json()["message"].clone();
    assert_eq!(
        errors(json!({})).await,
        json!(
            "environment is missing, sha is missing, sha is empty, ref is missing, ref is empty, tag is missing, status is missing"
        )
    );
    let no_commit = json!({ "sha": ["The commit does not exist"] });
    for absent in
        ["570e7b2abdd848b95f2f578043fc23bd6f6fd24d", "main", "HEAD", "main~1", &sha[..6], "0000000", "../x", "--all"]
    {
        assert_eq!(errors(deployment_body(absent, json!({}))).await, no_commit, "{absent}");
    }
    let tree = work.id("main^{tree}");
    assert_eq!(errors(deployment_body(&tree, json!({}))).await, no_commit);
    for reference in ["nowhere", "refs/x", "--all", "main..merged", "@{-1}"] {
        let text = json!({ "ref": ["The branch or tag does not exist"] });
        assert_eq!(errors(deployment_body(&sha, json!({ "ref": reference }))).await, text, "{reference}");
    }
    let all_at_once = deployment_body("1234567", json!({ "ref": "nowhere", "environment": "a*" }));
    assert_eq!(
        errors(all_at_once).await.as_object().expect("an object").keys().collect::<Vec<_>>(),
        ["name", "ref", "sha"]
    );
    assert_eq!(errors(deployment_body(&sha, json!({ "environment": " " }))).await["name"][0], "can't be blank");
    for (more, text) in [
        (json!({ "status": "skipped" }), "status does not have a valid value"),
        (json!({ "tag": "perhaps" }), "tag is invalid"),
        (json!({ "job_id": "x" }), "job_id is invalid"),
    ] {
        assert_eq!(errors(deployment_body(&sha, more)).await, json!(text));
    }
    for (name, length) in [("environment", 256), ("ref", 1025), ("sha", 256)] {
        root.post(&all, deployment_body(&sha, json!({ name: "a".repeat(length) }))).await.expect(400);
    }
    root.post(&all, deployment_body(&sha, json!({ "ref": "a\0b" }))).await.expect(400);
    let one = format!("{all}/{}", deployment(&root, &work, "production", "running").await["id"]);
    assert_eq!(root.put(&one, json!({})).await.expect(400).message(), "status is missing");
    root.put(&one, json!({ "status": "pending" })).await.expect(400);
    root.get(&format!("{all}/x")).await.expect(400);
    assert_eq!(root.get(&all).await.expect(200).pluck("iid"), [json!(1)]);
    assert_eq!(
        root.get(&format!("/projects/{}/environments", work.id)).await.expect(200).pluck("name"),
        [json!("production")]
    );
    let empty = Project::empty(&server, "empty", Visibility::Private).await;
    let nothing =
        root.post(&format!("/projects/{}/deployments", empty.id), deployment_body(&sha, json!({}))).await.expect(400);
    assert_eq!(nothing.json()["message"]["sha"], json!(["The commit does not exist"]));
}

async fn deployments_require_reporter_to_read_developer_to_write(server: TestServer) {
    let root = server.root();
    let work = Project::with_commits(&server, "work", Visibility::Public).await;
    let path = format!("/projects/{}", work.id);
    let all = format!("{path}/deployments");
    let one = format!("{all}/{}", deployment(&root, &work, "production", "running").await["id"]);
    let body = deployment_body(&work.id("main"), json!({}));
    let non_member = server.create_user("stranger").await.client;
    // The protection of `main` does not matter.
    for (client, reads, writes) in [
        (server.anonymous(), 401, 401),
        (non_member.clone(), 403, 403),
        (work.member("guest", AccessLevel::Guest).await, 403, 403),
        (work.member("reporter", AccessLevel::Reporter).await, 200, 403),
        (work.member("developer", AccessLevel::Developer).await, 200, 200),
        (work.member("maintainer", AccessLevel::Maintainer).await, 200, 200),
    ] {
        client.get(&all).await.expect(reads);
        client.get(&one).await.expect(reads);
        client.get(&format!("{one}/merge_requests")).await.expect(reads);
        client.put(&one, json!({ "status": "success" })).await.expect(writes);
        client.post(&all, body.clone()).await.expect(if writes == 200 { 201 } else { writes });
    }
    let hidden = Project::with_commits(&server, "hidden", Visibility::Private).await;
    let existing = format!("/projects/{}/deployments", hidden.id);
    non_member.get(&existing).await.expect(404);
    non_member.post(&existing, deployment_body(&hidden.id("main"), json!({}))).await.expect(404);
    root.put(&path, json!({ "builds_access_level": "disabled" })).await.expect(200);
    for response in [
        root.get(&all).await,
        root.get(&one).await,
        root.get(&format!("{one}/merge_requests")).await,
        root.post(&all, body.clone()).await,
        root.put(&one, json!({ "status": "failed" })).await,
    ] {
        assert_eq!(response.status, 403);
    }
    root.put(&path, json!({ "builds_access_level": "enabled" })).await.expect(200);
    work.archive().await;
    root.get(&one).await.expect(200);
    root.post(&all, body).await.expect(403);
    root.put(&one, json!({ "status": "failed" })).await.expect(403);
}

async fn concurrent_deployments_create_one_environment(server: TestServer) {
    let root = server.root();
    let work = Project::with_commits(&server, "work", Visibility::Private).await;
    let created = (0..12).map(|_| deployment(&root, &work, "production", "success"));
    let created = join_all(created).await;
    let mut iids: Vec<i64> = created.iter().map(|one| one["iid"].as_i64().expect("a number")).collect();
    iids.sort_unstable();
    assert_eq!(iids, (1..=12).collect::<Vec<i64>>());
    assert!(created.iter().all(|one| one["environment"] == created[0]["environment"]));
    assert_eq!(
        root.get(&format!("/projects/{}/environments", work.id)).await.expect(200).pluck("name"),
        [json!("production")]
    );
}

async fn deployment_survives_deletion_of_user(server: TestServer) {
    let work = Project::with_commits(&server, "work", Visibility::Private).await;
    let ada = server.create_user("ada").await;
    server.insert_member(work.id, ada.id, AccessLevel::Developer).await;
    let created = deployment(&ada.client, &work, "production", "success").await;
    assert_eq!(created["user"]["username"], "ada");
    let root = server.root();
    root.delete(&format!("/users/{}", ada.id)).await.expect(204);
    server.finish_jobs().await;
    let shown = root.get(&format!("/projects/{}/deployments/{}", work.id, created["id"])).await.expect(200).json();
    assert_eq!(shown["user"]["username"], "ghost");
}

on_every_database![
    deployment_lifecycle,
    list_deployments_supports_filters_orders_and_pages,
    create_deployment_rejects_invalid_parameters,
    deployments_require_reporter_to_read_developer_to_write,
    concurrent_deployments_create_one_environment,
    deployment_survives_deletion_of_user,
];
