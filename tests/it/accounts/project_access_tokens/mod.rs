//! Project access tokens.

use chrono::Days;
use futures_util::future::join_all;
use holdfast::config::ConfigOptions;
use reqwest::Method;
use sea_orm::{
    ActiveModelTrait,
    ActiveValue::{NotSet, Set},
    ColumnTrait, EntityTrait, IntoActiveModel, PaginatorTrait, QueryFilter,
};
use serde_json::{Value, json};
use storage::entities::{Visibility, access_tokens, now, users};

use crate::support::spaces::{group, join, project};
use crate::support::{Client, DatabaseKind, TestServer, on_every_database};

async fn create(client: &Client, project: i64, extra: Value) -> Value {
    let mut body = json!({ "name": "release script", "scopes": ["api"] });
    body.as_object_mut().expect("an object").extend(extra.as_object().cloned().unwrap_or_default());
    client.post(&format!("/projects/{project}/access_tokens"), body).await.expect(201).json()
}

/// Creates a project of the administrator without pending jobs.
async fn bare_project_id(server: &TestServer) -> i64 {
    let space = server.personal_namespace(1).await;
    server.insert_project(space.id, "work", Visibility::Private).await.id
}

fn caller(server: &TestServer, created: &Value) -> Client {
    server.with_token(created["token"].as_str().expect("a token"))
}

async fn token_acts_as_bot_with_maintainer_role(server: TestServer) {
    let ada = server.create_user("ada").await.client;
    let work = project(&ada, "work", json!({})).await;
    let created = create(&ada, work, json!({ "expires_at": "2099-01-31" })).await;
    let secret = created["token"].clone();
    assert_eq!(
        created,
        json!({
            "id": created["id"], "name": "release script", "revoked": false, "created_at": created["created_at"],
            "scopes": ["api"], "user_id": created["user_id"], "active": true, "expires_at": "2099-01-31",
            "last_used_at": null, "access_level": 40, "token": secret,
        })
    );
    let bot = caller(&server, &created);
    let account = bot.get("/user").await.expect(200).json();
    assert_eq!((&account["id"], &account["name"]), (&created["user_id"], &json!("release script")));
    assert_eq!((&account["external"], &account["can_create_group"]), (&json!(true), &json!(false)));
    assert!(account["username"].as_str().expect("a name").starts_with(&format!("project_{work}_bot_")));
    bot.put(&format!("/projects/{work}"), json!({ "description": "by a bot" })).await.expect(200);
    let members = ada.get(&format!("/projects/{work}/members")).await.expect(200).json();
    assert_eq!(members[1]["access_level"], 40);
    let mut shown = created.clone();
    shown.as_object_mut().expect("an object").remove("token");
    let listed = ada.get(&format!("/projects/{work}/access_tokens")).await.expect(200).json();
    shown["last_used_at"] = listed[0]["last_used_at"].clone();
    assert_eq!(listed, json!([shown]));
    assert_eq!(ada.get(&format!("/projects/{work}/access_tokens/{}", created["id"])).await.expect(200).json(), shown);
    assert_ne!(json!(server.token_row(secret.as_str().expect("a token")).await.digest), secret);
}

