//! Permissions on issues.

use holdfast::config::ConfigOptions;
use serde_json::json;
use storage::entities::AccessLevel;

use super::{open, public_project, titles};
use crate::support::spaces::{group, join, project};
use crate::support::{TestServer, on_every_database};

async fn confidential_issue_is_hidden_from_guests_and_non_members(server: TestServer) {
    let root = server.root();
    let id = public_project(&server, "secret").await;
    let (author, assignee) = (server.create_user("author").await, server.create_user("assignee").await);
    let (guest, reporter) = (server.create_user("guest").await, server.create_user("reporter").await);
    let non_member = server.create_user("stranger").await;
    server.insert_member(id, guest.id, AccessLevel::Guest).await;
    server.insert_member(id, reporter.id, AccessLevel::Reporter).await;
    let iid = open(&author.client, id, json!({"title": "hush", "confidential": true})).await;
    let path = format!("/projects/{id}/issues/{iid}");
    assert_eq!(root.get(&path).await.expect(200).json()["confidential"], true);
    root.put(&path, json!({"assignee_ids": [assignee.id]})).await.expect(200);
    let list = format!("/projects/{id}/issues");
    let everywhere = "/issues?scope=all";
    for user in [&author, &assignee, &reporter] {
        user.client.get(&path).await.expect(200);
        assert_eq!(titles(&user.client, &list).await, ["hush"]);
        assert_eq!(titles(&user.client, everywhere).await, ["hush"]);
    }
    let none: [String; 0] = [];
    for other in [&guest, &non_member] {
        let hidden = other.client.get(&path).await.expect(404);
        assert_eq!(hidden.json()["message"], "404 Issue Not Found");
        for part in ["participants", "time_stats"] {
            other.client.get(&format!("{path}/{part}")).await.expect(404);
        }
        other.client.put(&path, json!({"title": "x"})).await.expect(404);
        other.client.post(&format!("{path}/subscribe"), json!({})).await.expect(404);
        let hidden = other.client.get(&list).await.expect(200);
        assert_eq!((hidden.header("X-Total"), hidden.json()), ("0", json!([])));
        assert_eq!(titles(&other.client, everywhere).await, none);
        let found = format!("{everywhere}&search=hush&in=title");
        assert_eq!(titles(&other.client, &found).await, none);
        let events = other.client.get(&format!("/projects/{id}/events?target_type=issue")).await.expect(200);
        assert_eq!(events.json(), json!([]), "project events include the confidential issue");
        let events = other.client.get(&format!("/users/{}/events?target_type=issue", author.id)).await.expect(200);
        assert_eq!(events.json(), json!([]), "events of the author include the confidential issue");
    }
    server.anonymous().get(&path).await.expect(404);
    let returned = reporter.client.get(&format!("/projects/{id}/events?target_type=issue")).await.expect(200);
    assert_eq!(returned.pluck("target_title"), [json!("hush")]);
}

async fn issue_write_permissions_depend_on_role(server: TestServer) {
    let root = server.root();
    let id = public_project(&server, "open").await;
    let (ann, guest) = (server.create_user("ann").await, server.create_user("guest").await);
    let reporter = server.create_user("reporter").await;
    server.insert_member(id, guest.id, AccessLevel::Guest).await;
    server.insert_member(id, reporter.id, AccessLevel::Reporter).await;
    let body = json!({"title": "t", "labels": "wished", "weight": 3, "assignee_ids": [ann.id]});
    let created = ann.client.post(&format!("/projects/{id}/issues"), body.clone()).await.expect(201).json();
    assert_eq!((&created["labels"], &created["weight"], &created["assignees"]), (&json!([]), &json!(null), &json!([])));
    let created = guest.client.post(&format!("/projects/{id}/issues"), body.clone()).await.expect(201).json();
    assert_eq!((&created["labels"], &created["weight"]), (&json!([]), &json!(3)), "guests cannot create labels");
    let created = reporter.client.post(&format!("/projects/{id}/issues"), body.clone()).await.expect(201).json();
    assert_eq!(created["labels"], json!(["wished"]));
    let created = guest.client.post(&format!("/projects/{id}/issues"), body).await.expect(201).json();
    assert_eq!(created["labels"], json!(["wished"]), "guests can use existing labels");
    // Authors edit their own issues, Reporters edit all issues, other users none.
    ann.client.put(&format!("/projects/{id}/issues/1"), json!({"title": "mine"})).await.expect(200);
    let unchanged = ann.client.put(&format!("/projects/{id}/issues/1"), json!({"weight": 9})).await.expect(200).json();
    assert_eq!(unchanged["weight"], json!(null));
    guest.client.put(&format!("/projects/{id}/issues/1"), json!({"title": "x"})).await.expect(403);
    reporter.client.put(&format!("/projects/{id}/issues/1"), json!({"title": "ours"})).await.expect(200);
    ann.client.post(&format!("/projects/{id}/issues/1/time_estimate"), json!({"duration": "1h"})).await.expect(403);
    for other in [&ann, &reporter] {
        other.client.delete(&format!("/projects/{id}/issues/1")).await.expect(403);
    }
    server.anonymous().post(&format!("/projects/{id}/issues"), json!({"title": "t"})).await.expect(401);
    server.anonymous().get(&format!("/projects/{id}/issues")).await.expect(401);
    server.anonymous().get("/issues?scope=all").await.expect(401);
    root.delete(&format!("/projects/{id}/issues/1")).await.expect(204);
}

