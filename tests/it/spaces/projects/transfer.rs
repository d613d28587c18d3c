//! Transferring projects to other namespaces.

use reqwest::Method;
use reqwest::multipart::{Form, Part};
use serde_json::{Value, json};
use storage::entities::{AccessLevel, Visibility};

use crate::support::code::Project;
use crate::support::git::{Work, address};
use crate::support::spaces::{group, join, project};
use crate::support::{Client, TestServer, on_every_database};

fn transfer_path(project: i64) -> String {
    format!("/projects/{project}/transfer")
}

fn to(namespace: impl Into<Value>) -> Value {
    json!({ "namespace": namespace.into() })
}

async fn rejection(client: &Client, project: i64, namespace: impl Into<Value>) -> Value {
    let response = client.put(&transfer_path(project), to(namespace)).await.expect(400);
    response.json()["message"].clone()
}

async fn transfer_preserves_content_members_and_relations(server: TestServer) {
    let root = server.root();
    let (ada, bob, eve) =
        (server.create_user("ada").await, server.create_user("bob").await, server.create_user("eve").await);
    let source = Project::with_commits(&server, "source", Visibility::Public).await;
    let created = ada.client.post(&format!("/projects/{}/fork", source.id), json!({"path": "work"})).await.expect(201);
    let work = created.json()["id"].as_i64().expect("an id");
    let one = format!("/projects/{work}");
    server.finish_jobs().await;
    let copy =
        root.post(&format!("{one}/fork"), json!({"path": "copy", "name": "copy"})).await.expect(201).json()["id"]
            .clone();
    join(&ada.client, &one, eve.id, 30).await;
    ada.client.post(&format!("{one}/hooks"), json!({"url": "http://127.0.0.1:1/"})).await.expect(201);
    ada.client.post(&format!("{one}/star"), json!({})).await.expect(201);
    let form = Form::new().part("file", Part::bytes(b"kept".to_vec()).file_name("a.txt"));
    let request = ada.client.request(Method::POST, &format!("{one}/uploads")).multipart(form);
    let upload = ada.client.send(request).await.expect(201).json();
    let engines = group(&root, "engines", json!({"visibility": "public"})).await;
    let low = group(&root, "low", json!({"parent_id": engines, "visibility": "public"})).await;
    join(&root, &format!("/groups/{engines}"), ada.id, 40).await;
    join(&root, &format!("/groups/{engines}"), bob.id, 40).await;
    let events = ada.client.get(&format!("{one}/events")).await.expect(200).json();

    let moved = ada.client.put(&transfer_path(work), to("Engines/LOW")).await.expect(200).json();
    assert_eq!(
        (&moved["id"], &moved["path_with_namespace"], &moved["name_with_namespace"]),
        (&json!(work), &json!("engines/low/work"), &json!("engines / low / source"))
    );
    assert_eq!(
        (&moved["namespace"]["id"], &moved["visibility"], &moved["star_count"]),
        (&json!(low), &json!("public"), &json!(1))
    );
    assert_eq!(moved["forked_from_project"]["id"], source.id);
    assert!(moved["owner"].is_null() && moved["runners_token"].is_string());
    // The project is available at the new path and at the former one, over API, Git and uploads.
    let new = root.get("/projects/engines%2Flow%2Fwork").await.expect(200).json();
    assert_eq!(new["id"], work);
    assert_eq!(root.get("/projects/ada%2Fwork").await.expect(200).json(), new);
    let work_tree = Work::empty();
    let token = |path: &str| address(&server.base, "ada", &ada.token, path);
    work_tree.git(&["clone", "--quiet", &token("engines/low/work"), "c"]).await;
    work_tree.git(&["clone", "--quiet", &token("ada/work"), "d"]).await;
    let file = upload["url"].as_str().expect("an address");
    assert_eq!(root.get(&format!("//engines/low/work{file}")).await.expect(200).text(), "kept");
    assert_eq!(root.get(&format!("//ada/work{file}")).await.expect(200).text(), "kept");
    // Webhooks, forks and members remain, and the members of the group have access.
    assert_eq!(bob.client.get(&format!("{one}/hooks")).await.expect(200).json().as_array().map(Vec::len), Some(1));
    let fork = root.get(&format!("/projects/{copy}")).await.expect(200).json();
    assert_eq!(fork["forked_from_project"]["path_with_namespace"], "engines/low/work");
    let member = root.get(&format!("{one}/members/{}", eve.id)).await.expect(200).json();
    assert_eq!(member["access_level"], 30);
    assert_eq!(root.get(&format!("/groups/{low}/projects")).await.expect(200).pluck("id"), [json!(work)]);
    assert_eq!(root.get(&format!("/users/{}/projects", ada.id)).await.expect(200).json(), json!([]));
    // A transfer creates no event.
    assert_eq!(ada.client.get(&format!("{one}/events")).await.expect(200).json(), events);
    // The old path is available at once.
    project(&ada.client, "work", json!({})).await;
}

