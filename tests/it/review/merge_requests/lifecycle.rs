//! Creating and reading merge requests.

use serde_json::json;
use storage::entities::AccessLevel;

use super::{propose, public_project};
use crate::support::{TestServer, on_every_database};

async fn get_merge_request_returns_all_fields(server: TestServer) {
    let root = server.root();
    let project = public_project(&server, "shown").await;
    let id = project.id;
    let ann = server.create_user("ann").await;
    let body = json!({
        "source_branch": "feature/x",
        "target_branch": "main",
        "title": "  Draft: Add x  ",
        "description": "- [x] one\n- [ ] two",
        "labels": "bug, ui",
        "assignee_ids": [ann.id],
        "remove_source_branch": true,
        "squash": true,
    });
    let created = root.post(&format!("/projects/{id}/merge_requests"), body).await.expect(201).json();
    assert_eq!(
        (&created["iid"], &created["project_id"], &created["title"]),
        (&json!(1), &json!(id), &json!("Draft: Add x"))
    );
    assert_eq!((&created["source_project_id"], &created["target_project_id"]), (&json!(id), &json!(id)));
    assert_eq!((&created["source_branch"], &created["target_branch"]), (&json!("feature/x"), &json!("main")));
    assert_eq!(
        (&created["state"], &created["merged_at"], &created["closed_by"]),
        (&json!("opened"), &json!(null), &json!(null))
    );
    assert_eq!(created["labels"], json!(["bug", "ui"]));
    assert_eq!((&created["assignee"]["username"], &created["assignees"][0]["id"]), (&json!("ann"), &json!(ann.id)));
    assert_eq!((&created["author"]["username"], &created["milestone"]), (&json!("root"), &json!(null)));
    assert_eq!((&created["draft"], &created["work_in_progress"]), (&json!(true), &json!(true)));
    assert_eq!((&created["merge_status"], &created["has_conflicts"]), (&json!("can_be_merged"), &json!(false)));
    assert_eq!(
        (&created["force_remove_source_branch"], &created["should_remove_source_branch"]),
        (&json!(true), &json!(null))
    );
    assert_eq!((&created["squash"], &created["merge_when_pipeline_succeeds"]), (&json!(true), &json!(false)));
    assert_eq!(created["task_completion_status"], json!({"count": 2, "completed_count": 1}));
    assert_eq!(created["references"], json!({"short": "!1", "relative": "!1", "full": "root/shown!1"}));
    assert_eq!((&created["reference"], &created["changes_count"]), (&json!("!1"), &json!("1")));
    assert_eq!(created["web_url"], format!("{}/root/shown/-/merge_requests/1", server.base));
    assert_eq!(created["sha"], project.id("feature/x"));
    assert_eq!(
        created["diff_refs"],
        json!({
            "base_sha": project.id("main~1"), "head_sha": project.id("feature/x"), "start_sha": project.id("main"),
        })
    );
    assert_eq!((&created["subscribed"], &created["user"]["can_merge"]), (&json!(true), &json!(true)));
    for count in ["upvotes", "downvotes", "user_notes_count"] {
        assert_eq!(created[count], 0, "{count}");
    }
    for empty_field in ["pipeline", "head_pipeline", "merge_error", "first_deployed_to_production_at"] {
        assert!(created[empty_field].is_null() && created.get(empty_field).is_some(), "{empty_field}");
    }
    let path = format!("/projects/{id}/merge_requests/1");
    assert_eq!(root.get(&path).await.expect(200).json(), created);
    let seen = server.anonymous().get(&path).await.expect(200).json();
    assert!(seen.get("subscribed").is_none() && seen.get("diverged_commits_count").is_none());
    assert_eq!(seen["user"]["can_merge"], false);
    let more = format!("{path}?include_diverged_commits_count=true&include_rebase_in_progress=true");
    let more = root.get(&more).await.expect(200).json();
    assert_eq!((&more["diverged_commits_count"], &more["rebase_in_progress"]), (&json!(1), &json!(false)));
}

