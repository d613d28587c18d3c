//! Badges of projects and groups.

use serde_json::{Value, json};
use storage::entities::{AccessLevel, Visibility};

use crate::support::code::Project;
use crate::support::spaces::{group, id, join, project};
use crate::support::{Client, TestServer, on_every_database};

/// Creates a badge of `/projects/:id` or `/groups/:id` and returns its ID.
pub async fn badge(client: &Client, path: &str, name: &str) -> i64 {
    let body =
        json!({ "name": name, "link_url": "https://h.example.com/", "image_url": "https://h.example.com/x.svg" });
    id(&client.post(&format!("{path}/badges"), body).await.expect(201).json())
}

async fn project_and_group_badge_lifecycle(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    let team = group(&root, "team", json!({})).await;
    for (path, kind) in [(format!("/projects/{work}"), "project"), (format!("/groups/{team}"), "group")] {
        let all = format!("{path}/badges");
        let link = "http://h.example.com/%{project_path}?x=%{unknown}";
        let body = json!({ "name": "Tests", "link_url": link, "image_url": "https://h.example.com/x.svg" });
        let created = root.post(&all, body.clone()).await.expect(201).json();
        let rendered = match kind {
            "project" => "http://h.example.com/root/work?x=%{unknown}",
            _ => link,
        };
        assert_eq!(
            created,
            json!({
                "id": created["id"], "name": "Tests", "link_url": link, "image_url": "https://h.example.com/x.svg",
                "rendered_link_url": rendered, "rendered_image_url": "https://h.example.com/x.svg", "kind": kind,
            })
        );
        let one = format!("{all}/{}", created["id"]);
        assert_eq!(root.get(&one).await.expect(200).json(), created);
        let changed =
            root.put(&one, json!({ "name": null, "image_url": "https://h.example.com/y" })).await.expect(200).json();
        assert_eq!((&changed["name"], &changed["image_url"]), (&Value::Null, &json!("https://h.example.com/y")));
        assert_eq!(changed["link_url"], link);
        root.put(&one, json!({})).await.expect(400);
        badge(&root, &path, "Coverage").await;
        assert_eq!(root.get(&all).await.expect(200).pluck("name"), [Value::Null, json!("Coverage")]);
        assert_eq!(root.get(&format!("{all}?name=Coverage")).await.expect(200).pluck("name"), ["Coverage"]);
        let query = "link_url=https%3A%2F%2Fh%2F%25%7Bproject_id%7D&image_url=https%3A%2F%2Fh%2Fx";
        let seen = root.get(&format!("{all}/render?{query}")).await.expect(200).json();
        let filled = if kind == "project" { format!("https://h/{work}") } else { "https://h/%{project_id}".to_owned() };
        assert_eq!(
            seen,
            json!({
                "link_url": "https://h/%{project_id}", "image_url": "https://h/x",
                "rendered_link_url": filled, "rendered_image_url": "https://h/x",
            })
        );
        for bad in ["javascript:alert(1)", "ftp://h/x", "h/x", "https://h/ x", "https://h/\"x"] {
            let fault = json!({ "link_url": ["is blocked: Only allowed schemes are http, https"] });
            let rejected = root.post(&all, json!({ "link_url": bad, "image_url": "https://h/x" })).await.expect(400);
            assert_eq!(rejected.json()["message"], fault, "{bad}");
            root.put(&one, json!({ "image_url": bad })).await.expect(400);
        }
        root.get(&format!("{all}/render?link_url=x&image_url=https%3A%2F%2Fh%2Fx")).await.expect(400);
        root.get(&format!("{all}/render")).await.expect(400);
        let early = root.clone().header("If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:00 GMT");
        early.delete(&one).await.expect(412);
        root.delete(&one).await.expect(204);
        assert_eq!(root.get(&one).await.expect(404).message(), "404 Badge Not Found");
        root.delete(&one).await.expect(404);
        root.put(&one, json!({ "name": "x" })).await.expect(404);
    }
}

