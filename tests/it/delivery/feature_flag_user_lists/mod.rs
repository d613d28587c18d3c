//! Lists of users for feature flags of projects.

use holdfast::config::ConfigOptions;
use sea_orm::EntityTrait;
use serde_json::{Value, json};
use storage::entities::feature_flag_user_lists::Entity;

use crate::support::spaces::{id, join, project};
use crate::support::{Client, TestServer, on_every_database};

/// Creates a list of `/projects/:id` and returns its IID and ID.
pub async fn user_list(client: &Client, path: &str, name: &str) -> (i64, i64) {
    let body = json!({"name": name, "user_xids": "user1,user2"});
    let created = client.post(&format!("{path}/feature_flags_user_lists"), body).await.expect(201).json();
    (created["iid"].as_i64().expect("a number"), id(&created))
}

fn basic_plan() -> ConfigOptions {
    ConfigOptions { plan: Some("starter".to_owned()), ..ConfigOptions::default() }
}

async fn user_list_lifecycle(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    let all = format!("/projects/{work}/feature_flags_user_lists");
    assert_eq!(root.get(&all).await.expect(200).json(), json!([]));
    let created = root
        .post(&all, json!({"name": "early birds", "user_xids": "user1,user 2,ä@example.com"}))
        .await
        .expect(201)
        .json();
    assert_eq!(
        created,
        json!({
            "id": created["id"], "iid": 1, "project_id": work, "name": "early birds",
            "user_xids": "user1,user 2,ä@example.com",
            "created_at": created["created_at"], "updated_at": created["updated_at"],
        })
    );
    let one = format!("{all}/1");
    assert_eq!(root.get(&one).await.expect(200).json(), created);
    let second = root.post(&all, json!({"name": "nobody", "user_xids": ""})).await.expect(201).json();
    assert_eq!((&second["iid"], &second["user_xids"]), (&json!(2), &json!("")));
    let list = root.get(&all).await.expect(200);
    assert_eq!((list.json(), list.header("x-total")), (json!([created, second]), "2"));
    assert_eq!(root.get(&format!("{all}?per_page=1&page=2")).await.expect(200).json(), json!([second]));
    let changed = root.put(&one, json!({"user_xids": "user3"})).await.expect(200).json();
    assert_eq!((&changed["name"], &changed["user_xids"]), (&json!("early birds"), &json!("user3")));
    let changed = root.put(&one, json!({"name": "birds"})).await.expect(200).json();
    assert_eq!((&changed["name"], &changed["user_xids"]), (&json!("birds"), &json!("user3")));
    assert_eq!(root.put(&one, json!({})).await.expect(200).json()["name"], "birds");
    let early = root.clone().header("If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:00 GMT");
    early.delete(&one).await.expect(412);
    root.delete(&one).await.expect(204);
    for response in [root.get(&one).await, root.delete(&one).await, root.put(&one, json!({"name": "x"})).await] {
        assert_eq!((response.status, response.message()), (404, "404 Not found".to_owned()));
    }
    // IIDs are not reused, and each project has its own.
    root.delete(&format!("{all}/2")).await.expect(204);
    assert_eq!(user_list(&root, &format!("/projects/{work}"), "third").await.0, 3);
    let other = format!("/projects/{}", project(&root, "other", json!({})).await);
    assert_eq!(user_list(&root, &other, "third").await.0, 1);
}