async fn create_merge_request_rejects_invalid_attributes(server: TestServer) {
    let root = server.root();
    let project = public_project(&server, "refused").await;
    let id = project.id;
    let path = format!("/projects/{id}/merge_requests");
    let missing = root.post(&path, json!({})).await.expect(400).json();
    assert_eq!(missing["message"], "source_branch is missing, target_branch is missing, title is missing");
    let request_body = |source: &str, target: &str, title: &str| json!({"source_branch": source, "target_branch": target, "title": title});
    for (body, message) in [
        (request_body("feature/x", "main", "  "), json!({"title": ["can't be blank"]})),
        (
            request_body("main", "main", "t"),
            json!({"branch_conflict": ["You can't use same project/branch for source and target"]}),
        ),
        (request_body("gone", "main", "t"), json!({"source_branch": ["Source branch \"gone\" does not exist"]})),
        (
            request_body("gone", "", "t"),
            json!({
                "source_branch": ["Source branch \"gone\" does not exist"],
                "target_branch": ["Target branch \"\" does not exist"],
            }),
        ),
    ] {
        assert_eq!(root.post(&path, body).await.expect(400).json()["message"], message);
    }
    let mut unknown_milestone = request_body("feature/x", "main", "t");
    unknown_milestone["milestone_id"] = json!(99);
    root.post(&path, unknown_milestone).await.expect(400);
    assert_eq!(propose(&root, id, "feature/x", "main", json!({})).await, 1, "rejected requests do not use an IID");
    let second = root.post(&path, request_body("feature/x", "main", "t")).await.expect(409).json();
    assert_eq!(second["message"], "Another open merge request already exists for this source branch: !1");
    assert_eq!(propose(&root, id, "feature/x", "merged", json!({})).await, 2);
    for missing in ["99", "0", "-1"] {
        let missing = root.get(&format!("{path}/{missing}")).await.expect(404).json();
        assert_eq!(missing["message"], "404 MergeRequest Not Found");
    }
    root.get(&format!("{path}/one")).await.expect(400);
    let huge = root.post(&path, json!({"title": "x".repeat(5 << 20)})).await;
    huge.expect(413);
}

async fn create_merge_request_requires_developer_and_enabled_feature(server: TestServer) {
    let root = server.root();
    let project = public_project(&server, "made").await;
    let id = project.id;
    let path = format!("/projects/{id}/merge_requests");
    let reporter = project.member("reporter", AccessLevel::Reporter).await;
    let developer = project.member("developer", AccessLevel::Developer).await;
    let request_body = json!({"source_branch": "feature/x", "target_branch": "main", "title": "t", "labels": "new"});
    reporter.post(&path, request_body.clone()).await.expect(403);
    server.anonymous().post(&path, request_body.clone()).await.expect(401);
    let created = developer.post(&path, request_body.clone()).await.expect(201).json();
    assert_eq!((&created["labels"], &created["user"]["can_merge"]), (&json!(["new"]), &json!(false)));
    root.put(&format!("/projects/{id}"), json!({"merge_requests_access_level": "disabled"})).await.expect(200);
    developer.post(&path, request_body.clone()).await.expect(403);
    root.get(&format!("{path}/1")).await.expect(404);
    root.put(&format!("/projects/{id}"), json!({"merge_requests_access_level": "private"})).await.expect(200);
    server.anonymous().get(&format!("{path}/1")).await.expect(404);
    reporter.get(&format!("{path}/1")).await.expect(200);
    root.put(&format!("/projects/{id}"), json!({"visibility": "private"})).await.expect(200);
    let guest = project.member("guest", AccessLevel::Guest).await;
    guest.get(&format!("{path}/1")).await.expect(403);
    project.archive().await;
    developer.post(&path, request_body).await.expect(403);
    developer.get(&format!("{path}/1")).await.expect(200);
}

on_every_database![
    get_merge_request_returns_all_fields,
    create_merge_request_rejects_invalid_attributes,
    create_merge_request_requires_developer_and_enabled_feature,
];
