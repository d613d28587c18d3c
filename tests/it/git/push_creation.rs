//! Projects that a first push creates.

use serde_json::json;
use storage::entities::Visibility;

use crate::support::git::{Work, address};
use crate::support::spaces::{group, id, join};
use crate::support::{TestServer, on_every_database};

async fn first_push_creates_private_project(server: TestServer) {
    let ada = server.create_user("ada").await;
    let work = Work::new().await;
    let url = address(&server.base, "ada", &ada.token, "ada/new-one");
    work.git(&["push", "--quiet", &url, "main"]).await;
    let created = ada.client.get("/projects/ada%2Fnew-one").await.expect(200).json();
    for (field, value) in [
        ("name", json!("new-one")),
        ("visibility", json!("private")),
        ("default_branch", json!("main")),
        ("creator_id", json!(ada.id)),
    ] {
        assert_eq!(created[field], value, "{field}");
    }
    assert_eq!(created["permissions"]["project_access"]["access_level"], 40);
    let events = ada.client.get(&format!("/projects/{}/events", id(&created))).await.expect(200);
    assert!(events.pluck("action_name").contains(&json!("created")));
    // The second push goes to the same project.
    work.commit("b", "2").await;
    work.git(&["push", "--quiet", &url, "main"]).await;
    assert_eq!(ada.client.get("/projects?owned=true").await.expect(200).json().as_array().map(Vec::len), Some(1));
    // The first branch becomes the default branch.
    let other = address(&server.base, "ada", &ada.token, "ada/trunk");
    work.git(&["push", "--quiet", &other, "main:trunk"]).await;
    assert_eq!(ada.client.get("/projects/ada%2Ftrunk").await.expect(200).json()["default_branch"], "trunk");
}

async fn first_push_requires_permission_to_create_projects(server: TestServer) {
    let root = server.root();
    let team = group(&root, "team", json!({"visibility": "public"})).await;
    let (dev, rep) = (server.create_user("dev").await, server.create_user("rep").await);
    join(&root, &format!("/groups/{team}"), dev.id, 30).await;
    join(&root, &format!("/groups/{team}"), rep.id, 20).await;
    server.insert_project_at("team/hidden", Visibility::Private).await;
    let work = Work::new().await;
    let push = async |name: &str, token: &str, path: &str| {
        work.run(&["push", &address(&server.base, name, token, path), "main"]).await
    };
    let missing = "The project you were looking for could not be found";
    for path in ["team/by-rep", "dev/by-rep", "nowhere/x", "team/-x", "team/x.git.git", "team"] {
        let output = push("rep", &rep.token, path).await;
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{path}");
        assert!(path == "team" || text.contains(missing), "{path}: {text}");
    }
    assert!(push("dev", &dev.token, "team/by-dev").await.status.success());
    let made = dev.client.get("/projects/team%2Fby-dev").await.expect(200).json();
    assert_eq!(made["visibility"], "private");
    // The limit of personal projects applies.
    root.put(&format!("/users/{}", dev.id), json!({"projects_limit": 0})).await.expect(200);
    let output = push("dev", &dev.token, "dev/more").await;
    assert!(String::from_utf8_lossy(&output.stderr).contains("(setting: projects_limit)"));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("Your project limit is 0 projects!"), "{text}");
    // Fetches, anonymous pushes and tokens without the scope create nothing.
    let url = address(&server.base, "dev", &dev.token, "team/fetched");
    work.fails(&["fetch", &url]).await;
    let read_only = server.create_token(dev.id, &["read_repository"]).await;
    assert!(!push("dev", &read_only, "team/scope").await.status.success());
    let paths = root.get(&format!("/groups/{team}/projects?order_by=path&sort=asc")).await.expect(200).pluck("path");
    assert_eq!(paths, ["by-dev", "hidden"]);
}

on_every_database![first_push_creates_private_project, first_push_requires_permission_to_create_projects,];