async fn user_list_writes_reject_invalid_attributes(server: TestServer) {
    let root = server.root();
    let all = format!("/projects/{}/feature_flags_user_lists", project(&root, "work", json!({})).await);
    let remaining = root.post(&all, json!({"name": "taken", "user_xids": "a"})).await.expect(201).json();
    let other = root.post(&all, json!({"name": "other", "user_xids": "a"})).await.expect(201).json();
    let errors = async |body: Value| root.post(&all, body).await.expect(400).json()["message"].clone();
    assert_eq!(errors(json!({})).await, "name is missing, user_xids is missing");
    assert_eq!(errors(json!({"name": "x"})).await, "user_xids is missing");
    let ids = json!(["must be a string of unique comma separated values each 256 characters or less"]);
    let blank = json!({"name": ["can't be blank"], "user_xids": ids});
    assert_eq!(errors(json!({"name": " ", "user_xids": "a,,b"})).await, blank);
    assert_eq!(errors(json!({"name": "taken", "user_xids": ""})).await, json!({"name": ["has already been taken"]}));
    for bad in ["a,", ",a", "a,a", "a, b", " a", "a\tb", "a\nb", &"x".repeat(257)] {
        assert_eq!(errors(json!({"name": "x", "user_xids": bad})).await, json!({"user_xids": ids}), "{bad:?}");
        root.put(&format!("{all}/1"), json!({"user_xids": bad})).await.expect(400);
    }
    errors(json!({"name": "n".repeat(256), "user_xids": ""})).await;
    errors(json!({"name": "a\0", "user_xids": ""})).await;
    errors(json!({"name": "x", "user_xids": "a\0"})).await;
    errors(json!({"name": "x", "user_xids": "x".repeat(100_001)})).await;
    root.put(&format!("{all}/2"), json!({"name": "taken"})).await.expect(400);
    root.put(&format!("{all}/2"), json!({"name": ""})).await.expect(400);
    root.get(&format!("{all}/x")).await.expect(400);
    assert_eq!(root.get(&all).await.expect(200).json(), json!([remaining, other]));
    // Names are case-sensitive and unique only within a project.
    root.post(&all, json!({"name": "Taken", "user_xids": ""})).await.expect(201);
    let elsewhere = format!("/projects/{}/feature_flags_user_lists", project(&root, "other", json!({})).await);
    root.post(&elsewhere, json!({"name": "taken", "user_xids": ""})).await.expect(201);
}

async fn user_lists_require_developer(server: TestServer) {
    let root = server.root();
    let work = format!("/projects/{}", project(&root, "work", json!({"visibility": "public"})).await);
    let (reporter, developer) = (server.create_user("reporter").await, server.create_user("developer").await);
    join(&root, &work, reporter.id, 20).await;
    join(&root, &work, developer.id, 30).await;
    let (iid, _) = user_list(&developer.client, &work, "list").await;
    let all = format!("{work}/feature_flags_user_lists");
    let one = format!("{all}/{iid}");
    let non_member = server.create_user("stranger").await.client;
    for (client, status) in [(&server.anonymous(), 401), (&non_member, 403), (&reporter.client, 403)] {
        client.get(&all).await.expect(status);
        client.get(&one).await.expect(status);
        client.post(&all, json!({})).await.expect(status);
        client.put(&one, json!({"name": ""})).await.expect(status);
        client.delete(&one).await.expect(status);
    }
    let other = format!("/projects/{}", project(&root, "other", json!({})).await);
    root.get(&one.replace(&work, &other)).await.expect(404);
    non_member.get(&format!("{other}/feature_flags_user_lists")).await.expect(404);
    root.post(&format!("{work}/archive"), json!({})).await.expect(201);
    developer.client.get(&one).await.expect(200);
    developer.client.put(&one, json!({"name": "x"})).await.expect(403);
}

async fn user_lists_require_premium_plan(server: TestServer) {
    let root = server.root();
    let all = format!("/projects/{}/feature_flags_user_lists", project(&root, "work", json!({})).await);
    for response in [root.get(&all).await, root.post(&all, json!({})).await, root.get(&format!("{all}/1")).await] {
        assert!(response.expect(403).message().contains("plan"));
    }
}

async fn concurrent_user_lists_get_unique_iids_up_to_limit(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    let path = format!("/projects/{work}");
    let names: Vec<String> = (0..8).map(|number| format!("n{number}")).collect();
    let created = names.iter().map(|name| user_list(&root, &path, name));
    let mut numbers: Vec<i64> = futures_util::future::join_all(created).await.into_iter().map(|(iid, _)| iid).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7, 8]);
    let all = format!("{path}/feature_flags_user_lists");
    let same = (0..4).map(|_| root.post(&all, json!({"name": "same", "user_xids": ""})));
    let mut statuses: Vec<u16> =
        futures_util::future::join_all(same).await.iter().map(|response| response.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 400, 400, 400]);
    for number in 9..199 {
        user_list(&root, &path, &format!("n{number}")).await;
    }
    let last = (0..3).map(|number| root.post(&all, json!({"name": format!("last-{number}"), "user_xids": ""})));
    let mut statuses: Vec<u16> =
        futures_util::future::join_all(last).await.iter().map(|response| response.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 400, 400]);
    let db = server.backend.database.write();
    storage::entities::projects::Entity::delete_by_id(work).exec(db).await.expect("a removal");
    assert_eq!(Entity::find().all(db).await.expect("rows"), []);
}

on_every_database![
    user_list_lifecycle,
    user_list_writes_reject_invalid_attributes,
    user_lists_require_developer,
    user_lists_require_premium_plan with basic_plan(),
    concurrent_user_lists_get_unique_iids_up_to_limit,
];
