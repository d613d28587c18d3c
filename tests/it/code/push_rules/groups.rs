//! Push rules of groups, which new projects copy.

use serde_json::{Value, json};

use super::push_rule;
use crate::support::spaces::{group, join, project};
use crate::support::{Client, TestServer, on_every_database};

/// Returns the rule of a project, or null.
async fn rule_of(client: &Client, project: i64) -> Value {
    client.get(&format!("/projects/{project}/push_rule")).await.expect(200).json()
}

async fn rule_of_group_lifecycle(server: TestServer) {
    let root = server.root();
    let team = group(&root, "team", json!({})).await;
    let (path, rule) = (format!("/groups/{team}"), format!("/groups/{team}/push_rule"));
    for answer in [root.get(&rule).await, root.put(&rule, json!({})).await, root.delete(&rule).await] {
        assert_eq!(answer.expect(404).message(), "404 Push rule Not Found");
    }
    root.post(&rule, json!({})).await.expect(400);
    let created = push_rule(&root, &path, json!({"branch_name_regex": "^a", "max_file_size": 3})).await;
    assert!(created.get("project_id").is_none());
    assert_eq!((&created["branch_name_regex"], &created["max_file_size"]), (&json!("^a"), &json!(3)));
    assert_eq!(root.get(&rule).await.expect(200).json(), created);
    let exists = root.post(&rule, json!({"max_file_size": 1})).await.expect(422);
    assert_eq!(exists.message(), "Group push rule exists, try updating");
    let changed = root.put(&rule, json!({"max_file_size": 4})).await.expect(200).json();
    assert_eq!((&changed["branch_name_regex"], &changed["max_file_size"]), (&json!("^a"), &json!(4)));
    root.put(&rule, json!({"max_file_size": -1})).await.expect(400);
    root.put(&rule, json!({"file_name_regex": "y".repeat(2 << 20)})).await.expect(413);
    root.post(&rule, json!({"file_name_regex": "y".repeat(2 << 20)})).await.expect(413);
    let old = server.root().header("If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:00 GMT");
    old.delete(&rule).await.expect(412);
    root.delete(&rule).await.expect(204);
    root.get(&rule).await.expect(404);
}

async fn rule_of_group_requires_owner(server: TestServer) {
    let root = server.root();
    let team = group(&root, "team", json!({"visibility": "private"})).await;
    let rule = format!("/groups/{team}/push_rule");
    for (name, level, allowed) in [("guest", 10, false), ("dev", 30, false), ("max", 40, false), ("own", 50, true)] {
        let user = server.create_user(name).await;
        join(&root, &format!("/groups/{team}"), user.id, level).await;
        let status = |status| if allowed { status } else { 403 };
        user.client.post(&rule, json!({"max_file_size": 1})).await.expect(status(201));
        user.client.get(&rule).await.expect(status(200));
        user.client.put(&rule, json!({"max_file_size": 2})).await.expect(status(200));
        user.client.delete(&rule).await.expect(status(204));
    }
    server.create_user("stranger").await.client.get(&rule).await.expect(404);
    server.anonymous().get(&rule).await.expect(401);
}

async fn new_projects_copy_the_rule_of_the_nearest_group(server: TestServer) {
    let root = server.root();
    let top = group(&root, "top", json!({})).await;
    let sub = group(&root, "sub", json!({"parent_id": top})).await;
    let deep = group(&root, "deep", json!({"parent_id": sub})).await;
    let before = project(&root, "before", json!({"namespace_id": deep})).await;
    push_rule(&root, &format!("/groups/{top}"), json!({"branch_name_regex": "^top", "member_check": true})).await;
    assert_eq!(rule_of(&root, before).await, json!(null));
    let of_top = project(&root, "p1", json!({"namespace_id": deep})).await;
    push_rule(&root, &format!("/groups/{sub}"), json!({"branch_name_regex": "^sub"})).await;
    let of_sub = project(&root, "p2", json!({"namespace_id": deep})).await;
    let other = project(&root, "p3", json!({"namespace_id": top})).await;
    let personal = project(&root, "p4", json!({})).await;
    for (id, expected, member_check) in
        [(of_top, json!("^top"), true), (of_sub, json!("^sub"), false), (other, json!("^top"), true)]
    {
        let rule = rule_of(&root, id).await;
        assert_eq!((&rule["branch_name_regex"], &rule["member_check"]), (&expected, &json!(member_check)));
        assert_eq!(rule["project_id"], id);
    }
    assert_eq!(rule_of(&root, personal).await, json!(null));
    // A fork is a new project too.
    let body = json!({"path": "f", "name": "f", "namespace_id": sub});
    let forked = root.post(&format!("/projects/{personal}/fork"), body).await.expect(201).json();
    let forked = forked["id"].as_i64().expect("an ID");
    server.finish_jobs().await;
    assert_eq!(rule_of(&root, forked).await["branch_name_regex"], "^sub");
    // Later changes of the group do not affect projects, and the rule of the group refuses nothing itself.
    root.delete(&format!("/groups/{top}/push_rule")).await.expect(204);
    root.put(&format!("/groups/{sub}/push_rule"), json!({"branch_name_regex": "^x"})).await.expect(200);
    assert_eq!(rule_of(&root, other).await["branch_name_regex"], "^top");
    assert_eq!(rule_of(&root, of_sub).await["branch_name_regex"], "^sub");
    let filled = project(&root, "p5", json!({"namespace_id": sub, "initialize_with_readme": true})).await;
    let url = format!("/projects/{filled}/repository/branches");
    root.post(&url, json!({"branch": "y", "ref": "main"})).await.expect(400);
    root.delete(&format!("/projects/{filled}/push_rule")).await.expect(204);
    root.post(&url, json!({"branch": "y", "ref": "main"})).await.expect(201);
}

on_every_database![
    rule_of_group_lifecycle,
    rule_of_group_requires_owner,
    new_projects_copy_the_rule_of_the_nearest_group,
];
