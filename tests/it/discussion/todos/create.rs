//! Creation of to-do items.

use holdfast::config::ConfigOptions;
use serde_json::json;
use storage::entities::{AccessLevel, Visibility};

use super::{pairs, pending, public_project, write};
use crate::planning::issues::open;
use crate::review::merge_requests::propose;
use crate::support::code::Project;
use crate::support::spaces::{group, join, project};
use crate::support::{TestServer, on_every_database};

fn ultimate_plan() -> ConfigOptions {
    ConfigOptions { plan: Some("ultimate".to_owned()), ..ConfigOptions::default() }
}

async fn assignment_creates_todo_for_new_assignees(server: TestServer) {
    let (root, ann, bob) = (server.root(), server.create_user("ann").await, server.create_user("bob").await);
    let project = Project::with_commits(&server, "p", Visibility::Public).await;
    let id = project.id;
    let iid = open(&root, id, json!({"title": "first", "assignee_ids": [ann.id]})).await;
    propose(&root, id, "feature/x", "main", json!({"assignee_ids": [ann.id]})).await;
    assert_eq!(pending(&ann.client).await, pairs([("assigned", "feature/x"), ("assigned", "first")]));
    // Existing assignees do not get another item.
    let both = json!({"assignee_ids": [ann.id, bob.id]});
    root.put(&format!("/projects/{id}/issues/{iid}"), both).await.expect(200);
    assert_eq!(pending(&ann.client).await.len(), 2);
    assert_eq!(pending(&bob.client).await, pairs([("assigned", "first")]));
    assert_eq!(pending(&root).await, []);
}

async fn mentions_in_all_texts_create_todos(server: TestServer) {
    let (root, ann) = (server.root(), server.create_user("ann").await);
    let project = Project::with_commits(&server, "p", Visibility::Public).await;
    let (id, of) = (project.id, group(&root, "planned", json!({"visibility": "public"})).await);
    let iid = open(&root, id, json!({"title": "issue for @ann"})).await;
    propose(&root, id, "feature/x", "main", json!({"description": "@ann: look"})).await;
    let epic = crate::planning::epics::epic(&root, of, "epic", json!({"description": "by @Ann."})).await;
    let all = pairs([("mentioned", "epic"), ("directly_addressed", "feature/x"), ("mentioned", "issue for @ann")]);
    assert_eq!(pending(&ann.client).await, all);
    ann.client.post("/todos/mark_as_done", json!({})).await.expect(204);
    write(&root, &format!("/projects/{id}/issues/{iid}"), "is it so, @ann?").await;
    write(&root, &format!("/projects/{id}/merge_requests/1"), "@ann, is it?").await;
    write(&root, &format!("/groups/{of}/epics/{}", epic.1), "@ann").await;
    let all =
        pairs([("directly_addressed", "epic"), ("directly_addressed", "feature/x"), ("mentioned", "issue for @ann")]);
    assert_eq!(pending(&ann.client).await, all);
    let shown = ann.client.get("/todos").await.expect(200).json();
    let noted = &shown[2];
    assert_eq!((&noted["body"], &noted["author"]["username"]), (&json!("is it so, @ann?"), &json!("root")));
    assert!(noted["target_url"].as_str().expect("an address").contains(&format!("/issues/{iid}#note_")));
    assert_eq!((&noted["project"]["id"], &noted["group"]), (&json!(id), &json!(null)));
    assert_eq!(noted["project"]["name_with_namespace"], "Administrator / p");
    assert_eq!((&shown[0]["project"], &shown[0]["group"]["full_path"]), (&json!(null), &json!("planned")));
    assert_eq!((&shown[0]["target_type"], &shown[1]["target_type"]), (&json!("Epic"), &json!("MergeRequest")));
    assert_eq!((&shown[1]["target"]["iid"], &shown[1]["target"]["labels"]), (&json!(1), &json!([])));
}

async fn edited_text_creates_todos_only_for_new_mentions(server: TestServer) {
    let (root, ann, bob) = (server.root(), server.create_user("ann").await, server.create_user("bob").await);
    let id = public_project(&server, "p").await;
    let iid = open(&root, id, json!({"title": "t", "description": "for @ann"})).await;
    ann.client.post("/todos/mark_as_done", json!({})).await.expect(204);
    let issue = format!("/projects/{id}/issues/{iid}");
    root.put(&issue, json!({"description": "for @ann and @bob"})).await.expect(200);
    assert_eq!((pending(&ann.client).await, pending(&bob.client).await), (vec![], pairs([("mentioned", "t")])));
    bob.client.post("/todos/mark_as_done", json!({})).await.expect(204);
    write(&root, &issue, "@ann").await;
    let note = root.get(&format!("{issue}/notes")).await.expect(200).json()[0]["id"].clone();
    ann.client.post("/todos/mark_as_done", json!({})).await.expect(204);
    root.put(&format!("{issue}/notes/{note}"), json!({"body": "@ann @bob"})).await.expect(200);
    assert_eq!((pending(&ann.client).await.len(), pending(&bob.client).await.len()), (0, 1));
}

