//! Public deploy keys, which administrators create and all projects can enable.

use serde_json::json;

use super::{KEY, RSA, stored_rows};
use crate::support::spaces::{id, join, project};
use crate::support::{TestServer, on_every_database};

async fn public_key_belongs_to_no_project_until_it_is_enabled(server: TestServer) {
    let root = server.root();
    let ann = server.create_user("ann").await;
    let body = json!({ "title": "robots", "key": format!("{KEY} robot") });
    let created = root.post("/deploy_keys", body.clone()).await.expect(201).json();
    let expected = json!({
        "id": created["id"], "title": "robots", "key": format!("{KEY} robot"), "created_at": created["created_at"],
    });
    assert_eq!(created, expected);
    assert_eq!(root.get("/deploy_keys").await.expect(200).json(), json!([expected]));
    // A Maintainer without another project that has the key enables it, also by sending the key.
    let projects = [project(&root, "one", json!({})).await, project(&root, "two", json!({})).await];
    for work in projects {
        join(&root, &format!("/projects/{work}"), ann.id, 40).await;
        assert_eq!(ann.client.get(&format!("/projects/{work}/deploy_keys")).await.expect(200).json(), json!([]));
    }
    let enable = format!("/projects/{}/deploy_keys/{}/enable", projects[0], created["id"]);
    assert_eq!(ann.client.post(&enable, json!({})).await.expect(201).json(), expected);
    let all = format!("/projects/{}/deploy_keys", projects[1]);
    assert_eq!(ann.client.post(&all, body).await.expect(201).json()["id"], created["id"]);
    // It is kept without projects.
    for work in projects {
        ann.client.delete(&format!("/projects/{work}/deploy_keys/{}", created["id"])).await.expect(204);
    }
    assert_eq!(stored_rows(&server).await, [1, 0, 1]);
    ann.client.post(&enable, json!({})).await.expect(201);
    root.delete(&format!("/projects/{}", projects[0])).await.expect(202);
    server.finish_jobs().await;
    assert_eq!(stored_rows(&server).await, [1, 0, 1]);
}

async fn title_of_public_key_is_changed_only_by_administrators(server: TestServer) {
    let root = server.root();
    let ann = server.create_user("ann").await;
    let created = root.post("/deploy_keys", json!({ "title": "robots", "key": KEY })).await.expect(201).json();
    let work = format!("/projects/{}", project(&root, "work", json!({})).await);
    join(&root, &work, ann.id, 40).await;
    let one = format!("{work}/deploy_keys/{}", created["id"]);
    ann.client.post(&format!("{one}/enable"), json!({})).await.expect(201);
    let change = json!({ "title": "ours", "can_push": true });
    let changed = ann.client.put(&one, change.clone()).await.expect(200).json();
    assert_eq!((&changed["title"], &changed["can_push"]), (&json!("robots"), &json!(true)));
    ann.client.put(&one, json!({ "title": " " })).await.expect(400);
    assert_eq!(root.put(&one, change).await.expect(200).json()["title"], "ours");
}

async fn create_public_key_rejects_taken_and_invalid_keys(server: TestServer) {
    let root = server.root();
    let ann = server.create_user("ann").await;
    id(&root.post("/deploy_keys", json!({ "title": "robots", "key": KEY })).await.expect(201).json());
    ann.client.post("/user/keys", json!({ "title": "laptop", "key": RSA })).await.expect(201);
    let taken = json!({ "deploy_key.fingerprint": ["has already been taken"] });
    for key in [KEY.to_owned(), format!("{KEY} other"), RSA.to_owned()] {
        let refused = root.post("/deploy_keys", json!({ "title": "x", "key": key })).await.expect(400);
        assert_eq!(refused.json()["message"], taken, "{key}");
    }
    for body in [
        json!({ "title": "x", "key": "ssh-ed25519 AAAA" }),
        json!({ "title": " ", "key": RSA }),
        json!({ "title": "x" }),
        json!({ "key": KEY }),
    ] {
        root.post("/deploy_keys", body).await.expect(400);
    }
    ann.client.post("/deploy_keys", json!({ "title": "x", "key": "y" })).await.expect(403);
    server.anonymous().post("/deploy_keys", json!({ "title": "x", "key": "y" })).await.expect(401);
}

on_every_database![
    public_key_belongs_to_no_project_until_it_is_enabled,
    title_of_public_key_is_changed_only_by_administrators,
    create_public_key_rejects_taken_and_invalid_keys,
];
