//! Milestones of releases.

use std::sync::Arc;

use domain::identity::access::ProjectAccess;
use domain::kernel::caller::Caller;
use domain::kernel::error::Error;
use domain::kernel::page::PageRequest;
use domain::releases::listing::{self, ReleaseFilter, ReleaseOrder};
use holdfast::config::ConfigOptions;
use serde_json::{Value, json};
use storage::entities::{AccessLevel, Visibility};

use super::release;
use crate::planning::milestones::milestone;
use crate::support::body_memory::request_memory;
use crate::support::code::Project;
use crate::support::spaces::group;
use crate::support::{Client, TestServer, on_every_database};

fn free_plan() -> ConfigOptions {
    ConfigOptions { plan: Some("free".to_owned()), ..ConfigOptions::default() }
}

/// Creates a project with commits in a group, and returns the path of both.
async fn project_in_group<'a>(server: &'a TestServer, name: &str) -> (Project<'a>, String, String) {
    let root = server.root();
    let project = Project::with_commits(server, name, Visibility::Private).await;
    let team = group(&root, &format!("team-of-{name}"), json!({})).await;
    let path = format!("/projects/{}", project.id);
    root.put(&format!("{path}/transfer"), json!({ "namespace": team })).await.expect(200);
    (project, path, format!("/groups/{team}"))
}

/// Returns the titles of the milestones of a release.
async fn titles(client: &Client, release: &str) -> Vec<Value> {
    let found = client.get(release).await.expect(200).json();
    let milestones = found.get("milestones").cloned().unwrap_or_else(|| json!([]));
    milestones.as_array().expect("a list").iter().map(|one| one["title"].clone()).collect()
}

async fn release_contains_milestones_with_issue_counts(server: TestServer) {
    let root = server.root();
    let (project, path, team) = project_in_group(&server, "engine").await;
    let own = milestone(&root, &path, "own").await;
    let of_group = milestone(&root, &team, "of group").await;
    for (title, confidential) in [("open", false), ("closed", false), ("secret", true)] {
        let body = json!({ "title": title, "milestone_id": own, "confidential": confidential });
        let issue = root.post(&format!("{path}/issues"), body).await.expect(201).json();
        if title == "closed" {
            let close = json!({ "state_event": "close" });
            root.put(&format!("{path}/issues/{}", issue["iid"]), close).await.expect(200);
        }
    }
    let created = release(&root, &path, "v1", json!({ "milestones": ["of group", "own", "own"] })).await;
    let shown = root.get(&format!("{path}/milestones/{own}")).await.expect(200).json();
    let mut expected = shown.clone();
    expected["issue_stats"] = json!({ "total": 3, "closed": 1 });
    assert_eq!(created["milestones"][0], expected);
    let shown = root.get(&format!("{team}/milestones/{of_group}")).await.expect(200).json();
    assert_eq!(
        (&created["milestones"][1]["web_url"], &created["milestones"][1]["group_id"]),
        (&shown["web_url"], &shown["group_id"])
    );
    // Confidential issues are not counted for callers who cannot see them.
    let guest = project.member("guest", AccessLevel::Guest).await;
    let seen = guest.get(&format!("{path}/releases")).await.expect(200).json();
    assert_eq!(seen[0]["milestones"][0]["issue_stats"], json!({ "total": 2, "closed": 1 }));
}

async fn update_release_replaces_milestones(server: TestServer) {
    let root = server.root();
    let (_project, path, _) = project_in_group(&server, "engine").await;
    let (first, second) = (milestone(&root, &path, "a").await, milestone(&root, &path, "b").await);
    release(&root, &path, "v1", json!({ "milestone_ids": [first] })).await;
    release(&root, &path, "v2", json!({ "milestone_ids": [first] })).await;
    let url = format!("{path}/releases/v1");
    root.put(&url, json!({ "milestones": ["a", "b"] })).await.expect(200);
    assert_eq!(titles(&root, &url).await, ["a", "b"]);
    root.put(&url, json!({ "milestone_ids": [second] })).await.expect(200);
    assert_eq!(titles(&root, &url).await, ["b"]);
    assert_eq!(root.put(&url, json!({ "name": "x" })).await.expect(200).json()["milestones"][0]["title"], "b");
    let unknown = root.put(&url, json!({ "milestones": ["b", "none"] })).await.expect(400);
    assert_eq!(unknown.message(), "Milestone(s) not found: none");
    for none in [json!({ "milestones": [] }), json!({ "milestone_ids": null })] {
        root.put(&url, json!({ "milestones": ["a"] })).await.expect(200);
        assert_eq!(root.put(&url, none).await.expect(200).json().get("milestones"), None);
    }
    root.put(&url, json!({ "milestones": ["a"] })).await.expect(200);
    root.delete(&format!("{path}/milestones/{first}")).await.expect(204);
    assert_eq!(titles(&root, &url).await, [] as [Value; 0]);
    // A milestone of another project is not available.
    let (_other, other, _) = project_in_group(&server, "other").await;
    let foreign = milestone(&root, &other, "b").await;
    let response = root.put(&url, json!({ "milestone_ids": [foreign] })).await.expect(400);
    assert_eq!(response.message(), format!("Milestone id(s) not found: {foreign}"));
}

