//! Statistics of the instance, of projects and of issues.

mod fetches;
mod issues;

use serde_json::{Value, json};
use storage::entities::Visibility;

use crate::review::merge_requests::propose;
use crate::support::code::Project;
use crate::support::spaces::{group, project};
use crate::support::{TestServer, on_every_database};

async fn application_statistics_count_all_resources(server: TestServer) {
    let root = server.root();
    let read = async || root.get("/application/statistics").await.expect(200).json();
    let before = read().await;
    let grown = |names: &[&str], now: &Value| {
        for (name, value) in now.as_object().expect("an object") {
            let number = |value: &Value| {
                let digits = value.as_str().expect("a text");
                assert!(digits.bytes().all(|byte| byte.is_ascii_digit()), "{digits}");
                digits.parse::<u64>().expect("a number")
            };
            let expected = number(&before[name]) + u64::from(names.contains(&name.as_str()));
            assert_eq!(number(value), expected, "{name}");
        }
    };
    grown(&[], &before);
    assert_eq!(before.as_object().expect("an object").len(), 11);
    let ada = server.create_user("ada").await;
    grown(&["users", "active_users"], &read().await);
    group(&root, "g", json!({})).await;
    let source = Project::with_commits(&server, "p", Visibility::Public).await;
    grown(&["users", "active_users", "groups", "projects"], &read().await);
    let path = |rest: &str| format!("/projects/{}{rest}", source.id);
    root.post(&path("/issues"), json!({"title": "i"})).await.expect(201);
    root.post(&path("/issues/1/notes"), json!({"body": "n"})).await.expect(201);
    root.post(&path("/milestones"), json!({"title": "m"})).await.expect(201);
    propose(&root, source.id, "feature/x", "main", json!({})).await;
    let snippet = json!({"title": "s", "file_name": "f", "content": "c", "visibility": "private"});
    root.post("/snippets", snippet).await.expect(201);
    let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAbRbNb4zqO76Z/cyQy9jE8ZrbxeghN+Lt2/sPrzZ8mn";
    root.post("/user/keys", json!({"title": "k", "key": key})).await.expect(201);
    let mut names = vec![
        "users",
        "active_users",
        "groups",
        "projects",
        "issues",
        "notes",
        "milestones",
        "merge_requests",
        "snippets",
    ];
    names.push("ssh_keys");
    grown(&names, &read().await);
    root.post(&format!("/users/{}/block", ada.id), json!({})).await.expect(201);
    names.retain(|name| *name != "active_users");
    grown(&names, &read().await);
    root.delete(&format!("/projects/{}", source.id)).await.expect(202);
    // The project is hidden at once, and its contents are deleted by a job.
    names.retain(|name| *name != "projects");
    grown(&names, &read().await);
    server.finish_jobs().await;
    names.retain(|name| !["issues", "notes", "milestones", "merge_requests"].contains(name));
    grown(&names, &read().await);
}

async fn application_statistics_count_forks_and_no_bots(server: TestServer) {
    let root = server.root();
    let source = Project::with_commits(&server, "p", Visibility::Public).await;
    let before = root.get("/application/statistics").await.expect(200).json();
    let ada = server.create_user("ada").await;
    ada.client.post(&format!("/projects/{}/fork", source.id), json!({})).await.expect(201);
    let token = json!({"name": "bot", "scopes": ["api"], "expires_at": "2099-01-01"});
    root.post(&format!("/projects/{}/access_tokens", source.id), token).await.expect(201);
    let after = root.get("/application/statistics").await.expect(200).json();
    assert_eq!((&before["forks"], &after["forks"]), (&json!("0"), &json!("1")));
    assert_eq!((&before["users"], &after["users"]), (&json!("1"), &json!("2")));
    let statements = server.statements();
    root.get("/application/statistics").await.expect(200);
    assert!(server.statements() - statements <= 2, "{:?}", server.statement_texts(statements));
}

async fn application_statistics_require_an_administrator(server: TestServer) {
    let user = server.create_user("ada").await;
    let path = "/application/statistics";
    user.client.get(path).await.expect(403);
    server.anonymous().get(path).await.expect(401);
    server.with_token("nonsense").get(path).await.expect(401);
    let owned = project(&user.client, "own", json!({})).await;
    assert_ne!(owned, 0);
    user.client.get(path).await.expect(403);
}

on_every_database![
    application_statistics_count_all_resources,
    application_statistics_count_forks_and_no_bots,
    application_statistics_require_an_administrator,
];
