//! Pipelines of merge requests.

use serde_json::{Value, json};
use storage::entities::AccessLevel;

use super::Fixture;
use crate::support::{Client, TestServer, on_every_database};

/// Creates a pipeline and returns its ID.
async fn pipeline(client: &Client, project: &Value, branch: &str) -> Value {
    let created = client.post(&format!("/projects/{project}/pipeline"), json!({"ref": branch})).await;
    created.expect(201).json()["id"].clone()
}

async fn list_contains_pipelines_of_all_versions(server: TestServer) {
    let fixture = Fixture::new(&server, "built").await;
    let project = json!(fixture.project.id);
    let first = pipeline(&fixture.root, &project, "feature/x").await;
    let body = json!({
        "branch": "feature/x", "start_branch": "main", "force": true, "commit_message": "m",
        "actions": [{"action": "create", "file_path": "new", "content": "x"}],
    });
    fixture.root.post(&fixture.project.url("/commits"), body).await.expect(201);
    let second = pipeline(&fixture.root, &project, "feature/x").await;
    // Pipelines of other branches and other commits are not listed.
    pipeline(&fixture.root, &project, "main").await;
    fixture.project.git(&["branch", "same", "feature/x"]);
    pipeline(&fixture.root, &project, "same").await;
    let list = fixture.root.get(&fixture.url("/merge_requests/1/pipelines")).await.expect(200);
    assert_eq!((list.header("X-Total"), list.pluck("id")), ("2", vec![second.clone(), first.clone()]));
    let newest = &list.json()[0];
    assert_eq!(
        *newest,
        json!({
            "id": second, "sha": fixture.project.id("feature/x"), "ref": "feature/x", "status": "pending",
            "created_at": newest["created_at"], "updated_at": newest["updated_at"],
            "web_url": format!("{}/root/built/-/pipelines/{second}", server.backend.instance.base_url),
        })
    );
    let page = fixture.root.get(&fixture.url("/merge_requests/1/pipelines?per_page=1&page=2")).await.expect(200);
    assert_eq!(page.pluck("id"), [first]);
}

async fn pipelines_of_a_fork_require_access_to_the_fork(server: TestServer) {
    let fixture = Fixture::new(&server, "origin").await;
    let ada = server.create_user("ada").await;
    let fork = ada.client.post(&fixture.url("/fork"), json!({})).await.expect(201).json()["id"].clone();
    server.finish_jobs().await;
    let body = json!({
        "source_branch": "feature/x", "target_branch": "main", "target_project_id": fixture.project.id, "title": "t",
    });
    let created = ada.client.post(&format!("/projects/{fork}/merge_requests"), body).await.expect(201).json();
    let id = pipeline(&ada.client, &fork, "feature/x").await;
    pipeline(&fixture.root, &json!(fixture.project.id), "feature/x").await;
    let url = fixture.url(&format!("/merge_requests/{}/pipelines", created["iid"]));
    let ben = server.create_user("ben").await;
    assert_eq!(ben.client.get(&url).await.expect(200).pluck("id"), std::slice::from_ref(&id));
    ada.client.put(&format!("/projects/{fork}"), json!({"visibility": "private"})).await.expect(200);
    assert_eq!(ada.client.get(&url).await.expect(200).pluck("id"), [id]);
    assert_eq!(ben.client.get(&url).await.expect(200).json(), json!([]));
    fixture.root.delete(&format!("/projects/{fork}")).await.expect(202);
    server.finish_jobs().await;
    assert_eq!(ada.client.get(&url).await.expect(200).json(), json!([]));
}

async fn hidden_pipelines_are_refused(server: TestServer) {
    let fixture = Fixture::new(&server, "hidden").await;
    let url = fixture.url("/merge_requests/1/pipelines");
    let guest = fixture.project.member("guest", AccessLevel::Guest).await;
    let reporter = fixture.project.member("reporter", AccessLevel::Reporter).await;
    let outsider = server.create_user("outsider").await;
    server.anonymous().get(&url).await.expect(200);
    fixture.set(json!({"public_jobs": false})).await;
    for client in [&server.anonymous(), &outsider.client, &guest] {
        client.get(&url).await.expect(403);
    }
    reporter.get(&url).await.expect(200);
    fixture.set(json!({"visibility": "private", "public_jobs": true})).await;
    server.anonymous().get(&url).await.expect(404);
    outsider.client.get(&url).await.expect(404);
    guest.get(&url).await.expect(403);
    reporter.get(&url).await.expect(200);
    server.with_token("nonsense").get(&url).await.expect(401);
    fixture.root.get(&fixture.url("/merge_requests/99/pipelines")).await.expect(404);
    fixture.root.get(&fixture.url("/merge_requests/x/pipelines")).await.expect(400);
    fixture.set(json!({"builds_access_level": "disabled"})).await;
    fixture.root.get(&url).await.expect(403);
}

