//! Deploy keys of projects.

mod invalid_input;
mod public_keys;

use domain::lifecycle::deletion;
use sea_orm::EntityTrait;
use serde_json::{Value, json};
use storage::entities::{deploy_keys, project_deploy_keys, taken_fingerprints};

use crate::support::spaces::{group, id, join, project};
use crate::support::{Client, TestServer, on_every_database};

const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ";
const RSA: &str = "ssh-rsa AAAAB3NzaC1yc2EAAAABJQAAAIEAiPWx6WM4lhHNedGfBpPJNPpZ7yKu+dnn1SJejgt4596k6YjzGGphH2TUxwKzxcKDKKezwkpfnxPkSMkuEspGRt/aZZ9wa++Oi7Qkr8prgHc4soW6NUlfDzpvZK2H5E7eQaSeP3SAwGmQKUFHCddNaP0L+hM7zhFNzjFvpaMgJw0=";

/// Returns a unique key. Any 32 bytes have the form of a public key.
fn key_of(number: u64) -> String {
    use base64::{Engine, engine::general_purpose::STANDARD};
    let mut bytes = [&[0, 0, 0, 11][..], b"ssh-ed25519", &[0, 0, 0, 32], &[7; 24]].concat();
    bytes.extend(number.to_be_bytes());
    format!("ssh-ed25519 {}", STANDARD.encode(bytes))
}

/// Adds a unique key to the project `/projects/:id` and returns its ID.
pub async fn deploy_key(client: &Client, base_path: &str, number: u64) -> i64 {
    let body = json!({ "title": format!("key-{number}"), "key": key_of(number) });
    id(&client.post(&format!("{base_path}/deploy_keys"), body).await.expect(201).json())
}

/// Returns the numbers of stored keys, projects of keys and fingerprints.
async fn stored_rows(server: &TestServer) -> [usize; 3] {
    let db = server.backend.database.read();
    [
        deploy_keys::Entity::find().all(db).await.expect("keys").len(),
        project_deploy_keys::Entity::find().all(db).await.expect("places").len(),
        taken_fingerprints::Entity::find().all(db).await.expect("fingerprints").len(),
    ]
}

fn message(answer: &crate::support::ApiResponse) -> Value {
    answer.json()["message"].clone()
}

async fn deploy_key_lifecycle(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    let all = format!("/projects/{work}/deploy_keys");
    assert_eq!(root.get(&all).await.expect(200).json(), json!([]));
    let body = json!({ "title": "deployer", "key": format!(" {KEY}\t deploy  bot\n"), "can_push": true });
    let created = root.post(&all, body).await.expect(201).json();
    assert_eq!(
        created,
        json!({
            "id": created["id"], "title": "deployer", "key": format!("{KEY} deploy bot"),
            "created_at": created["created_at"], "can_push": true,
        })
    );
    let one = format!("{all}/{}", created["id"]);
    assert_eq!(root.get(&one).await.expect(200).json(), created);
    let second = root.post(&all, json!({ "title": "reader", "key": RSA })).await.expect(201).json();
    assert_eq!(second["can_push"], false);
    assert_eq!(root.get(&all).await.expect(200).json(), json!([created, second]));
    assert_eq!(root.get(&format!("{all}?per_page=1&page=2")).await.expect(200).json(), json!([second]));
    let everywhere = root.get("/deploy_keys").await.expect(200).json();
    assert_eq!(
        everywhere[0],
        json!({
            "id": created["id"], "title": "deployer", "key": created["key"], "created_at": created["created_at"],
        })
    );
    assert_eq!(everywhere.as_array().expect("a list").len(), 2);
    let changed = root.put(&one, json!({ "title": "new" })).await.expect(200).json();
    assert_eq!((&changed["title"], &changed["can_push"]), (&json!("new"), &json!(true)));
    let changed = root.put(&one, json!({ "can_push": false })).await.expect(200).json();
    assert_eq!((&changed["title"], &changed["can_push"]), (&json!("new"), &json!(false)));
    assert_eq!(root.get(&one).await.expect(200).json(), changed);
    let nothing = root.put(&one, json!({})).await.expect(400);
    assert_eq!(nothing.message(), "title, can_push are missing, at least one parameter must be provided");
    let early = root.clone().header("If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:00 GMT");
    early.delete(&one).await.expect(412);
    root.delete(&one).await.expect(204);
    assert_eq!(root.delete(&one).await.expect(404).message(), "404 Deploy Key Not Found");
    assert_eq!(root.post(&format!("{one}/enable"), json!({})).await.expect(404).message(), "404 Deploy Key Not Found");
    assert_eq!(root.get(&one).await.expect(404).message(), "404 Not found");
    assert_eq!(root.put(&one, json!({ "title": "x" })).await.expect(404).message(), "404 Not found");
    assert_eq!(stored_rows(&server).await, [1, 1, 1]);
}