async fn bot_cannot_access_other_projects_and_groups(server: TestServer) {
    let ada = server.create_user("ada").await.client;
    let work = project(&ada, "work", json!({})).await;
    let other = project(&ada, "other", json!({ "visibility": "internal" })).await;
    let team = group(&ada, "team", json!({})).await;
    let created = create(&ada, work, json!({})).await;
    let bot = caller(&server, &created);
    bot.get(&format!("/projects/{other}")).await.expect(404);
    bot.post("/groups", json!({ "name": "g", "path": "g" })).await.expect(403);
    bot.post("/projects", json!({ "path": "p" })).await.expect(400);
    let rejected = bot
        .post(&format!("/projects/{work}/access_tokens"), json!({ "name": "x", "scopes": ["api"] }))
        .await
        .expect(403);
    assert_eq!(rejected.message(), "403 Forbidden - A project access token cannot create project access tokens");
    for parent in [format!("/projects/{other}"), format!("/groups/{team}")] {
        let body = json!({ "user_id": created["user_id"], "access_level": 30 });
        let rejected = ada.post(&format!("{parent}/members"), body).await.expect(400);
        assert_eq!(
            rejected.json()["message"],
            json!({ "user": ["project bots cannot be added to other groups / projects"] })
        );
    }
    // It can become a member of its own project again.
    let own_members = format!("/projects/{work}/members");
    ada.delete(&format!("{own_members}/{}", created["user_id"])).await.expect(204);
    bot.get(&format!("/projects/{work}")).await.expect(404);
    assert_eq!(ada.get(&format!("/projects/{work}/access_tokens")).await.pluck("access_level"), [0]);
    ada.post(&own_members, json!({ "user_id": created["user_id"], "access_level": 20 })).await.expect(201);
    assert_eq!(ada.get(&format!("/projects/{work}/access_tokens")).await.pluck("access_level"), [20]);
}

async fn revoke_rejects_the_token_and_deletes_its_bot(server: TestServer) {
    let (ada, work) = (server.root(), bare_project_id(&server).await);
    let created = create(&ada, work, json!({})).await;
    let (one, bot) = (format!("/projects/{work}/access_tokens/{}", created["id"]), caller(&server, &created));
    bot.get("/user").await.expect(200);
    let late = ada.clone().header("If-Unmodified-Since", "Sat, 01 Jan 2000 00:00:00 GMT");
    late.send(late.request(Method::DELETE, &one)).await.expect(412);
    // Of two concurrent requests, only one revokes the token and is recorded.
    let (first, second) = tokio::join!(ada.delete(&one), ada.delete(&one));
    let mut statuses = [first.status, second.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [204, 404]);
    let events = ada.get(&format!("/projects/{work}/audit_events")).await.expect(200).json();
    let names = events.as_array().expect("events").iter().map(|event| event["details"]["event_name"].clone());
    assert_eq!(names.filter(|name| name == "project_access_token_revoked").count(), 1);
    assert_eq!(bot.get("/user").await.status, 401);
    for response in [ada.get(&one).await, ada.delete(&one).await] {
        assert_eq!((response.status, response.message()), (404, "404 Project Access Token Not Found".to_owned()));
    }
    let user = created["user_id"].as_i64().expect("an id");
    assert_eq!(ada.get(&format!("/users/{user}")).await.status, 404);
    assert_eq!(ada.get(&format!("/projects/{work}/members")).await.json(), json!([]));
    server.finish_jobs().await;
    assert!(!server.has_user_row(user).await);
}

async fn expired_token_is_rejected_and_listed_as_inactive(server: TestServer) {
    let ada = server.create_user("ada").await.client;
    let work = project(&ada, "work", json!({})).await;
    let created = create(&ada, work, json!({ "name": "old" })).await;
    create(&ada, work, json!({ "name": "new" })).await;
    let row = server.token_row(created["token"].as_str().expect("a token")).await;
    let mut row: access_tokens::ActiveModel = row.into_active_model();
    row.expires_at = Set(Some(now().date_naive() - Days::new(1)));
    row.update(server.backend.database.write()).await.expect("an update");
    let rejected = caller(&server, &created).get("/user").await.expect(401);
    assert_eq!(rejected.json()["error"], "invalid_token");
    let path = format!("/projects/{work}/access_tokens");
    for (query, expected) in [("", vec!["old", "new"]), ("state=active", vec!["new"]), ("state=inactive", vec!["old"])]
    {
        assert_eq!(ada.get(&format!("{path}?{query}")).await.expect(200).pluck("name"), expected, "{query}");
    }
}

