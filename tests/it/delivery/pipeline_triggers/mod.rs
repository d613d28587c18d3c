//! Pipeline triggers.

use sea_orm::EntityTrait;
use serde_json::{Value, json};
use storage::entities::{AccessLevel, Visibility, pipeline_triggers};

use crate::support::code::Project;
use crate::support::spaces::{id, join, project};
use crate::support::{Client, TestServer, on_every_database};

/// Creates a trigger below `/projects/:id` and returns its ID and token.
pub async fn trigger(client: &Client, project_path: &str) -> (i64, String) {
    let body = json!({ "description": "nightly" });
    let created = client.post(&format!("{project_path}/triggers"), body).await.expect(201).json();
    (id(&created), created["token"].as_str().expect("a token").to_owned())
}

async fn triggers_can_be_created_read_updated_and_deleted(server: TestServer) {
    let root = server.root();
    let work = format!("/projects/{}", project(&root, "work", json!({})).await);
    let all = format!("{work}/triggers");
    assert_eq!(root.get(&all).await.expect(200).json(), json!([]));
    let created = root.post(&all, json!({ "description": "nightly" })).await.expect(201).json();
    assert_eq!(
        created,
        json!({
            "id": created["id"], "token": created["token"], "description": "nightly", "created_at": created["created_at"],
            "updated_at": created["updated_at"], "last_used": null, "owner": created["owner"],
        })
    );
    let token = created["token"].as_str().expect("a token");
    assert!(token.starts_with("hftrig-") && token.len() == 39 && created["owner"]["username"] == "root");
    let one = format!("{all}/{}", created["id"]);
    assert_eq!(root.get(&one).await.expect(200).json(), created);
    let (second, _) = trigger(&root, &work).await;
    assert_eq!(root.get(&all).await.expect(200).pluck("id"), [created["id"].clone(), json!(second)]);
    assert_eq!(root.get(&format!("{all}?per_page=1&page=2")).await.expect(200).pluck("id"), [json!(second)]);
    let changed = root.put(&one, json!({ "description": "hourly" })).await.expect(200).json();
    assert_eq!((&changed["description"], &changed["token"]), (&json!("hourly"), &created["token"]));
    assert_eq!(root.put(&one, json!({})).await.expect(200).json()["description"], "hourly");
    // The token is stored encrypted.
    let rows = pipeline_triggers::Entity::find().all(server.backend.database.read()).await.expect("rows");
    assert!(rows.iter().all(|row| !format!("{row:?}").contains(token)));
    for body in [json!({ "description": "" }), json!({ "description": " " })] {
        for response in [root.post(&all, body.clone()).await, root.put(&one, body.clone()).await] {
            assert_eq!(response.expect(400).json()["message"], json!({ "description": ["can't be blank"] }));
        }
    }
    assert_eq!(root.post(&all, json!({})).await.expect(400).message(), "description is missing");
    root.post(&all, json!({ "description": "x".repeat(256) })).await.expect(400);
    let early = root.clone().header("If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:00 GMT");
    early.delete(&one).await.expect(412);
    root.delete(&one).await.expect(204);
    for response in [root.get(&one).await, root.delete(&one).await, root.put(&one, json!({ "description": "x" })).await]
    {
        assert_eq!((response.status, response.message()), (404, "404 Not found".to_owned()));
    }
}