async fn transfer_of_archived_project_preserves_archived_state(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    let team = group(&root, "team", json!({})).await;
    root.post(&format!("/projects/{work}/archive"), json!({})).await.expect(201);
    let moved = root.put(&transfer_path(work), to(team)).await.expect(200).json();
    assert_eq!((&moved["archived"], &moved["path_with_namespace"]), (&json!(true), &json!("team/work")));
}

async fn transfer_lowers_visibility_to_that_of_the_group(server: TestServer) {
    let root = server.root();
    let ada = server.create_user("ada").await;
    for (visibility, of_group, expected) in [
        ("public", "internal", "internal"),
        ("public", "private", "private"),
        ("internal", "public", "internal"),
        ("private", "public", "private"),
    ] {
        let name = format!("{visibility}-{of_group}");
        let team = group(&root, &name, json!({"visibility": of_group})).await;
        let work = project(&root, &name, json!({"visibility": visibility})).await;
        let moved = root.put(&transfer_path(work), to(name.clone())).await.expect(200).json();
        assert_eq!((&moved["visibility"], &moved["namespace"]["id"]), (&json!(expected), &json!(team)), "{name}");
        let status = if expected == "private" { 404 } else { 200 };
        ada.client.get(&format!("/projects/{work}")).await.expect(status);
        // A transfer to a personal namespace does not change the visibility.
        let back = root.put(&transfer_path(work), to("root")).await.expect(200).json();
        assert_eq!(back["visibility"], expected, "{name}");
    }
}

async fn transfer_requires_owner_and_permission_to_create_in_target(server: TestServer) {
    let root = server.root();
    let team = group(&root, "team", json!({"visibility": "public", "project_creation_level": "developer"})).await;
    let hidden = group(&root, "hidden", json!({})).await;
    let (ada, bob) = (server.create_user("ada").await, server.create_user("bob").await);
    let work = project(&ada.client, "work", json!({"visibility": "public"})).await;
    let one = transfer_path(work);
    // Permissions in the project.
    join(&root, &format!("/groups/{team}"), bob.id, 50).await;
    bob.client.put(&one, to("team")).await.expect(403);
    join(&ada.client, &format!("/projects/{work}"), bob.id, 40).await;
    bob.client.put(&one, to("team")).await.expect(403);
    server.anonymous().put(&one, to("team")).await.expect(401);
    let narrow = server.create_token(ada.id, &["read_api"]).await;
    server.with_token(&narrow).put(&one, to("team")).await.expect(403);
    let secret = project(&ada.client, "secret", json!({})).await;
    let non_member = server.create_user("stranger").await.client;
    assert_eq!(non_member.put(&transfer_path(secret), to("team")).await.expect(404).message(), "404 Project Not Found");
    // Permissions in the target. Invisible and missing namespaces return the same response.
    let unknown = ada.client.put(&one, to("nowhere")).await.expect(404);
    assert_eq!(unknown.message(), "404 Target Namespace Not Found");
    for namespace in
        [json!("team"), json!(team), json!("hidden"), json!(hidden), json!("bob"), json!(999_999), json!(work)]
    {
        let rejected = ada.client.put(&one, to(namespace.clone())).await.expect(404);
        assert_eq!(rejected.body, unknown.body, "{namespace}");
    }
    let member = format!("/groups/{team}/members/{}", ada.id);
    join(&root, &format!("/groups/{team}"), ada.id, 20).await;
    ada.client.put(&one, to(team)).await.expect(404);
    root.put(&member, json!({"access_level": 30})).await.expect(200);
    ada.client.put(&one, to(team)).await.expect(200);
    // A Developer of the group cannot transfer it back.
    ada.client.put(&one, to("ada")).await.expect(403);
    root.put(&member, json!({"access_level": 50})).await.expect(200);
    let back = ada.client.put(&one, to("ada")).await.expect(200).json();
    assert_eq!((&back["owner"]["id"], &back["path_with_namespace"]), (&json!(ada.id), &json!("ada/work")));
    let shown = root.get(&format!("/projects/{work}/members/{}", ada.id)).await.expect(200).json();
    assert_eq!(shown["access_level"], 40);
    // A group that forbids project creation rejects administrators as well.
    root.put(&format!("/groups/{team}"), json!({"project_creation_level": "noone"})).await.expect(200);
    ada.client.put(&one, to(team)).await.expect(404);
    root.put(&one, to(team)).await.expect(404);
    // Administrators can transfer it to any user.
    let transferred = root.put(&one, to("bob")).await.expect(200).json();
    assert_eq!(transferred["owner"]["id"], bob.id);
    let shown = root.get(&format!("/projects/{work}/members/{}", bob.id)).await.expect(200).json();
    assert_eq!(shown["access_level"], 40);
    ada.client.put(&one, to("ada")).await.expect(403);
}