async fn mentions_in_code_quotes_and_unknown_names_are_ignored(server: TestServer) {
    let (root, ann) = (server.root(), server.create_user("ann").await);
    let id = public_project(&server, "p").await;
    let text = "`@ann`\n```\n@ann\n```\n> @ann\nmail@ann.example @missing-user @annette";
    open(&root, id, json!({"title": "t", "description": text})).await;
    assert_eq!(pending(&ann.client).await, []);
}

async fn group_and_all_mentions_create_todos_for_members(server: TestServer) {
    let root = server.root();
    let (ann, bob, cid) =
        (server.create_user("ann").await, server.create_user("bob").await, server.create_user("cid").await);
    let id = public_project(&server, "p").await;
    let team = group(&root, "team", json!({})).await;
    join(&root, &format!("/groups/{team}"), ann.id, 30).await;
    server.insert_member(id, bob.id, AccessLevel::Guest).await;
    open(&root, id, json!({"title": "team", "description": "@Team"})).await;
    open(&root, id, json!({"title": "all", "description": "and @all"})).await;
    assert_eq!(pending(&ann.client).await, pairs([("directly_addressed", "team")]));
    assert_eq!(pending(&bob.client).await, pairs([("mentioned", "all")]));
    assert_eq!(pending(&cid.client).await, []);
    // A mention of a group that the author cannot see is ignored.
    open(&cid.client, id, json!({"title": "more", "description": "@team"})).await;
    assert_eq!(pending(&ann.client).await.len(), 1);
}

async fn mentions_in_epics_create_todos_for_members_of_projects(server: TestServer) {
    let root = server.root();
    let (insider, outsider) = (server.create_user("insider").await, server.create_user("outsider").await);
    let of = group(&root, "closed", json!({"visibility": "private"})).await;
    let inside = project(&root, "inside", json!({"visibility": "private", "namespace_id": of})).await;
    join(&root, &format!("/projects/{inside}"), insider.id, 30).await;
    let text = json!({"description": "for @insider and @outsider"});
    let (iid, _) = crate::planning::epics::epic(&root, of, "epic", text).await;
    insider.client.get(&format!("/groups/{of}/epics/{iid}")).await.expect(200);
    assert_eq!(pending(&insider.client).await, pairs([("mentioned", "epic")]));
    assert_eq!(pending(&outsider.client).await, []);
    // Confidential epics are visible to Reporters of the group.
    let text = json!({"description": "for @insider and @outsider", "confidential": true});
    crate::planning::epics::epic(&root, of, "secret", text).await;
    assert_eq!(pending(&insider.client).await.len(), 1);
}

async fn mentions_create_no_todo_without_read_access(server: TestServer) {
    let root = server.root();
    let (guest, non_member, author) =
        (server.create_user("guest").await, server.create_user("stranger").await, server.create_user("author").await);
    let id = public_project(&server, "p").await;
    server.insert_member(id, guest.id, AccessLevel::Guest).await;
    let hidden = project(&root, "hidden", json!({})).await;
    open(&root, hidden, json!({"title": "private", "description": "@guest @stranger"})).await;
    let text = json!({"title": "confidential", "description": "@guest @stranger @author", "confidential": true});
    open(&author.client, id, text).await;
    let iid = open(&root, id, json!({"title": "open"})).await;
    let confidential_note = json!({"body": "@guest, secret", "confidential": true});
    root.post(&format!("/projects/{id}/issues/{iid}/notes"), confidential_note).await.expect(201);
    assert_eq!((pending(&guest.client).await, pending(&non_member.client).await), (vec![], vec![]));
    assert_eq!(pending(&author.client).await, pairs([("directly_addressed", "confidential")]));
    // Access granted later does not create items.
    server.insert_member(hidden, guest.id, AccessLevel::Developer).await;
    assert_eq!(pending(&guest.client).await, []);
}

async fn target_has_at_most_one_pending_todo_per_user(server: TestServer) {
    let (root, ann) = (server.root(), server.create_user("ann").await);
    let id = public_project(&server, "p").await;
    let issue = format!("/projects/{id}/issues/{}", open(&root, id, json!({"title": "t"})).await);
    for _ in 0..2 {
        write(&root, &issue, "@ann").await;
    }
    root.put(&issue, json!({"assignee_ids": [ann.id]})).await.expect(200);
    assert_eq!(pending(&ann.client).await, pairs([("directly_addressed", "t")]));
}