async fn project_access_tokens_require_maintainer(server: TestServer) {
    let root = server.root();
    let team = group(&root, "team", json!({ "visibility": "public" })).await;
    let work = project(&root, "work", json!({ "namespace_id": team, "visibility": "public" })).await;
    let path = format!("/projects/{work}/access_tokens");
    for (level, member) in server.create_member_per_role(&root, team).await {
        let body = json!({ "name": "x", "scopes": ["api"] });
        let (read, created) = (member.client.get(&path).await, member.client.post(&path, body).await);
        let expected = if level >= 40 { (200, 201) } else { (403, 403) };
        assert_eq!((read.status, created.status), expected, "{level}");
    }
    assert_eq!(server.anonymous().get(&path).await.status, 401);
    assert_eq!(root.get("/projects/4711/access_tokens").await.message(), "404 Project Not Found");
}

async fn create_token_rejects_invalid_scopes_access_levels_and_dates(server: TestServer) {
    let ada = server.create_user("ada").await.client;
    let work = project(&ada, "work", json!({})).await;
    let path = format!("/projects/{work}/access_tokens");
    let yesterday = now().date_naive() - Days::new(1);
    for (extra, field, text) in [
        (json!({}), "scopes", "can't be blank"),
        (json!({ "scopes": ["sudo"] }), "scopes", "can only contain available scopes"),
        (json!({ "scopes": ["api", "x"] }), "scopes", "can only contain available scopes"),
        (json!({ "scopes": ["api"], "access_level": 50 }), "access_level", "is not included in the list"),
        (json!({ "scopes": ["api"], "access_level": 35 }), "access_level", "is not included in the list"),
        (json!({ "scopes": ["api"], "expires_at": yesterday }), "expires_at", "must not be in the past"),
    ] {
        let mut body = json!({ "name": "x" });
        body.as_object_mut().expect("an object").extend(extra.as_object().cloned().unwrap_or_default());
        let rejected = ada.post(&path, body).await.expect(400);
        assert_eq!(rejected.json()["message"], json!({ field: [text] }));
    }
    let many = json!({ "name": "x", "scopes": vec!["api"; 101] });
    assert_eq!(ada.post(&path, many).await.expect(400).message(), "scopes is invalid");
    assert_eq!(ada.get(&path).await.json(), json!([]));
    let today = now().date_naive();
    let created = create(&ada, work, json!({ "access_level": 10, "expires_at": today })).await;
    assert_eq!((&created["access_level"], &created["active"]), (&json!(10), &json!(true)));
    ada.post(&path, json!({ "name": "x".repeat(1_100_000) })).await.expect(413);
}

async fn delete_project_deletes_bots_and_tokens(server: TestServer) {
    let (ada, work) = (server.root(), bare_project_id(&server).await);
    let created = create(&ada, work, json!({})).await;
    server.root().put("/application/settings", json!({ "deletion_adjourned_period": 0 })).await.expect(200);
    ada.delete(&format!("/projects/{work}")).await.expect(202);
    server.finish_jobs().await;
    assert_eq!(caller(&server, &created).get("/user").await.status, 401);
    assert!(!server.has_user_row(created["user_id"].as_i64().expect("an id")).await);
}