async fn create_deploy_key_rejects_invalid_key_and_title(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    let all = format!("/projects/{work}/deploy_keys");
    let garbage = json!({ "deploy_key.key": ["is invalid"], "deploy_key.fingerprint": ["cannot be generated"] });
    let two = format!("{KEY}\n{RSA}");
    for bad in ["x", "", "ssh-ed25519 AAAA", "-----BEGIN OPENSSH PRIVATE KEY-----", two.as_str()] {
        let rejected = root.post(&all, json!({ "title": "x", "key": bad })).await.expect(400);
        assert_eq!(message(&rejected), garbage, "{bad}");
    }
    let missing = root.post(&all, json!({})).await.expect(400);
    assert_eq!(missing.message(), "title is missing, key is missing");
    for title in ["", "  "] {
        let rejected = root.post(&all, json!({ "title": title, "key": KEY })).await.expect(400);
        assert_eq!(message(&rejected), json!({ "deploy_key.title": ["can't be blank"] }));
    }
    root.post(&all, json!({ "title": "x".repeat(256), "key": KEY })).await.expect(400);
    root.post(&all, json!({ "title": "x", "key": format!("{KEY} {}", "x".repeat(5000)) })).await.expect(400);
    assert_eq!(stored_rows(&server).await, [0, 0, 0]);
    let one = format!("{all}/{}", deploy_key(&root, &format!("/projects/{work}"), 1).await);
    root.put(&one, json!({ "title": " " })).await.expect(400);
    assert_eq!(root.get(&one).await.expect(200).json()["title"], "key-1");
}

async fn create_deploy_key_returns_existing_key_of_project(server: TestServer) {
    let root = server.root();
    let all = format!("/projects/{}/deploy_keys", project(&root, "work", json!({})).await);
    let created = root.post(&all, json!({ "title": "first", "key": KEY })).await.expect(201).json();
    let again = json!({ "title": "second", "key": format!("{KEY}\n"), "can_push": true });
    assert_eq!(root.post(&all, again).await.expect(201).json(), created);
    let enabled = root.post(&format!("{all}/{}/enable", created["id"]), json!({})).await.expect(201).json();
    assert_eq!(
        enabled,
        json!({
            "id": created["id"], "title": "first", "key": created["key"], "created_at": created["created_at"],
        })
    );
    let commented = root.post(&all, json!({ "title": "x", "key": format!("{KEY} other") })).await.expect(400);
    assert_eq!(message(&commented), json!({ "deploy_key.fingerprint": ["has already been taken"] }));
    assert_eq!(stored_rows(&server).await, [1, 1, 1]);
}