async fn project_lists_group_badges_but_cannot_change_them(server: TestServer) {
    let root = server.root();
    let top = group(&root, "top", json!({})).await;
    let low = group(&root, "low", json!({ "parent_id": top })).await;
    let work = project(&root, "work", json!({ "namespace_id": low })).await;
    let (top, low, work) = (format!("/groups/{top}"), format!("/groups/{low}"), format!("/projects/{work}"));
    let above = badge(&root, &top, "above").await;
    badge(&root, &low, "between").await;
    badge(&root, &work, "own").await;
    assert_eq!(root.get(&format!("{top}/badges")).await.expect(200).pluck("name"), ["above"]);
    assert_eq!(root.get(&format!("{low}/badges")).await.expect(200).pluck("name"), ["between"]);
    let shown = root.get(&format!("{work}/badges")).await.expect(200);
    assert_eq!(shown.pluck("name"), ["above", "between", "own"]);
    assert_eq!(shown.pluck("kind"), ["group", "group", "project"]);
    let one = format!("{work}/badges/{above}");
    root.get(&one).await.expect(200);
    root.put(&one, json!({ "name": "mine" })).await.expect(403);
    root.delete(&one).await.expect(403);
    root.get(&format!("{low}/badges/{above}")).await.expect(404);
}

async fn badge_writes_require_maintainer_or_group_owner(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({ "visibility": "public" })).await;
    let team = group(&root, "team", json!({ "visibility": "public" })).await;
    for (path, least) in [(format!("/projects/{work}"), 40), (format!("/groups/{team}"), 50)] {
        let (below, enough) =
            (server.create_user(&format!("below-{least}")).await, server.create_user(&format!("with-{least}")).await);
        join(&root, &path, below.id, least - 10).await;
        join(&root, &path, enough.id, least).await;
        let one = badge(&enough.client, &path, "x").await;
        let one = format!("{path}/badges/{one}");
        server.anonymous().get(&format!("{path}/badges")).await.expect(200);
        server.anonymous().get(&one).await.expect(200);
        let render = format!("{path}/badges/render?link_url=https%3A%2F%2Fh%2F&image_url=https%3A%2F%2Fh%2F");
        for (client, status) in [(&server.anonymous(), 401), (&below.client, 403)] {
            client.delete(&one).await.expect(status);
            client.put(&one, json!({ "name": "y" })).await.expect(status);
            client.get(&render).await.expect(status);
        }
    }
}

async fn badge_code_placeholders_require_code_access(server: TestServer) {
    let code = Project::with_commits(&server, "code", Visibility::Private).await;
    let (guest, reporter) =
        (code.member("guest", AccessLevel::Guest).await, code.member("reporter", AccessLevel::Reporter).await);
    let all = format!("/projects/{}/badges", code.id);
    let image = "https://h/%{default_branch}/%{commit_sha}/%{project_title}/%{project_name}";
    let body = json!({ "link_url": "https://h/", "image_url": image });
    server.root().post(&all, body).await.expect(201);
    let seen = reporter.get(&all).await.expect(200).pluck("rendered_image_url");
    assert_eq!(seen, [format!("https://h/main/{}/code/code", code.id("main"))]);
    let hidden = guest.get(&all).await.expect(200).pluck("rendered_image_url");
    assert_eq!(hidden, ["https://h/%{default_branch}/%{commit_sha}/code/code"]);
}

async fn create_badge_rejects_more_than_100_badges(server: TestServer) {
    let root = server.root();
    let work = format!("/projects/{}", project(&root, "work", json!({})).await);
    for number in 0..99 {
        badge(&root, &work, &number.to_string()).await;
    }
    let body = json!({ "link_url": "https://h/", "image_url": "https://h/" });
    let all = format!("{work}/badges");
    let last = (0..3).map(|_| root.post(&all, body.clone()));
    let mut statuses: Vec<u16> =
        futures_util::future::join_all(last).await.iter().map(|response| response.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 400, 400]);
}

on_every_database![
    project_and_group_badge_lifecycle,
    project_lists_group_badges_but_cannot_change_them,
    badge_writes_require_maintainer_or_group_owner,
    badge_code_placeholders_require_code_access,
    create_badge_rejects_more_than_100_badges,
];
