//! Related rows in lists and single resources: the next response on every node shows each change of them.

use std::cell::Cell;

use reqwest::Method;
use reqwest::multipart::{Form, Part};
use serde_json::{Value, json};

use crate::planning::{issues, labels, milestones};
use crate::review::merge_requests;
use crate::support::process::{Process, Site, TOKEN};
use crate::support::spaces::{group, id, join, project};
use crate::support::{Client, DatabaseKind};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

/// Resources of a project that show its group, an assignee, a label and a milestone: a path, and the position in the
/// response. Two of the lists continue on a second page, so they are counted.
const ISSUABLES: [(&str, &str); 8] = [
    ("/issues/1", ""),
    ("/issues?state=opened&assignee_id=Any", "/0"),
    ("/issues?per_page=1", "/0"),
    ("/merge_requests/1", ""),
    ("/merge_requests?state=opened", "/0"),
    ("/merge_requests?per_page=1", "/0"),
    ("/merge_requests/1/closes_issues", "/0"),
    ("/issues/1/closed_by", "/0"),
];

/// Clients of the administrator on each node, and the paths of resources.
struct World {
    nodes: Vec<Client>,
    /// Number of changes so far.
    changes: Cell<usize>,
    user: String,
    outer_group: String,
    group: String,
    other_group: String,
    project: String,
    /// A project of the user.
    personal_project: String,
    label: String,
    milestone: String,
    /// A note of the user.
    note: String,
}

impl World {
    async fn new(site: &Site, nodes: &[Process]) -> Self {
        let nodes: Vec<_> = nodes.iter().map(|node| Client::new(&node.base, Some(TOKEN))).collect();
        let root = &nodes[0];
        site.succeeds(&["admin", "create-user", "ada", "--email", "ada@example.com"]).await;
        let ada = id(&root.get("/users?username=ada").await.expect(200).json()[0]);
        let outer = group(root, "engines", json!({})).await;
        let inner = group(root, "brass", json!({"parent_id": outer})).await;
        let other = group(root, "other", json!({})).await;
        let attributes = json!({"namespace_id": inner, "initialize_with_readme": true, "tag_list": "steam"});
        let number = project(root, "work", attributes).await;
        let work = format!("/projects/{number}");
        let personal = root.get("/namespaces?search=ada").await.expect(200).json()[0]["id"].clone();
        let personal = project(root, "own", json!({"namespace_id": personal})).await;
        join(root, &work, ada, 30).await;
        let share = json!({"group_id": other, "group_access": 20});
        root.post(&format!("{work}/share"), share).await.expect(201);
        let label = labels::label(root, &work, "bug").await;
        let milestone = milestones::milestone(root, &format!("/groups/{inner}"), "v1").await;
        let shown = json!({"labels": "bug", "assignee_ids": [ada], "milestone_id": milestone});
        let mut issue = shown.clone();
        issue["title"] = json!("shown");
        issues::open(root, number, issue).await;
        // The list of issues continues on a second page.
        let older = json!({"title": "older", "created_at": "2020-01-01T00:00:00Z"});
        issues::open(root, number, older).await;
        for branch in ["topic", "other"] {
            let commit = json!({"branch": branch, "start_branch": "main", "commit_message": "m", "content": "c"});
            root.post(&format!("{work}/repository/files/{branch}"), commit).await.expect(201);
        }
        let mut proposed = shown;
        proposed["description"] = json!("Closes #1");
        merge_requests::propose(root, number, "topic", "main", proposed.clone()).await;
        // The second one has the same assignee and label, but is closed.
        merge_requests::propose(root, number, "other", "main", proposed).await;
        root.put(&format!("{work}/merge_requests/2"), json!({"state_event": "close"})).await.expect(200);
        let as_ada = root.clone().header("Sudo", "ada");
        let note = as_ada.post(&format!("{work}/issues/1/notes"), json!({"body": "Yes"})).await.expect(201).json();
        as_ada.post(&format!("{work}/issues/1/award_emoji"), json!({"name": "tada"})).await.expect(201);
        Self {
            changes: Cell::new(0),
            user: format!("/users/{ada}"),
            outer_group: format!("/groups/{outer}"),
            group: format!("/groups/{inner}"),
            other_group: format!("/groups/{other}"),
            personal_project: format!("/projects/{personal}"),
            label: format!("{work}/labels/{label}"),
            milestone: format!("/groups/{inner}/milestones/{milestone}"),
            note: format!("{work}/issues/1/notes/{}", note["id"]),
            project: work,
            nodes,
        }
    }

    /// Returns the node that makes the next change.
    fn next_node(&self) -> &Client {
        let number = self.changes.get();
        self.changes.set(number + 1);
        &self.nodes[number % self.nodes.len()]
    }

    async fn change(&self, path: &str, body: Value) {
        self.next_node().put(path, body).await.expect(200);
    }

    /// Checks a value in the responses of all nodes, twice, so that the second response can come from a cache.
    async fn assert_shown(&self, path: &str, pointer: &str, is_expected: impl Fn(&Value) -> bool) {
        for _ in 0..2 {
            for node in &self.nodes {
                let response = node.get(path).await.expect(200).json();
                let value = response.pointer(pointer);
                assert!(value.is_some_and(&is_expected), "{path} {pointer}: {value:?}");
            }
        }
    }

    async fn assert_equal(&self, path: &str, pointer: &str, expected: Value) {
        self.assert_shown(path, pointer, |value| *value == expected).await;
    }

