//! The life of a merge request: made, read, edited, closed, opened again, removed.

use serde_json::json;
use storage::entities::AccessLevel;

use super::{propose, public_project};
use crate::support::{TestServer, on_every_database};

async fn a_merge_request_shows_every_field(server: TestServer) {
    let root = server.root();
    let project = public_project(&server, "shown").await;
    let id = project.id;
    let ann = server.person("ann").await;
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
    let made = root.post(&format!("/projects/{id}/merge_requests"), body).await.expect(201).json();
    assert_eq!((&made["iid"], &made["project_id"], &made["title"]), (&json!(1), &json!(id), &json!("Draft: Add x")));
    assert_eq!((&made["source_project_id"], &made["target_project_id"]), (&json!(id), &json!(id)));
    assert_eq!((&made["source_branch"], &made["target_branch"]), (&json!("feature/x"), &json!("main")));
    assert_eq!(
        (&made["state"], &made["merged_at"], &made["closed_by"]),
        (&json!("opened"), &json!(null), &json!(null))
    );
    assert_eq!(made["labels"], json!(["bug", "ui"]));
    assert_eq!((&made["assignee"]["username"], &made["assignees"][0]["id"]), (&json!("ann"), &json!(ann.id)));
    assert_eq!((&made["author"]["username"], &made["milestone"]), (&json!("root"), &json!(null)));
    assert_eq!((&made["draft"], &made["work_in_progress"]), (&json!(true), &json!(true)));
    assert_eq!((&made["merge_status"], &made["has_conflicts"]), (&json!("can_be_merged"), &json!(false)));
    assert_eq!(
        (&made["force_remove_source_branch"], &made["should_remove_source_branch"]),
        (&json!(true), &json!(null))
    );
    assert_eq!((&made["squash"], &made["merge_when_pipeline_succeeds"]), (&json!(true), &json!(false)));
    assert_eq!(made["task_completion_status"], json!({"count": 2, "completed_count": 1}));
    assert_eq!(made["references"], json!({"short": "!1", "relative": "!1", "full": "root/shown!1"}));
    assert_eq!((&made["reference"], &made["changes_count"]), (&json!("!1"), &json!("1")));
    assert_eq!(made["web_url"], format!("{}/root/shown/-/merge_requests/1", server.base));
    assert_eq!(made["sha"], project.id("feature/x"));
    assert_eq!(
        made["diff_refs"],
        json!({
            "base_sha": project.id("main~1"), "head_sha": project.id("feature/x"), "start_sha": project.id("main"),
        })
    );
    assert_eq!((&made["subscribed"], &made["user"]["can_merge"]), (&json!(true), &json!(true)));
    for count in ["upvotes", "downvotes", "user_notes_count"] {
        assert_eq!(made[count], 0, "{count}");
    }
    for nothing in ["pipeline", "head_pipeline", "merge_error", "first_deployed_to_production_at"] {
        assert!(made[nothing].is_null() && made.get(nothing).is_some(), "{nothing}");
    }
    let path = format!("/projects/{id}/merge_requests/1");
    assert_eq!(root.get(&path).await.expect(200).json(), made);
    let seen = server.anonymous().get(&path).await.expect(200).json();
    assert!(seen.get("subscribed").is_none() && seen.get("diverged_commits_count").is_none());
    assert_eq!(seen["user"]["can_merge"], false);
    let more = format!("{path}?include_diverged_commits_count=true&include_rebase_in_progress=true");
    let more = root.get(&more).await.expect(200).json();
    assert_eq!((&more["diverged_commits_count"], &more["rebase_in_progress"]), (&json!(1), &json!(false)));
}

async fn what_does_not_do_is_refused(server: TestServer) {
    let root = server.root();
    let project = public_project(&server, "refused").await;
    let id = project.id;
    let path = format!("/projects/{id}/merge_requests");
    let missing = root.post(&path, json!({})).await.expect(400).json();
    assert_eq!(missing["message"], "source_branch is missing, target_branch is missing, title is missing");
    let wish = |source: &str, target: &str, title: &str| json!({"source_branch": source, "target_branch": target, "title": title});
    for (body, message) in [
        (wish("feature/x", "main", "  "), json!({"title": ["can't be blank"]})),
        (
            wish("main", "main", "t"),
            json!({"branch_conflict": ["You can't use same project/branch for source and target"]}),
        ),
        (wish("gone", "main", "t"), json!({"source_branch": ["Source branch \"gone\" does not exist"]})),
        (
            wish("gone", "", "t"),
            json!({
                "source_branch": ["Source branch \"gone\" does not exist"],
                "target_branch": ["Target branch \"\" does not exist"],
            }),
        ),
    ] {
        assert_eq!(root.post(&path, body).await.expect(400).json()["message"], message);
    }
    let mut strange = wish("feature/x", "main", "t");
    strange["milestone_id"] = json!(99);
    root.post(&path, strange).await.expect(400);
    assert_eq!(propose(&root, id, "feature/x", "main", json!({})).await, 1, "what was refused took no number");
    let second = root.post(&path, wish("feature/x", "main", "t")).await.expect(409).json();
    assert_eq!(second["message"], "Another open merge request already exists for this source branch: !1");
    assert_eq!(propose(&root, id, "feature/x", "merged", json!({})).await, 2);
    for missing in ["99", "0", "-1"] {
        let gone = root.get(&format!("{path}/{missing}")).await.expect(404).json();
        assert_eq!(gone["message"], "404 MergeRequest Not Found");
    }
    root.get(&format!("{path}/one")).await.expect(400);
    let huge = root.post(&path, json!({"title": "x".repeat(5 << 20)})).await;
    huge.expect(413);
}

async fn developers_of_the_source_make_them_where_they_see_the_target(server: TestServer) {
    let root = server.root();
    let project = public_project(&server, "made").await;
    let id = project.id;
    let path = format!("/projects/{id}/merge_requests");
    let reporter = project.member("reporter", AccessLevel::Reporter).await;
    let developer = project.member("developer", AccessLevel::Developer).await;
    let wish = json!({"source_branch": "feature/x", "target_branch": "main", "title": "t", "labels": "new"});
    reporter.post(&path, wish.clone()).await.expect(403);
    server.anonymous().post(&path, wish.clone()).await.expect(401);
    let made = developer.post(&path, wish.clone()).await.expect(201).json();
    assert_eq!((&made["labels"], &made["user"]["can_merge"]), (&json!(["new"]), &json!(false)));
    root.put(&format!("/projects/{id}"), json!({"merge_requests_access_level": "disabled"})).await.expect(200);
    developer.post(&path, wish.clone()).await.expect(403);
    root.get(&format!("{path}/1")).await.expect(404);
    root.put(&format!("/projects/{id}"), json!({"merge_requests_access_level": "private"})).await.expect(200);
    server.anonymous().get(&format!("{path}/1")).await.expect(404);
    reporter.get(&format!("{path}/1")).await.expect(200);
    root.put(&format!("/projects/{id}"), json!({"visibility": "private"})).await.expect(200);
    let guest = project.member("guest", AccessLevel::Guest).await;
    guest.get(&format!("{path}/1")).await.expect(403);
    project.archive().await;
    developer.post(&path, wish).await.expect(403);
    developer.get(&format!("{path}/1")).await.expect(200);
}

on_every_database![
    a_merge_request_shows_every_field,
    what_does_not_do_is_refused,
    developers_of_the_source_make_them_where_they_see_the_target,
];
