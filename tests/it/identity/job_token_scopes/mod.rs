//! Job token scopes: the setting and the allowlists. [`effects`] tests which jobs a project accepts.

mod effects;

use sea_orm::ActiveValue::Set;
use sea_orm::{ColumnTrait, EntityTrait, PaginatorTrait, QueryFilter};
use serde_json::{Value, json};
use storage::entities::job_token_allowlist_entries::{ActiveModel, Column, Entity};
use storage::entities::{AccessLevel, Visibility, now};

use crate::support::spaces::{group, join, project};
use crate::support::{Client, TestServer, on_every_database};

/// Path of the job token scope of a project.
fn scope(project: i64) -> String {
    format!("/projects/{project}/job_token_scope")
}

/// Adds a project to the allowlist of another.
async fn allow_project(client: &Client, project: i64, allowed: i64) {
    let body = json!({ "target_project_id": allowed });
    let added = client.post(&format!("{}/allowlist", scope(project)), body).await.expect(201);
    assert_eq!(added.json(), json!({ "source_project_id": project, "target_project_id": allowed }));
}

/// Adds a group to the allowlist of a project.
async fn allow_group(client: &Client, project: i64, allowed: i64) {
    let body = json!({ "target_group_id": allowed });
    let added = client.post(&format!("{}/groups_allowlist", scope(project)), body).await.expect(201);
    assert_eq!(added.json(), json!({ "source_project_id": project, "target_group_id": allowed }));
}

/// Returns the IDs of a list.
async fn ids(client: &Client, list: &str) -> Vec<i64> {
    let found = client.get(list).await.expect(200).json();
    found.as_array().expect("a list").iter().map(|entry| entry["id"].as_i64().expect("an ID")).collect()
}

async fn job_token_scope_is_limited_until_it_is_disabled(server: TestServer) {
    let root = server.root();
    let scope = scope(project(&root, "app", json!({})).await);
    let limited = json!({ "inbound_enabled": true, "outbound_enabled": false });
    assert_eq!(root.get(&scope).await.expect(200).json(), limited);
    for (enabled, expected) in [(false, false), (false, false), (true, true)] {
        assert!(root.patch(&scope, json!({ "enabled": enabled })).await.expect(204).body.is_empty());
        assert_eq!(root.get(&scope).await.expect(200).json()["inbound_enabled"], expected);
    }
    for refused in [json!({}), json!({ "enabled": null }), json!({ "enabled": 123 })] {
        root.patch(&scope, refused).await.expect(400);
    }
    assert_eq!(root.get(&scope).await.expect(200).json(), limited);
}

async fn allowlist_contains_the_project_itself_and_added_projects(server: TestServer) {
    let root = server.root();
    let app = project(&root, "app", json!({})).await;
    let (first, second) = (project(&root, "a", json!({})).await, project(&root, "b", json!({})).await);
    let list = format!("{}/allowlist", scope(app));
    assert_eq!(ids(&root, &list).await, [app]);
    allow_project(&root, app, second).await;
    allow_project(&root, app, first).await;
    assert_eq!(ids(&root, &list).await, [app, first, second]);
    let page = root.get(&format!("{list}?per_page=1&page=2")).await.expect(200);
    assert_eq!((page.json()[0]["id"].clone(), page.header("x-total")), (json!(first), "3"));
    assert_eq!(page.json()[0]["path_with_namespace"], "root/a");
    let page = root.get(&format!("{list}?per_page=100&page=501")).await.expect(200);
    assert_eq!((page.json(), page.header("x-total")), (json!([]), "3"));
    root.delete(&format!("{list}/{second}")).await.expect(204);
    assert_eq!(ids(&root, &list).await, [app, first]);
    root.delete(&format!("{list}/{second}")).await.expect(404);
    root.delete(&format!("{list}/{app}")).await.expect(404);
    // The entry is deleted with the project.
    root.delete(&format!("/projects/{first}")).await.expect(202);
    assert_eq!(ids(&root, &list).await, [app]);
    server.finish_jobs().await;
    let db = server.backend.database.read();
    assert_eq!(Entity::find().count(db).await.expect("a count"), 0);
}