async fn trigger_token_is_returned_to_its_owner_only(server: TestServer) {
    let root = server.root();
    let work = format!("/projects/{}", project(&root, "work", json!({ "visibility": "public" })).await);
    let (ann, developer) = (server.create_user("ann").await, server.create_user("developer").await);
    join(&root, &work, ann.id, 40).await;
    join(&root, &work, developer.id, 30).await;
    let (number, token) = trigger(&ann.client, &work).await;
    let one = format!("{work}/triggers/{number}");
    assert_eq!(ann.client.get(&one).await.expect(200).json()["token"], token);
    let shown = root.get(&one).await.expect(200).json()["token"].clone();
    assert_eq!(shown, token[..11]);
    assert_eq!(root.get(&format!("{work}/triggers")).await.expect(200).pluck("token"), std::slice::from_ref(&shown));
    assert_eq!(root.put(&one, json!({ "description": "x" })).await.expect(200).json()["token"], shown);
    let non_member = server.create_user("stranger").await.client;
    for (client, status) in [(&server.anonymous(), 401), (&non_member, 403), (&developer.client, 403)] {
        client.get(&format!("{work}/triggers")).await.expect(status);
        client.post(&format!("{work}/triggers"), json!({ "description": "x" })).await.expect(status);
        client.get(&one).await.expect(status);
        client.put(&one, json!({ "description": "x" })).await.expect(status);
        client.delete(&one).await.expect(status);
    }
    let other = format!("/projects/{}", project(&root, "other", json!({})).await);
    root.get(&one.replace(&work, &other)).await.expect(404);
    root.delete(&one.replace(&work, &other)).await.expect(404);
}

async fn trigger_token_starts_pipeline_with_variables_and_grants_no_access(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "started", Visibility::Private).await;
    project.git(&["tag", "v1", "main~1"]);
    let project_path = format!("/projects/{}", project.id);
    let (number, token) = trigger(&root, &project_path).await;
    let anonymous = server.anonymous();
    let run = format!("{project_path}/trigger/pipeline");
    let body = json!({ "token": token, "ref": "main", "variables": { "A": "1", "B": "x y" } });
    let created = anonymous.post(&run, body).await.expect(201).json();
    assert_eq!(
        (&created["ref"], &created["sha"], &created["status"]),
        (&json!("main"), &json!(project.id("main")), &json!("pending"))
    );
    assert_eq!(created["user"]["username"], "root");
    assert_eq!(created["web_url"], format!("{}/root/started/-/pipelines/{}", server.base, created["id"]));
    let variables =
        async |number: &Value| root.get(&format!("{project_path}/pipelines/{number}/variables")).await.expect(200);
    let stored_variables = variables(&created["id"]).await;
    assert_eq!(
        (stored_variables.pluck("key"), stored_variables.pluck("value")),
        (vec![json!("A"), json!("B")], vec![json!("1"), json!("x y")])
    );
    assert_eq!(root.get(&format!("{project_path}/pipelines/{}", created["id"])).await.expect(200).json(), created);
    assert!(root.get(&format!("{project_path}/triggers/{number}")).await.expect(200).json()["last_used"].is_string());
    // With a form, with the path of the project, and with the ref in the URL.
    let form = [("token", token.as_str()), ("ref", "v1"), ("variables[A]", "2")];
    let created = anonymous.post_form("/projects/root%2Fstarted/trigger/pipeline", &form).await.expect(201).json();
    assert_eq!((&created["ref"], &created["tag"]), (&json!("v1"), &json!(true)));
    assert_eq!(variables(&created["id"]).await.pluck("value"), [json!("2")]);
    let created = anonymous
        .post(&format!("{project_path}/ref/feature%2Fx/trigger/pipeline?token={token}"), json!({}))
        .await
        .expect(201)
        .json();
    assert_eq!(created["ref"], "feature/x");
    // The token grants no other access.
    server.with_token(&token).get(&project_path).await.expect(401);
    anonymous.get(&format!("{project_path}/pipelines")).await.expect(404);
}