async fn enable_deploy_key_requires_access_to_other_project(server: TestServer) {
    let root = server.root();
    let team = group(&root, "team", json!({})).await;
    let first = format!("/projects/{}", project(&root, "first", json!({ "namespace_id": team })).await);
    let second = format!("/projects/{}", project(&root, "second", json!({})).await);
    let third = format!("/projects/{}", project(&root, "third", json!({})).await);
    let (insider, outsider) = (server.create_user("insider").await, server.create_user("outsider").await);
    // An inherited role counts.
    join(&root, &format!("/groups/{team}"), insider.id, 10).await;
    for (base_path, user) in [(&second, &insider), (&third, &insider), (&second, &outsider)] {
        join(&root, base_path, user.id, 40).await;
    }
    let (insider, outsider) = (insider.client, outsider.client);
    let body = json!({ "title": "shared", "key": KEY, "can_push": true });
    let created = root.post(&format!("{first}/deploy_keys"), body).await.expect(201).json();
    let enable = format!("{second}/deploy_keys/{}/enable", created["id"]);
    let unknown = format!("{second}/deploy_keys/4711/enable");
    let (hidden, absent) = (outsider.post(&enable, json!({})).await, outsider.post(&unknown, json!({})).await);
    assert_eq!((hidden.status, &hidden.body), (404, &absent.body));
    let rejected =
        outsider.post(&format!("{second}/deploy_keys"), json!({ "title": "x", "key": KEY })).await.expect(400);
    assert_eq!(message(&rejected), json!({ "deploy_key.fingerprint": ["has already been taken"] }));
    insider.post(&enable, json!({})).await.expect(201);
    let second_has = insider.get(&format!("{second}/deploy_keys")).await.expect(200).json();
    assert_eq!((&second_has[0]["title"], &second_has[0]["can_push"]), (&json!("shared"), &json!(false)));
    let joined = json!({ "title": "ignored", "key": KEY, "can_push": true });
    let joined = insider.post(&format!("{third}/deploy_keys"), joined).await.expect(201).json();
    assert_eq!(
        (&joined["id"], &joined["title"], &joined["can_push"]),
        (&created["id"], &json!("shared"), &json!(true))
    );
    // `can_push` is set per project, the title for all projects.
    insider
        .put(&format!("{third}/deploy_keys/{}", created["id"]), json!({ "title": "ours", "can_push": false }))
        .await
        .expect(200);
    let first_has = root.get(&format!("{first}/deploy_keys/{}", created["id"])).await.expect(200).json();
    assert_eq!((&first_has["title"], &first_has["can_push"]), (&json!("ours"), &json!(true)));
    assert_eq!(root.get("/deploy_keys").await.expect(200).pluck("title"), ["ours"]);
    // The outsider sees the key in the second project.
    outsider.get(&format!("{second}/deploy_keys/{}", created["id"])).await.expect(200);
    assert_eq!(stored_rows(&server).await, [1, 3, 1]);
    for (base_path, left) in [(&first, [1, 2, 1]), (&second, [1, 1, 1]), (&third, [0, 0, 0])] {
        root.delete(&format!("{base_path}/deploy_keys/{}", created["id"])).await.expect(204);
        assert_eq!(stored_rows(&server).await, left);
    }
    outsider.post(&format!("{second}/deploy_keys"), json!({ "title": "x", "key": KEY })).await.expect(201);
}

async fn key_of_user_cannot_be_deploy_key(server: TestServer) {
    let root = server.root();
    let all = format!("/projects/{}/deploy_keys", project(&root, "work", json!({})).await);
    let ada = server.create_user("ada").await;
    ada.client.post("/user/keys", json!({ "title": "laptop", "key": KEY })).await.expect(201);
    let rejected = root.post(&all, json!({ "title": "x", "key": KEY })).await.expect(400);
    assert_eq!(message(&rejected), json!({ "deploy_key.fingerprint": ["has already been taken"] }));
    let created = root.post(&all, json!({ "title": "x", "key": RSA })).await.expect(201).json();
    let rejected =
        ada.client.post("/user/keys", json!({ "title": "x", "key": format!("{RSA} mine") })).await.expect(400);
    assert_eq!(message(&rejected), json!({ "fingerprint": ["has already been taken"] }));
    assert_eq!(ada.client.get("/user/keys").await.expect(200).pluck("title"), ["laptop"]);
    root.delete(&format!("{all}/{}", created["id"])).await.expect(204);
    ada.client.post("/user/keys", json!({ "title": "x", "key": RSA })).await.expect(201);
    root.delete(&format!("/users/{}", ada.id)).await.expect(204);
    root.post(&all, json!({ "title": "x", "key": KEY })).await.expect(201);
}