    /// Checks an attribute of all issues and merge requests.
    async fn assert_issuables_show(&self, pointer: &str, is_expected: impl Fn(&Value) -> bool) {
        for (path, position) in ISSUABLES {
            let path = format!("{}{path}", self.project);
            self.assert_shown(&path, &format!("{position}{pointer}"), &is_expected).await;
        }
    }
}

async fn changes_of_users_are_shown(world: &World) {
    world.assert_issuables_show("/assignees/0/username", |name| name == "ada").await;
    world.change(&world.user, json!({"name": "Ada King", "username": "countess"})).await;
    world.assert_issuables_show("/assignees/0/name", |name| name == "Ada King").await;
    world.assert_issuables_show("/assignees/0/username", |name| name == "countess").await;
    world.assert_equal(&world.note, "/author/name", json!("Ada King")).await;
    let award_emoji = format!("{}/issues/1/award_emoji", world.project);
    world.assert_equal(&award_emoji, "/0/user/name", json!("Ada King")).await;
    world.assert_equal(&world.personal_project, "/owner/name", json!("Ada King")).await;
    world.assert_equal("/projects?search=own", "/0/owner/username", json!("countess")).await;
    world.assert_equal("/projects?search=own", "/0/path_with_namespace", json!("countess/own")).await;
    let (node, form) = (world.next_node(), Form::new().part("avatar", Part::bytes(PNG).file_name("a.png")));
    node.send(node.request(Method::PUT, &world.user).multipart(form)).await.expect(200);
    // The URL begins with that of the node.
    let has_avatar = |url: &Value| url.as_str().is_some_and(|url| url.ends_with("/a.png"));
    world.assert_issuables_show("/assignees/0/avatar_url", has_avatar).await;
    world.assert_shown(&award_emoji, "/0/user/avatar_url", has_avatar).await;
    world.assert_shown("/namespaces?search=countess", "/0/avatar_url", has_avatar).await;
    world.next_node().post(&format!("{}/block", world.user), json!({})).await.expect(201);
    world.assert_issuables_show("/assignees/0/state", |state| state == "blocked").await;
}

async fn changes_of_labels_and_milestones_are_shown(world: &World) {
    let detailed = format!("{}/issues?with_labels_details=true&labels=bug", world.project);
    world.change(&world.label, json!({"color": "#00ff00", "description": "wrong"})).await;
    world.assert_equal(&detailed, "/0/labels/0/description", json!("wrong")).await;
    world.assert_equal(&detailed, "/0/labels/0/color", json!("#00ff00")).await;
    world.change(&world.milestone, json!({"title": "v2"})).await;
    world.assert_issuables_show("/milestone/title", |title| title == "v2").await;
    world.next_node().delete(&world.milestone).await.expect(204);
    world.assert_issuables_show("/milestone", Value::is_null).await;
    world.next_node().delete(&world.label).await.expect(204);
    for path in ["/issues/1", "/merge_requests/1"] {
        world.assert_equal(&format!("{}{path}", world.project), "/labels", json!([])).await;
    }
}

async fn changes_of_groups_and_projects_are_shown(world: &World) {
    let list = "/projects?search=work";
    let shown = async |pointer: &str, expected: Value| {
        world.assert_equal(&world.project, pointer, expected.clone()).await;
        world.assert_equal(list, &format!("/0{pointer}"), expected).await;
    };
    shown("/name_with_namespace", json!("engines / brass / work")).await;
    world.change(&world.group, json!({"name": "Brass", "path": "alloy"})).await;
    shown("/name_with_namespace", json!("engines / Brass / work")).await;
    shown("/namespace/full_path", json!("engines/alloy")).await;
    let is_moved = |full: &Value| full.as_str().is_some_and(|full| full.starts_with("engines/alloy/work"));
    world.assert_issuables_show("/references/full", is_moved).await;
    world.change(&world.outer_group, json!({"name": "Engines"})).await;
    shown("/name_with_namespace", json!("Engines / Brass / work")).await;
    world.assert_equal(&world.group, "/full_name", json!("Engines / Brass")).await;
    world.change(&world.other_group, json!({"name": "Others"})).await;
    shown("/shared_with_groups/0/group_name", json!("Others")).await;
    world.change(&world.project, json!({"tag_list": "steam,brass"})).await;
    shown("/tag_list", json!(["brass", "steam"])).await;
    let share = format!("{}/share/{}", world.project, world.other_group.trim_start_matches("/groups/"));
    world.next_node().delete(&share).await.expect(204);
    shown("/shared_with_groups", json!([])).await;
}

async fn changes_of_related_rows_are_shown(kind: &DatabaseKind, nodes: usize) {
    let site = Site::migrated(kind).await;
    let mut running = Vec::new();
    for _ in 0..nodes {
        running.push(site.serve(&[]).await);
    }
    let world = World::new(&site, &running).await;
    changes_of_users_are_shown(&world).await;
    changes_of_labels_and_milestones_are_shown(&world).await;
    changes_of_groups_and_projects_are_shown(&world).await;
    for node in running {
        node.stop().await;
    }
    site.remove().await;
}

async fn changes_of_related_rows_are_shown_on_two_nodes() {
    changes_of_related_rows_are_shown(&DatabaseKind::postgresql(), 2).await;
}

async fn changes_of_related_rows_are_shown_on_sqlite() {
    changes_of_related_rows_are_shown(&DatabaseKind::Sqlite, 1).await;
}

harness::tests![changes_of_related_rows_are_shown_on_sqlite];
harness::tests![requires harness::postgresql::missing; changes_of_related_rows_are_shown_on_two_nodes];