async fn issues_of_private_projects_and_disabled_features_are_hidden(server: TestServer) {
    let root = server.root();
    let hidden = project(&root, "hidden", json!({})).await;
    let id = public_project(&server, "off").await;
    let ann = server.create_user("ann").await;
    open(&root, hidden, json!({"title": "hidden"})).await;
    open(&root, id, json!({"title": "shown"})).await;
    ann.client.get(&format!("/projects/{hidden}/issues")).await.expect(404);
    ann.client.get(&format!("/projects/{hidden}/issues/1")).await.expect(404);
    assert_eq!(titles(&ann.client, "/issues?scope=all").await, ["shown"]);
    root.put(&format!("/projects/{id}"), json!({"issues_access_level": "private"})).await.expect(200);
    let none: [String; 0] = [];
    assert_eq!(titles(&ann.client, &format!("/projects/{id}/issues")).await, none);
    ann.client.get(&format!("/projects/{id}/issues/1")).await.expect(404);
    ann.client.post(&format!("/projects/{id}/issues"), json!({"title": "t"})).await.expect(403);
    server.insert_member(id, ann.id, AccessLevel::Guest).await;
    assert_eq!(titles(&ann.client, &format!("/projects/{id}/issues")).await, ["shown"]);
    root.put(&format!("/projects/{id}"), json!({"issues_access_level": "disabled"})).await.expect(200);
    for client in [&root, &ann.client] {
        assert_eq!(titles(client, &format!("/projects/{id}/issues")).await, none);
        client.get(&format!("/projects/{id}/issues/1")).await.expect(404);
        client.post(&format!("/projects/{id}/issues"), json!({"title": "t"})).await.expect(403);
    }
}

async fn archived_project_issues_are_read_only(server: TestServer) {
    let root = server.root();
    let id = public_project(&server, "old").await;
    open(&root, id, json!({"title": "kept"})).await;
    root.post(&format!("/projects/{id}/archive"), json!({})).await.expect(201);
    let path = format!("/projects/{id}/issues");
    root.post(&path, json!({"title": "t"})).await.expect(403);
    root.put(&format!("{path}/1"), json!({"title": "t"})).await.expect(403);
    root.delete(&format!("{path}/1")).await.expect(403);
    root.post(&format!("{path}/1/subscribe"), json!({})).await.expect(403);
    root.get(&format!("{path}/1")).await.expect(200);
    assert_eq!(titles(&root, &path).await, ["kept"]);
    let none: [String; 0] = [];
    assert_eq!(titles(&root, "/issues").await, none);
    assert_eq!(titles(&root, "/issues?non_archived=false").await, ["kept"]);
}

async fn free_plan_allows_one_assignee_and_no_weight(server: TestServer) {
    let root = server.root();
    let id = public_project(&server, "basic").await;
    let (ann, ben) = (server.create_user("ann").await, server.create_user("ben").await);
    let body = json!({"title": "t", "weight": 3, "assignee_ids": [ben.id, ann.id]});
    let created = root.post(&format!("/projects/{id}/issues"), body).await.expect(201).json();
    assert!(created.get("weight").is_none());
    assert_eq!(created["assignees"].as_array().map(Vec::len), Some(1));
    assert_eq!(created["assignee"]["username"], "ben");
    let path = "/issues?scope=all&assignee_username[]=ann&assignee_username[]=ben";
    let rejected = root.get(path).await.expect(400).json();
    assert_eq!(rejected["message"], "assignee_username allows one value, but found 2: ann, ben");
    assert_eq!(titles(&root, "/issues?weight=Nonsense").await, ["t"], "an unknown parameter is ignored");
}