async fn groups_allowlist_contains_added_groups(server: TestServer) {
    let root = server.root();
    let app = project(&root, "app", json!({})).await;
    let (first, second) = (group(&root, "a", json!({})).await, group(&root, "b", json!({})).await);
    let list = format!("{}/groups_allowlist", scope(app));
    assert_eq!(root.get(&list).await.expect(200).json(), json!([]));
    allow_group(&root, app, second).await;
    allow_group(&root, app, first).await;
    let found = root.get(&list).await.expect(200).json();
    let url = format!("{}/groups/a", server.base);
    assert_eq!(found[0], json!({ "id": first, "web_url": url, "name": "a" }));
    assert_eq!(ids(&root, &list).await, [first, second]);
    assert_eq!(ids(&root, &format!("{list}?per_page=1&page=2")).await, [second]);
    root.delete(&format!("{list}/{first}")).await.expect(204);
    assert_eq!(ids(&root, &list).await, [second]);
    root.delete(&format!("{list}/{first}")).await.expect(404);
}

async fn entries_that_exist_are_refused(server: TestServer) {
    let root = server.root();
    let (app, other) = (project(&root, "app", json!({})).await, project(&root, "other", json!({})).await);
    let team = group(&root, "team", json!({})).await;
    allow_project(&root, app, other).await;
    allow_group(&root, app, team).await;
    let path = scope(app);
    for (list, body, noun) in [
        ("allowlist", json!({ "target_project_id": other }), "project"),
        ("allowlist", json!({ "target_project_id": app }), "project"),
        ("groups_allowlist", json!({ "target_group_id": team }), "group"),
    ] {
        let refused = root.post(&format!("{path}/{list}"), body).await.expect(400);
        assert_eq!(refused.message(), format!("Target {noun} is already in the job token scope"));
    }
    // Of two concurrent additions, one succeeds.
    let (list, body) =
        (format!("{path}/allowlist"), json!({ "target_project_id": project(&root, "c", json!({})).await }));
    let (one, two) = tokio::join!(root.post(&list, body.clone()), root.post(&list, body.clone()));
    let mut statuses = [one.status, two.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 400]);
}

async fn invalid_and_hidden_entries_are_refused(server: TestServer) {
    let root = server.root();
    let ann = server.create_user("ann").await;
    let app = project(&root, "app", json!({})).await;
    server.insert_member(app, ann.id, AccessLevel::Maintainer).await;
    let hidden = project(&root, "hidden", json!({ "visibility": "private" })).await;
    let hidden_group = group(&root, "hidden", json!({ "visibility": "private" })).await;
    let path = scope(app);
    for (list, body, status) in [
        ("allowlist", json!({}), 400),
        ("allowlist", json!({ "target_project_id": "x" }), 400),
        ("allowlist", json!({ "target_project_id": null }), 400),
        ("allowlist", json!({ "target_project_id": hidden }), 404),
        ("allowlist", json!({ "target_project_id": 99_999 }), 404),
        ("groups_allowlist", json!({}), 400),
        ("groups_allowlist", json!({ "target_group_id": hidden_group }), 404),
        ("groups_allowlist", json!({ "target_group_id": -1 }), 404),
    ] {
        let refused = ann.client.post(&format!("{path}/{list}"), body.clone()).await;
        assert_eq!(refused.status, status, "{body}");
    }
    // Entries that the caller cannot see are not listed, and can be removed.
    allow_project(&root, app, hidden).await;
    allow_group(&root, app, hidden_group).await;
    assert_eq!(ids(&ann.client, &format!("{path}/allowlist")).await, [app]);
    assert_eq!(ids(&ann.client, &format!("{path}/groups_allowlist")).await, [0_i64; 0]);
    ann.client.delete(&format!("{path}/allowlist/{hidden}")).await.expect(204);
    ann.client.delete(&format!("{path}/groups_allowlist/{hidden_group}")).await.expect(204);
}