async fn trigger_pipeline_rejects_invalid_tokens_refs_and_variables(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "refused", Visibility::Private).await;
    let other = Project::with_commits(&server, "other", Visibility::Public).await;
    let (project_path, elsewhere) = (format!("/projects/{}", project.id), format!("/projects/{}", other.id));
    let (_, token) = trigger(&root, &project_path).await;
    let anonymous = server.anonymous();
    let run = format!("{project_path}/trigger/pipeline");
    let hidden = anonymous.post(&run, json!({ "token": "hftrig-unknown", "ref": "main" })).await.expect(404);
    for (path, sent) in [
        (format!("{elsewhere}/trigger/pipeline"), token.as_str()),
        ("/projects/4711/trigger/pipeline".to_owned(), token.as_str()),
        ("/projects/4711/trigger/pipeline".to_owned(), "x"),
        (run.clone(), ""),
        (run.clone(), &token[..30]),
        (run.clone(), "hftrig-' or 1=1"),
    ] {
        let response = anonymous.post(&path, json!({ "token": sent, "ref": "main" })).await.expect(404);
        assert_eq!(response.body, hidden.body, "{path} {sent}");
    }
    for (body, text) in [
        (json!({}), "token is missing, ref is missing"),
        (json!({ "token": token }), "ref is missing"),
        (json!({ "token": token, "ref": "" }), "ref is empty"),
    ] {
        assert_eq!(anonymous.post(&run, body).await.expect(400).message(), text);
    }
    let unknown = anonymous.post(&run, json!({ "token": token, "ref": "nowhere" })).await.expect(400);
    assert_eq!(unknown.json()["message"], json!({ "base": ["Reference not found"] }));
    for variables in [json!("x"), json!(["x"]), json!({ "a": { "b": "c" } }), json!({ "a-b": "c" }), json!({ "": "c" })]
    {
        let body = json!({ "token": token, "ref": "main", "variables": variables });
        anonymous.post(&run, body).await.expect(400);
    }
    assert_eq!(root.get(&format!("{project_path}/pipelines")).await.expect(200).json(), json!([]));
}

async fn trigger_has_the_permissions_of_its_owner(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "owners", Visibility::Private).await;
    let project_path = format!("/projects/{}", project.id);
    let ann = server.create_user("ann").await;
    server.insert_member(project.id, ann.id, AccessLevel::Maintainer).await;
    let (_, token) = trigger(&ann.client, &project_path).await;
    let anonymous = server.anonymous();
    let run = async |name: &str| {
        let body = json!({ "token": token, "ref": name });
        anonymous.post(&format!("{project_path}/trigger/pipeline"), body).await.status
    };
    assert_eq!([run("main").await, run("feature/x").await], [201, 201]);
    let member = format!("{project_path}/members/{}", ann.id);
    root.put(&member, json!({ "access_level": 30 })).await.expect(200);
    assert_eq!([run("main").await, run("feature/x").await], [403, 201]);
    root.put(&member, json!({ "access_level": 20 })).await.expect(200);
    assert_eq!(run("feature/x").await, 403);
    root.delete(&member).await.expect(204);
    assert_eq!(run("feature/x").await, 403);
    join(&root, &project_path, ann.id, 40).await;
    root.put(&project_path, json!({ "builds_access_level": "disabled" })).await.expect(200);
    assert_eq!(run("feature/x").await, 403);
    root.put(&project_path, json!({ "builds_access_level": "enabled" })).await.expect(200);
    root.post(&format!("/users/{}/block", ann.id), json!({})).await.expect(201);
    assert_eq!(run("feature/x").await, 403);
    root.post(&format!("/users/{}/unblock", ann.id), json!({})).await.expect(201);
    assert_eq!(run("feature/x").await, 201);
    root.post(&format!("{project_path}/archive"), json!({})).await.expect(201);
    assert_eq!(run("feature/x").await, 403);
    root.post(&format!("{project_path}/unarchive"), json!({})).await.expect(201);
    root.delete(&format!("/users/{}", ann.id)).await.expect(204);
    server.finish_jobs().await;
    assert_eq!(run("feature/x").await, 404);
}

async fn project_has_at_most_one_hundred_triggers(server: TestServer) {
    let root = server.root();
    let work = format!("/projects/{}", project(&root, "work", json!({})).await);
    for _ in 0..99 {
        trigger(&root, &work).await;
    }
    let all = format!("{work}/triggers");
    let last = (0..3).map(|_| root.post(&all, json!({ "description": "x" })));
    let mut statuses: Vec<u16> =
        futures_util::future::join_all(last).await.iter().map(|response| response.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 400, 400]);
}

on_every_database![
    triggers_can_be_created_read_updated_and_deleted,
    trigger_token_is_returned_to_its_owner_only,
    trigger_token_starts_pipeline_with_variables_and_grants_no_access,
    trigger_pipeline_rejects_invalid_tokens_refs_and_variables,
    trigger_has_the_permissions_of_its_owner,
    project_has_at_most_one_hundred_triggers,
];