async fn assignees_who_cannot_see_issues_are_dropped(server: TestServer) {
    let root = server.root();
    let id = public_project(&server, "inward").await;
    let (non_member, member) = (server.create_user("stranger").await, server.create_user("member").await);
    server.insert_member(id, member.id, AccessLevel::Guest).await;
    let both = json!([non_member.id, member.id]);
    let assigned = async |body: serde_json::Value| {
        let iid = open(&root, id, body).await;
        let issue = root.get(&format!("/projects/{id}/issues/{iid}")).await.expect(200).json();
        issue["assignees"].as_array().expect("a list").iter().map(|user| user["username"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(assigned(json!({"title": "t", "assignee_ids": both})).await, [json!("stranger"), json!("member")]);
    root.put(&format!("/projects/{id}"), json!({"issues_access_level": "private"})).await.expect(200);
    assert_eq!(assigned(json!({"title": "t", "assignee_ids": both})).await, [json!("member")]);
}

async fn members_through_hidden_groups_stay_assigned(server: TestServer) {
    let root = server.root();
    let id = project(&root, "closed", json!({"visibility": "private"})).await;
    let to = project(&root, "other", json!({"visibility": "private"})).await;
    let hidden = group(&root, "hidden", json!({"visibility": "private"})).await;
    let (insider, maintainer) = (server.create_user("insider").await, server.create_user("maintainer").await);
    join(&root, &format!("/groups/{hidden}"), insider.id, 30).await;
    for project in [id, to] {
        join(&root, &format!("/projects/{project}"), maintainer.id, 40).await;
        let share = json!({"group_id": hidden, "group_access": 30});
        root.post(&format!("/projects/{project}/share"), share).await.expect(201);
    }
    maintainer.client.get(&format!("/groups/{hidden}")).await.expect(404);
    let iid = open(&root, id, json!({"title": "t", "assignee_ids": [insider.id]})).await;
    let path = format!("/projects/{id}/issues/{iid}");
    let body = json!({"assignee_ids": [insider.id]});
    let updated = maintainer.client.put(&path, body).await.expect(200).json();
    assert_eq!(updated["assignee"]["username"], "insider");
    let body = json!({"to_project_id": to});
    let moved = maintainer.client.post(&format!("{path}/move"), body).await.expect(201).json();
    assert_eq!(moved["assignee"]["username"], "insider");
}

fn free_plan_allows_one_assignee_and_no_weight_options() -> ConfigOptions {
    ConfigOptions { plan: Some("free".parse().expect("a plan")), ..ConfigOptions::default() }
}

async fn administrators_read_issues_by_id(server: TestServer) {
    let root = server.root();
    let ada = server.create_user("ada").await;
    let work = project(&ada.client, "work", json!({})).await;
    let body = json!({ "title": "Secret", "confidential": true, "labels": "bug" });
    let created = ada.client.post(&format!("/projects/{work}/issues"), body).await.expect(201).json();
    let path = format!("/issues/{}", created["id"]);
    let read = root.get(&path).await.expect(200).json();
    let expected = root.get(&format!("/projects/{work}/issues/1")).await.expect(200).json();
    assert_eq!((&read, &read["title"]), (&expected, &json!("Secret")));
    ada.client.get(&path).await.expect(403);
    ada.client.get("/issues/999999").await.expect(403);
    server.anonymous().get(&path).await.expect(401);
    assert_eq!(root.get("/issues/999999").await.expect(404).message(), "404 Issue Not Found");
    root.get("/issues/x").await.expect(400);
    ada.client.delete(&format!("/projects/{work}")).await.expect(202);
    root.get(&path).await.expect(404);
}

on_every_database![
    administrators_read_issues_by_id,
    confidential_issue_is_hidden_from_guests_and_non_members,
    issue_write_permissions_depend_on_role,
    issues_of_private_projects_and_disabled_features_are_hidden,
    archived_project_issues_are_read_only,
    free_plan_allows_one_assignee_and_no_weight with free_plan_allows_one_assignee_and_no_weight_options(),
    assignees_who_cannot_see_issues_are_dropped,
    members_through_hidden_groups_stay_assigned,
];