async fn pipeline_is_created_for_the_head_of_the_source_branch(server: TestServer) {
    let fixture = Fixture::new(&server, "made").await;
    let url = fixture.url("/merge_requests/1/pipelines");
    let developer = fixture.project.member("developer", AccessLevel::Developer).await;
    let reporter = fixture.project.member("reporter", AccessLevel::Reporter).await;
    let created = developer.post(&url, json!({})).await.expect(201).json();
    assert_eq!(
        (&created["ref"], &created["sha"], &created["status"]),
        (&json!("feature/x"), &json!(fixture.project.id("feature/x").to_string()), &json!("pending"))
    );
    assert_eq!(fixture.root.get(&url).await.expect(200).pluck("id"), std::slice::from_ref(&created["id"]));
    assert_eq!(created["user"]["username"], "developer");
    reporter.post(&url, json!({})).await.expect(403);
    server.anonymous().post(&url, json!({})).await.expect(401);
    fixture.root.post(&fixture.url("/merge_requests/99/pipelines"), json!({})).await.expect(404);
    fixture.root.post(&fixture.url("/merge_requests/x/pipelines"), json!({})).await.expect(400);
    let protection = json!({"name": "feature/x", "push_access_level": 40, "merge_access_level": 40});
    fixture.root.post(&fixture.url("/protected_branches"), protection).await.expect(201);
    let refused = developer.post(&url, json!({})).await.expect(403);
    assert!(refused.message().ends_with("You are not allowed to run pipelines for this protected branch"));
    fixture.root.delete(&fixture.url("/protected_branches/feature%2Fx")).await.expect(204);
    fixture.root.delete(&fixture.url("/repository/branches/feature%2Fx")).await.expect(204);
    let missing = developer.post(&url, json!({})).await.expect(403);
    assert!(missing.message().ends_with("Source branch does not exist"), "{}", missing.message());
    fixture.set(json!({"visibility": "private"})).await;
    server.create_user("outsider").await.client.post(&url, json!({})).await.expect(404);
}

async fn pipeline_of_a_fork_is_created_in_the_fork(server: TestServer) {
    let fixture = Fixture::new(&server, "base").await;
    let ada = server.create_user("ada").await;
    let fork = ada.client.post(&fixture.url("/fork"), json!({})).await.expect(201).json()["id"].clone();
    server.finish_jobs().await;
    let body = json!({
        "source_branch": "feature/x", "target_branch": "main", "target_project_id": fixture.project.id, "title": "t",
    });
    let created = ada.client.post(&format!("/projects/{fork}/merge_requests"), body).await.expect(201).json();
    let url = fixture.url(&format!("/merge_requests/{}/pipelines", created["iid"]));
    let pipeline = ada.client.post(&url, json!({})).await.expect(201).json();
    assert!(pipeline["web_url"].as_str().is_some_and(|url| url.contains("/ada/base/-/pipelines/")), "{pipeline}");
    // A developer of the target project has no role in the fork.
    let developer = fixture.project.member("developer", AccessLevel::Developer).await;
    developer.post(&url, json!({})).await.expect(403);
    ada.client.put(&format!("/projects/{fork}"), json!({"visibility": "private"})).await.expect(200);
    developer.post(&url, json!({})).await.expect(403);
    assert_eq!(ada.client.get(&url).await.expect(200).pluck("id"), std::slice::from_ref(&pipeline["id"]));
}

on_every_database![
    pipeline_is_created_for_the_head_of_the_source_branch,
    pipeline_of_a_fork_is_created_in_the_fork,
    list_contains_pipelines_of_all_versions,
    pipelines_of_a_fork_require_access_to_the_fork,
    hidden_pipelines_are_refused,
];