async fn create_todo_marks_target_for_caller(server: TestServer) {
    let ann = server.create_user("ann").await;
    let project = Project::with_commits(&server, "p", Visibility::Public).await;
    let iid = open(&server.root(), project.id, json!({"title": "t"})).await;
    propose(&server.root(), project.id, "feature/x", "main", json!({})).await;
    for (path, kind) in [(format!("issues/{iid}"), "Issue"), ("merge_requests/1".to_owned(), "MergeRequest")] {
        let path = format!("/projects/{}/{path}/todo", project.id);
        let created = ann.client.post(&path, json!({})).await.expect(201).json();
        assert_eq!(
            (&created["action_name"], &created["state"], &created["target_type"]),
            (&json!("marked"), &json!("pending"), &json!(kind))
        );
        assert_eq!(created["body"], created["target"]["title"]);
        assert!(ann.client.post(&path, json!({})).await.expect(304).body.is_empty());
        server.anonymous().post(&path, json!({})).await.expect(401);
    }
    ann.client.post(&format!("/projects/{}/issues/99/todo", project.id), json!({})).await.expect(404);
    let confidential = open(&server.root(), project.id, json!({"title": "t", "confidential": true})).await;
    ann.client.post(&format!("/projects/{}/issues/{confidential}/todo", project.id), json!({})).await.expect(404);
    assert_eq!(pending(&ann.client).await, pairs([("marked", "feature/x"), ("marked", "t")]));
    let settings = json!({"merge_requests_access_level": "private"});
    server.root().put(&format!("/projects/{}", project.id), settings).await.expect(200);
    for iid in [1, 99] {
        let path = format!("/projects/{}/merge_requests/{iid}", project.id);
        ann.client.post(&format!("{path}/todo"), json!({})).await.expect(403);
        ann.client.get(&path).await.expect(404);
    }
}

async fn merge_conflict_creates_todo_for_author(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "p", Visibility::Public).await;
    let id = project.id;
    let user = server.create_user("ann").await;
    server.insert_member(id, user.id, AccessLevel::Developer).await;
    let iid = propose(&user.client, id, "feature/x", "main", json!({})).await;
    let request = format!("/projects/{id}/merge_requests/{iid}");
    let status = async || root.get(&request).await.expect(200).json()["merge_status"].clone();
    assert_eq!(status().await, "can_be_merged");
    assert_eq!(pending(&user.client).await, pairs([]));
    let commit_file = async |branch: &str, action: &str, content: &str| {
        let commit = json!({
            "branch": branch, "commit_message": "Differ",
            "actions": [{"action": action, "file_path": "x.txt", "content": content}],
        });
        root.post(&format!("/projects/{id}/repository/commits"), commit).await.expect(201);
    };
    commit_file("main", "create", "other").await;
    assert_eq!(status().await, "cannot_be_merged");
    assert_eq!(pending(&user.client).await, pairs([("unmergeable", "feature/x")]));
    assert_eq!(pending(&root).await, pairs([]));
    // A repeated check creates no item, but a conflict with a later commit does.
    user.client.post("/todos/mark_as_done", json!({})).await.expect(204);
    assert_eq!(status().await, "cannot_be_merged");
    assert_eq!(pending(&user.client).await, pairs([]));
    commit_file("main", "update", "still other").await;
    assert_eq!(status().await, "cannot_be_merged");
    assert_eq!(pending(&user.client).await, pairs([("unmergeable", "feature/x")]));
    user.client.post("/todos/mark_as_done", json!({})).await.expect(204);
    // A branch that is already merged into the target has no conflict.
    let iid = propose(&user.client, id, "merged", "main", json!({})).await;
    let shown = root.get(&format!("/projects/{id}/merge_requests/{iid}")).await.expect(200).json();
    assert_eq!(shown["merge_status"], "cannot_be_merged");
    assert_eq!(pending(&user.client).await, pairs([]));
}

on_every_database![
    assignment_creates_todo_for_new_assignees with ultimate_plan(),
    mentions_in_all_texts_create_todos with ultimate_plan(),
    edited_text_creates_todos_only_for_new_mentions,
    mentions_in_code_quotes_and_unknown_names_are_ignored,
    group_and_all_mentions_create_todos_for_members,
    mentions_in_epics_create_todos_for_members_of_projects with ultimate_plan(),
    mentions_create_no_todo_without_read_access,
    target_has_at_most_one_pending_todo_per_user,
    create_todo_marks_target_for_caller,
    merge_conflict_creates_todo_for_author,
];