async fn group_milestones_of_releases_require_premium_plan(server: TestServer) {
    let root = server.root();
    let (_project, path, team) = project_in_group(&server, "engine").await;
    milestone(&root, &team, "of group").await;
    milestone(&root, &path, "own").await;
    let body = json!({ "tag_name": "v1", "ref": "main", "milestones": ["own", "of group"] });
    let response = root.post(&format!("{path}/releases"), body).await.expect(400);
    assert_eq!(response.message(), "Milestone(s) not found: of group");
    release(&root, &path, "v1", json!({ "milestones": ["own"] })).await;
}

async fn promotion_keeps_milestones_of_releases(server: TestServer) {
    let root = server.root();
    let (_project, path, team) = project_in_group(&server, "engine").await;
    let own = milestone(&root, &path, "v1").await;
    release(&root, &path, "v1", json!({ "milestone_ids": [own] })).await;
    root.post(&format!("{path}/milestones/{own}/promote"), json!({})).await.expect(200);
    let found = root.get(&format!("{path}/releases/v1")).await.expect(200).json();
    let promoted = root.get(&format!("{team}/milestones")).await.expect(200).json();
    assert_eq!(found["milestones"][0]["id"], promoted[0]["id"]);
}

async fn transfer_replaces_milestones_of_former_groups(server: TestServer) {
    let root = server.root();
    let (_project, path, team) = project_in_group(&server, "engine").await;
    let (own, shared) = (milestone(&root, &path, "own").await, milestone(&root, &team, "shared").await);
    let lost = milestone(&root, &team, "lost").await;
    release(&root, &path, "v1", json!({ "milestone_ids": [own, shared, lost] })).await;
    release(&root, &path, "v2", json!({ "milestone_ids": [shared] })).await;
    let target = group(&root, "target", json!({})).await;
    let in_target = milestone(&root, &format!("/groups/{target}"), "shared").await;
    root.put(&format!("{path}/transfer"), json!({ "namespace": target })).await.expect(200);
    let mut found = titles(&root, &format!("{path}/releases/v1")).await;
    found.sort_by_key(Value::to_string);
    assert_eq!(found, ["lost", "own", "shared"]);
    let second = root.get(&format!("{path}/releases/v2")).await.expect(200).json();
    assert_eq!(second["milestones"][0]["id"], json!(in_target));
    // The project gets its own copy of a milestone that the target lacks.
    let copies = root.get(&format!("{path}/milestones?title=lost")).await.expect(200).json();
    assert_eq!(copies.as_array().map(Vec::len), Some(1));
}

async fn milestone_of_many_releases_is_read_once(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "work", Visibility::Private).await;
    let path = format!("/projects/{}", project.id);
    let body = json!({ "title": "large", "description": "x".repeat(100_000) });
    root.post(&format!("{path}/milestones"), body).await.expect(201);
    for tag in ["v1", "v2", "v3"] {
        release(&root, &path, tag, json!({ "milestones": ["large"] })).await;
    }
    let user = server.create_user("ada").await;
    server.insert_member(project.id, user.id, AccessLevel::Developer).await;
    let list = async |memory_bytes: u64| {
        let (budgets, memory) = request_memory(memory_bytes);
        let caller = Caller::user(user.row.clone()).with_memory(memory);
        let access = ProjectAccess::find(&server.backend, caller, &project.id.to_string()).await.expect("access");
        let filter = ReleaseFilter {
            order: ReleaseOrder::ReleasedAt,
            descending: true,
            updated_before: None,
            updated_after: None,
        };
        let page = listing::list(&server.backend, &access, &filter, &PageRequest::default()).await;
        (page, budgets.memory.used())
    };
    // Three copies in the response, and four while the row is read.
    let (refused, used) = list(699_990).await;
    assert!(matches!(refused, Err(Error::Overloaded)) && used < 100_000, "{used}");
    let (page, used) = list(16 << 20).await;
    assert!((300_000..400_000).contains(&used), "{used}");
    let items = page.expect("releases").items;
    let milestones = items.iter().flat_map(|one| &one.content.as_ref().expect("content").milestones);
    let milestones: Vec<_> = milestones.collect();
    assert_eq!(milestones.len(), 3);
    assert!(milestones.iter().all(|one| Arc::ptr_eq(one, milestones[0])));
    let listed = root.get(&format!("{path}/releases")).await.expect(200).json();
    for one in listed.as_array().expect("a list") {
        assert_eq!(one["milestones"][0]["description"].as_str().map(str::len), Some(100_000));
    }
}

on_every_database![
    release_contains_milestones_with_issue_counts,
    update_release_replaces_milestones,
    group_milestones_of_releases_require_premium_plan with free_plan(),
    promotion_keeps_milestones_of_releases,
    transfer_replaces_milestones_of_former_groups,
    milestone_of_many_releases_is_read_once,
];