async fn transfer_rejects_invalid_and_conflicting_namespaces(server: TestServer) {
    let root = server.root();
    let ada = server.create_user("ada").await;
    let work = project(&ada.client, "work", json!({"name": "Work"})).await;
    let team = group(&ada.client, "team", json!({})).await;
    let taken = "has already been taken";
    assert_eq!(rejection(&ada.client, work, "ada").await, json!({"namespace": ["already contains the project"]}));
    let twin = project(&ada.client, "WORK", json!({"namespace_id": team, "name": "Other"})).await;
    assert_eq!(rejection(&ada.client, work, team).await, json!({"path": [taken]}));
    ada.client.put(&format!("/projects/{twin}"), json!({"path": "other", "name": "wORK"})).await.expect(200);
    assert_eq!(rejection(&ada.client, work, team).await, json!({"name": [taken]}));
    ada.client.put(&format!("/projects/{twin}"), json!({"name": "Other"})).await.expect(200);
    let inner = group(&ada.client, "work", json!({"parent_id": team, "name": "Inner"})).await;
    assert_eq!(rejection(&ada.client, work, team).await, json!({"path": [taken]}));
    for (body, message) in [
        (json!({}), "namespace is missing"),
        (to(""), "namespace is empty"),
        (to(" "), "namespace is empty"),
        (to(Value::Null), "namespace is missing"),
        (to(json!(["team"])), "namespace is invalid"),
        (to("a\0b"), "namespace is invalid"),
    ] {
        let response = ada.client.put(&transfer_path(work), body).await.expect(400);
        assert!(response.message().contains(message), "{}", response.message());
    }
    ada.client.put(&transfer_path(work), to("x".repeat(1 << 20))).await.expect(413);
    root.put("/projects/a%00b%2Fc/transfer", to("team")).await.expect(400);
    // A group that is being deleted is not a valid target.
    ada.client.delete(&format!("/groups/{inner}")).await.expect(202);
    ada.client.put(&transfer_path(work), to("team/work")).await.expect(404);
    // A personal namespace at its project limit is not a valid target.
    let other = project(&ada.client, "elsewhere", json!({"namespace_id": team})).await;
    root.put(&format!("/users/{}", ada.id), json!({"projects_limit": 1})).await.expect(200);
    ada.client.put(&transfer_path(other), to("ada")).await.expect(403);
    let read = ada.client.get(&format!("/projects/{other}")).await.expect(200).json();
    assert_eq!(read["path_with_namespace"], "team/elsewhere");
}

async fn concurrent_transfers_to_one_path_succeed_once(server: TestServer) {
    let root = server.root();
    let team = group(&root, "team", json!({})).await;
    let ada = server.create_user("ada").await;
    server.insert_owner(team, ada.id).await;
    for round in 0..4 {
        let path = format!("p{round}");
        let own_project = project(&root, &path, json!({})).await;
        let other_project = project(&ada.client, &path, json!({})).await;
        let (own_transfer, other_transfer) = (transfer_path(own_project), transfer_path(other_project));
        let new = json!({"path": path, "namespace_id": team});
        let (first, second, third) = tokio::join!(
            root.put(&own_transfer, to(team)),
            ada.client.put(&other_transfer, to(team)),
            root.post("/projects", new)
        );
        let mut statuses = [first.status, second.status, third.status];
        statuses.sort_unstable();
        assert!(matches!(statuses, [200, 400, 400] | [201, 400, 400] | [400, 400, 200 | 201]), "{statuses:?}");
    }
}

async fn shares_remain_after_transfer(server: TestServer) {
    let root = server.root();
    let readers = group(&root, "readers", json!({})).await;
    let eve = server.create_user("eve").await;
    join(&root, &format!("/groups/{readers}"), eve.id, 50).await;
    let work = project(&root, "work", json!({})).await;
    let share = json!({"group_id": readers, "group_access": 20});
    root.post(&format!("/projects/{work}/share"), share).await.expect(201);
    let team = group(&root, "team", json!({})).await;
    root.put(&transfer_path(work), to(team)).await.expect(200);
    let read = eve.client.get(&format!("/projects/{work}")).await.expect(200).json();
    assert_eq!(read["path_with_namespace"], "team/work");
    // After a transfer into the group of the share, the roles of the group apply.
    root.put(&transfer_path(work), to(readers)).await.expect(200);
    let role = server.backend.clone();
    let access = domain::identity::access::ProjectAccess::find(
        &role,
        domain::kernel::caller::Caller::user(eve.row),
        &work.to_string(),
    )
    .await
    .expect("it");
    assert_eq!(access.role, Some(AccessLevel::Owner));
}

on_every_database![
    transfer_preserves_content_members_and_relations,
    transfer_of_archived_project_preserves_archived_state,
    transfer_lowers_visibility_to_that_of_the_group,
    transfer_requires_owner_and_permission_to_create_in_target,
    transfer_rejects_invalid_and_conflicting_namespaces,
    concurrent_transfers_to_one_path_succeed_once,
    shares_remain_after_transfer,
];