async fn deploy_keys_require_maintainer(server: TestServer) {
    let root = server.root();
    let work = format!("/projects/{}", project(&root, "work", json!({ "visibility": "public" })).await);
    let (developer, maintainer) = (server.create_user("developer").await, server.create_user("maintainer").await);
    join(&root, &work, developer.id, 30).await;
    join(&root, &work, maintainer.id, 40).await;
    let all = format!("{work}/deploy_keys");
    let one = format!("{all}/{}", deploy_key(&maintainer.client, &work, 1).await);
    let stranger = server.create_user("stranger").await.client;
    for (client, status) in [(&server.anonymous(), 401), (&stranger, 403), (&developer.client, 403)] {
        client.get(&all).await.expect(status);
        client.get(&one).await.expect(status);
        client.post(&all, json!({})).await.expect(status);
        client.put(&one, json!({})).await.expect(status);
        client.delete(&one).await.expect(status);
        client.post(&format!("{one}/enable"), json!({})).await.expect(status);
        client.get("/deploy_keys").await.expect(status);
    }
    maintainer.client.get("/deploy_keys").await.expect(403);
    let hidden = format!("/projects/{}/deploy_keys", project(&root, "hidden", json!({})).await);
    stranger.post(&hidden, json!({})).await.expect(404);
}

async fn deleting_last_project_deletes_deploy_key(server: TestServer) {
    let root = server.root();
    let (first, second) = (project(&root, "first", json!({})).await, project(&root, "second", json!({})).await);
    let shared = deploy_key(&root, &format!("/projects/{first}"), 1).await;
    deploy_key(&root, &format!("/projects/{first}"), 2).await;
    root.post(&format!("/projects/{second}/deploy_keys/{shared}/enable"), json!({})).await.expect(201);
    assert_eq!(stored_rows(&server).await, [2, 3, 2]);
    for (deleted, left) in [(first, [1, 1, 1]), (second, [0, 0, 0])] {
        let db = server.backend.database.read();
        let row = storage::entities::projects::Entity::find_by_id(deleted).one(db).await.expect("a lookup");
        deletion::projects::delete_with_files(&server.backend, &row.expect("a project")).await.expect("a removal");
        assert_eq!(stored_rows(&server).await, left);
    }
}

async fn concurrent_creation_of_same_key_stores_one(server: TestServer) {
    let root = server.root();
    let (first, second) = (project(&root, "first", json!({})).await, project(&root, "second", json!({})).await);
    let add = |project: i64| {
        let (root, path) = (root.clone(), format!("/projects/{project}/deploy_keys"));
        async move { root.post(&path, json!({ "title": "x", "key": KEY })).await }
    };
    let answers = futures_util::future::join_all([first, second, first, second].map(add)).await;
    assert!(answers.iter().any(|answer| answer.status == 201));
    for answer in answers.iter().filter(|answer| answer.status != 201) {
        assert_eq!(message(answer), json!({ "deploy_key.fingerprint": ["has already been taken"] }));
    }
    let [keys, paths, fingerprints] = stored_rows(&server).await;
    assert_eq!((keys, fingerprints), (1, 1));
    assert!((1..=2).contains(&paths), "{paths}");
}

async fn create_deploy_key_rejects_more_than_100_keys(server: TestServer) {
    let root = server.root();
    let work = format!("/projects/{}", project(&root, "work", json!({})).await);
    for number in 0..99 {
        deploy_key(&root, &work, number).await;
    }
    let all = format!("{work}/deploy_keys");
    let last = (99..102).map(|number| root.post(&all, json!({ "title": "x", "key": key_of(number) })));
    let mut statuses: Vec<u16> =
        futures_util::future::join_all(last).await.iter().map(|answer| answer.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 400, 400]);
    assert_eq!(stored_rows(&server).await, [100, 100, 100]);
}

on_every_database![
    deploy_key_lifecycle,
    create_deploy_key_rejects_invalid_key_and_title,
    create_deploy_key_returns_existing_key_of_project,
    enable_deploy_key_requires_access_to_other_project,
    key_of_user_cannot_be_deploy_key,
    deploy_keys_require_maintainer,
    deleting_last_project_deletes_deploy_key,
    concurrent_creation_of_same_key_stores_one,
    create_deploy_key_rejects_more_than_100_keys,
];