async fn job_token_scope_requires_maintainer(server: TestServer) {
    let root = server.root();
    let app = project(&root, "app", json!({ "visibility": "public" })).await;
    let (ann, bob) = (server.create_user("ann").await, server.create_user("bob").await);
    join(&root, &format!("/projects/{app}"), ann.id, 30).await;
    let path = scope(app);
    for (client, status) in [(&ann.client, 403), (&bob.client, 403), (&server.anonymous(), 401)] {
        for list in ["", "/allowlist", "/groups_allowlist"] {
            client.get(&format!("{path}{list}")).await.expect(status);
        }
        client.patch(&path, json!({ "enabled": false })).await.expect(status);
        client.post(&format!("{path}/allowlist"), json!({ "target_project_id": app })).await.expect(status);
        client.delete(&format!("{path}/allowlist/{app}")).await.expect(status);
    }
}

async fn allowlist_has_a_maximum_of_entries(server: TestServer) {
    let root = server.root();
    let app = project(&root, "app", json!({})).await;
    let namespace = server.insert_group("many", Visibility::Public).await;
    let mut rows = Vec::new();
    for number in 0..199 {
        let other = server.insert_project(namespace, &format!("p{number}"), Visibility::Public).await;
        rows.push(ActiveModel {
            project_id: Set(app),
            allowed_project_id: Set(Some(other.id)),
            created_at: Set(now()),
            ..Default::default()
        });
    }
    let db = server.backend.database.write();
    Entity::insert_many(rows).exec(db).await.expect("rows");
    let last = [project(&root, "a", json!({})).await, project(&root, "b", json!({})).await];
    let list = format!("{}/allowlist", scope(app));
    let add = |id: i64| root.post(&list, json!({ "target_project_id": id }));
    // Of two concurrent additions of the last entry, one succeeds.
    let (one, two) = tokio::join!(add(last[0]), add(last[1]));
    let mut statuses = [one.status, two.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 400]);
    let refused = if one.status == 400 { one } else { two };
    let text = "The allowlist has the maximum number of projects (200); remove a project first";
    assert_eq!(refused.message(), text);
    let entries = Entity::find().filter(Column::ProjectId.eq(app));
    assert_eq!(entries.count(db).await.expect("a count"), 200);
    allow_group(&root, app, namespace).await;
}

async fn entries_are_removed_only_if_unmodified(server: TestServer) {
    let root = server.root();
    let (app, other) = (project(&root, "app", json!({})).await, project(&root, "other", json!({})).await);
    allow_project(&root, app, other).await;
    let one = format!("{}/allowlist/{other}", scope(app));
    let before = root.clone().header("If-Unmodified-Since", "Thu, 01 Jan 2015 00:00:00 GMT");
    before.delete(&one).await.expect(412);
    let team = group(&root, "team", json!({})).await;
    allow_group(&root, app, team).await;
    let of_group = format!("{}/groups_allowlist/{team}", scope(app));
    before.delete(&of_group).await.expect(412);
    root.delete(&of_group).await.expect(204);
    root.post(&format!("/projects/{app}/archive"), Value::Null).await.expect(201);
    root.post(&format!("{}/allowlist", scope(app)), json!({ "target_project_id": other })).await.expect(403);
    root.delete(&one).await.expect(204);
}

async fn entries_of_projects_and_groups_that_are_being_deleted_can_be_removed(server: TestServer) {
    let root = server.root();
    let app = project(&root, "app", json!({})).await;
    let (allowed, team) = (project(&root, "a", json!({})).await, group(&root, "team", json!({})).await);
    allow_project(&root, app, allowed).await;
    allow_group(&root, app, team).await;
    root.delete(&format!("/projects/{allowed}")).await.expect(202);
    root.delete(&format!("/groups/{team}")).await.expect(202);
    for entry in [format!("allowlist/{allowed}"), format!("groups_allowlist/{team}")] {
        let entry = format!("{}/{entry}", scope(app));
        root.delete(&entry).await.expect(204);
        root.delete(&entry).await.expect(404);
    }
    assert_eq!(Entity::find().count(server.backend.database.read()).await.expect("a count"), 0);
    server.finish_jobs().await;
}

on_every_database![
    job_token_scope_is_limited_until_it_is_disabled,
    allowlist_contains_the_project_itself_and_added_projects,
    groups_allowlist_contains_added_groups,
    entries_that_exist_are_refused,
    invalid_and_hidden_entries_are_refused,
    job_token_scope_requires_maintainer,
    allowlist_has_a_maximum_of_entries,
    entries_are_removed_only_if_unmodified,
    entries_of_projects_and_groups_that_are_being_deleted_can_be_removed,
];