async fn project_has_limited_number_of_tokens_and_is_deleted_with_their_bots(server: TestServer) {
    let (root, work) = (server.root(), bare_project_id(&server).await);
    root.put("/application/settings", json!({ "deletion_adjourned_period": 0 })).await.expect(200);
    let path = format!("/projects/{work}/access_tokens");
    let expired = create(&root, work, json!({})).await;
    let row = server.token_row(expired["token"].as_str().expect("a token")).await;
    let mut row: access_tokens::ActiveModel = row.into_active_model();
    row.expires_at = Set(Some(now().date_naive() - Days::new(1)));
    let row = row.update(server.backend.database.write()).await.expect("a row");
    // Copies of the expired token: with the next token, the project has 1,000 tokens.
    let copies: Vec<access_tokens::ActiveModel> = (0..998)
        .map(|number| access_tokens::ActiveModel {
            id: NotSet,
            digest: Set(format!("copy {number}")),
            ..row.clone().into_active_model()
        })
        .collect();
    access_tokens::Entity::insert_many(copies).exec(server.backend.database.write()).await.expect("rows");
    let active = create(&root, work, json!({})).await;
    let rejected = root.post(&path, json!({ "name": "x", "scopes": ["api"] })).await.expect(400);
    let text = "The maximum number of project access tokens (1000, including expired tokens) is reached; revoke \
        expired tokens first";
    assert_eq!(rejected.message(), text);
    let copies = access_tokens::Entity::delete_many().filter(access_tokens::Column::Digest.starts_with("copy "));
    copies.exec(server.backend.database.write()).await.expect("a deletion");
    // The expired token does not count as active.
    for _ in 1..99 {
        create(&root, work, json!({})).await;
    }
    let body = json!({ "name": "x", "scopes": ["api"] });
    let responses = join_all((0..3).map(|_| root.post(&path, body.clone()))).await;
    let mut statuses: Vec<u16> = responses.iter().map(|response| response.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 400, 400]);
    let rejected = root.post(&path, body.clone()).await.expect(400);
    let text = "The maximum number of active project access tokens (100) is reached; revoke a token first";
    assert_eq!(rejected.message(), text);
    root.delete(&format!("{path}/{}", expired["id"])).await.expect(204);
    root.post(&path, body.clone()).await.expect(400);
    root.delete(&format!("{path}/{}", active["id"])).await.expect(204);
    root.post(&path, body).await.expect(201);
    let bots = users::Entity::find().filter(users::Column::Bot.eq(true));
    let read = server.backend.database.read();
    assert!(bots.clone().count(read).await.expect("a count") >= 100);
    root.delete(&format!("/projects/{work}")).await.expect(202);
    server.finish_jobs().await;
    assert_eq!(bots.count(read).await.expect("a count"), 0);
}

async fn get_and_delete_return_404_for_tokens_of_other_projects(server: TestServer) {
    let ada = server.create_user("ada").await.client;
    let (work, other) = (project(&ada, "work", json!({})).await, project(&ada, "other", json!({})).await);
    let created = create(&ada, work, json!({})).await;
    let path = format!("/projects/{other}/access_tokens/{}", created["id"]);
    assert_eq!((ada.get(&path).await.status, ada.delete(&path).await.status), (404, 404));
    caller(&server, &created).get("/user").await.expect(200);
    let bob = server.create_user("bob").await;
    join(&ada, &format!("/projects/{work}"), bob.id, 30).await;
    assert_eq!(bob.client.get(&format!("/projects/{work}/access_tokens/{}", created["id"])).await.status, 403);
}

async fn list_statement_count_is_independent_of_token_count(server: TestServer) {
    let ada = server.create_user("ada").await.client;
    let work = project(&ada, "work", json!({})).await;
    let path = format!("/projects/{work}/access_tokens");
    create(&ada, work, json!({})).await;
    ada.get(&path).await.expect(200);
    let count = async || {
        let before = server.statements();
        ada.get(&path).await.expect(200);
        server.statements() - before
    };
    let one = count().await;
    for _ in 0..9 {
        create(&ada, work, json!({})).await;
    }
    assert_eq!(count().await, one);
    assert!(one <= 7, "{one}");
}

on_every_database![
    token_acts_as_bot_with_maintainer_role,
    bot_cannot_access_other_projects_and_groups,
    revoke_rejects_the_token_and_deletes_its_bot,
    expired_token_is_rejected_and_listed_as_inactive,
    project_access_tokens_require_maintainer,
    create_token_rejects_invalid_scopes_access_levels_and_dates,
    delete_project_deletes_bots_and_tokens,
    project_has_limited_number_of_tokens_and_is_deleted_with_their_bots,
    get_and_delete_return_404_for_tokens_of_other_projects,
    list_statement_count_is_independent_of_token_count,
];

async fn free_plan_rejects_project_access_tokens() {
    let options = ConfigOptions { plan: Some("free".to_owned()), ..ConfigOptions::default() };
    let server = TestServer::start_with(DatabaseKind::Sqlite, options).await;
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    let path = format!("/projects/{work}/access_tokens");
    assert_eq!(root.get(&path).await.status, 403);
    assert_eq!(root.post(&path, json!({ "name": "x", "scopes": ["api"] })).await.status, 403);
    server.stop().await;
}

harness::tests![free_plan_rejects_project_access_tokens];
