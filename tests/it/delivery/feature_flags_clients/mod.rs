//! SDKs that evaluate feature flags with the Unleash protocol.

use std::sync::Arc;

use domain::delivery::feature_flags_clients as clients;
use domain::kernel::budgets::Budgets;
use domain::kernel::caller::Caller;
use domain::kernel::error::Error;
use holdfast::config::ConfigOptions;
use serde_json::{Value, json};

use super::feature_flag_user_lists::user_list;
use super::feature_flags::flag;
use crate::support::body_memory::request_memory;
use crate::support::spaces::{id, join, project};
use crate::support::{ApiResponse, Client, TestServer, on_every_database};

/// A project with clients of feature flags.
pub struct FlagsProject {
    /// The path of the project, such as `/projects/1`.
    pub path: String,
    /// The path of the Unleash protocol.
    pub unleash: String,
    /// The instance ID.
    pub instance_id: String,
}

impl FlagsProject {
    pub async fn new(root: &Client, name: &str) -> Self {
        let id = project(root, name, json!({})).await;
        Self::of(root, id).await
    }

    /// Reads the configuration of the clients of a project.
    pub async fn of(root: &Client, id: i64) -> Self {
        let path = format!("/projects/{id}");
        let shown = root.get(&format!("{path}/feature_flags_client")).await.expect(200).json();
        let instance_id = shown["instance_id"].as_str().expect("a text").to_owned();
        Self { path, unleash: format!("/feature_flags/unleash/{id}"), instance_id }
    }

    async fn features(&self, client: &Client, environment: &str) -> ApiResponse {
        let client =
            client.clone().header("UNLEASH-INSTANCEID", &self.instance_id).header("UNLEASH-APPNAME", environment);
        client.get(&format!("{}/client/features", self.unleash)).await
    }
}

/// Returns the names of the features of a response.
fn names(response: &ApiResponse) -> Vec<String> {
    let body = response.json();
    let features = body["features"].as_array().expect("features").iter();
    features.map(|feature| feature["name"].as_str().expect("a text").to_owned()).collect()
}

async fn configuration_is_created_once_and_replaced_on_reset(server: TestServer) {
    let root = server.root();
    let flags = FlagsProject::new(&root, "work").await;
    let path = format!("{}/feature_flags_client", flags.path);
    let shown = root.get(&path).await.expect(200).json();
    assert_eq!(shown["instance_id"], flags.instance_id.as_str());
    let url = shown["api_url"].as_str().expect("a text");
    assert!(url.starts_with("http") && url.ends_with(&format!("/api/v4{}", flags.unleash)), "{url}");
    assert!(flags.instance_id.starts_with("hfffc-") && flags.instance_id.len() > 20);
    let anonymous = server.anonymous();
    flags.features(&anonymous, "production").await.expect(200);
    let replaced = root.post(&format!("{path}/reset_token"), json!({})).await.expect(201).json();
    assert_ne!(replaced["instance_id"], shown["instance_id"]);
    assert_eq!(root.get(&path).await.expect(200).json(), replaced);
    flags.features(&anonymous, "production").await.expect(401);
    let again = FlagsProject { instance_id: replaced["instance_id"].as_str().expect("a text").to_owned(), ..flags };
    again.features(&anonymous, "production").await.expect(200);
}

async fn concurrent_first_reads_return_one_instance_id(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    let reads = (0..8).map(|_| FlagsProject::of(&root, id));
    let mut ids: Vec<String> =
        futures_util::future::join_all(reads).await.into_iter().map(|one| one.instance_id).collect();
    ids.dedup();
    assert_eq!(ids.len(), 1, "{ids:?}");
    assert_eq!(FlagsProject::of(&root, id).await.instance_id, ids[0]);
}

async fn configuration_requires_developer_and_reset_maintainer(server: TestServer) {
    let root = server.root();
    let flags = FlagsProject::new(&root, "work").await;
    let path = format!("{}/feature_flags_client", flags.path);
    for (name, level, read, reset) in
        [("guest", 10, 403, 403), ("reporter", 20, 403, 403), ("developer", 30, 200, 403), ("maintainer", 40, 200, 201)]
    {
        let user = server.create_user(name).await;
        join(&root, &flags.path, user.id, level).await;
        user.client.get(&path).await.expect(read);
        user.client.post(&format!("{path}/reset_token"), json!({})).await.expect(reset);
    }
    server.create_user("stranger").await.client.get(&path).await.expect(404);
    server.anonymous().get(&path).await.expect(401);
}

async fn features_contain_only_strategies_of_the_environment(server: TestServer) {
    let root = server.root();
    let flags = FlagsProject::new(&root, "work").await;
    let (_, list) = user_list(&root, &flags.path, "early birds").await;
    flag(&root, &flags.path, "checkout", list).await;
    let all = format!("{}/feature_flags", flags.path);
    let strategies = json!([
        {"name": "gradualRolloutUserId", "parameters": {"groupId": "default", "percentage": "25"},
         "scopes": [{"environment_scope": "production"}]},
    ]);
    let body = json!({"name": "search", "description": "The new search", "active": false, "strategies": strategies});
    root.post(&all, body).await.expect(201);
    root.post(&all, json!({"name": "without-strategies"})).await.expect(201);
    let anonymous = server.anonymous();

    let production = flags.features(&anonymous, "production").await.expect(200).json();
    let everyone = json!({"name": "checkout", "enabled": true, "strategies": [{"name": "default", "parameters": {}}]});
    let search = json!({
        "name": "search", "description": "The new search", "enabled": false,
        "strategies": [{"name": "gradualRolloutUserId", "parameters": {"groupId": "default", "percentage": "25"}}],
    });
    assert_eq!(production, json!({"version": 1, "features": [everyone, search]}));

    let review = flags.features(&anonymous, "review/1").await.expect(200).json();
    let lists = root.get(&format!("{}/feature_flags_user_lists", flags.path)).await.expect(200).json();
    let users = json!({"name": "userWithId", "parameters": {"userIds": lists[0]["user_xids"]}});
    assert_eq!(review["features"][0]["strategies"], json!([{"name": "default", "parameters": {}}, users]));
    assert_eq!(review["features"].as_array().map(Vec::len), Some(1));

    let client = anonymous.clone().header("UNLEASH-INSTANCEID", &flags.instance_id);
    let none = client.get(&format!("{}/client/features", flags.unleash)).await.expect(200).json();
    assert_eq!(none, json!({"version": 1, "features": []}), "no environment");
    let old = client.get(&format!("{}/features?app_name=production", flags.unleash)).await.expect(200).json();
    assert_eq!(old, production);
}

/// The user list, the strategy and the flag change. A client must see each change in its next request.
async fn changes_are_visible_in_the_next_request(server: TestServer) {
    let root = server.root();
    let flags = FlagsProject::new(&root, "work").await;
    let (iid, list) = user_list(&root, &flags.path, "early birds").await;
    flag(&root, &flags.path, "checkout", list).await;
    let anonymous = server.anonymous();
    let users = async || {
        let features = flags.features(&anonymous, "staging").await.expect(200).json();
        features["features"][0]["strategies"][1]["parameters"]["userIds"].clone()
    };
    users().await;
    let change = json!({"user_xids": "ada,ben"});
    root.put(&format!("{}/feature_flags_user_lists/{iid}", flags.path), change).await.expect(200);
    assert_eq!(users().await, "ada,ben");
    let one = format!("{}/feature_flags/checkout", flags.path);
    root.put(&one, json!({"active": false})).await.expect(200);
    let features = flags.features(&anonymous, "staging").await.expect(200).json();
    assert_eq!(features["features"][0]["enabled"], false);
    root.delete(&one).await.expect(200);
    assert_eq!(names(&flags.features(&anonymous, "staging").await.expect(200)), [""; 0]);
}

/// Responses depend on headers, which are part of the key of the response cache.
async fn response_of_one_environment_or_credential_is_never_sent_for_another(server: TestServer) {
    let root = server.root();
    let flags = FlagsProject::new(&root, "work").await;
    let (_, list) = user_list(&root, &flags.path, "early birds").await;
    let strategies = json!([{"name": "default", "scopes": [{"environment_scope": "production"}]}]);
    let all = format!("{}/feature_flags", flags.path);
    root.post(&all, json!({"name": "only-production", "strategies": strategies})).await.expect(201);
    flag(&root, &flags.path, "everywhere", list).await;
    let anonymous = server.anonymous();
    for _ in 0..2 {
        let production = flags.features(&anonymous, "production").await.expect(200);
        assert_eq!(names(&production), ["only-production", "everywhere"]);
        assert_eq!(names(&flags.features(&anonymous, "staging").await.expect(200)), ["everywhere"]);
        anonymous.get(&format!("{}/client/features", flags.unleash)).await.expect(401);
        let tag = production.header("etag");
        let client =
            anonymous.clone().header("UNLEASH-INSTANCEID", &flags.instance_id).header("UNLEASH-APPNAME", "production");
        client.header("If-None-Match", tag).get(&format!("{}/client/features", flags.unleash)).await.expect(304);
    }
    let other = FlagsProject::new(&root, "other").await;
    let foreign = FlagsProject { instance_id: other.instance_id, path: flags.path, unleash: flags.unleash };
    foreign.features(&anonymous, "production").await.expect(401);
}

async fn instance_id_is_the_only_credential(server: TestServer) {
    let root = server.root();
    let flags = FlagsProject::new(&root, "work").await;
    let anonymous = server.anonymous();
    let paths: [(&str, Option<Value>, u16); 5] = [
        ("", None, 200),
        ("/features", None, 200),
        ("/client/features", None, 200),
        (
            "/client/register",
            Some(json!({"appName": "production", "strategies": ["default"], "interval": 15_000})),
            202,
        ),
        ("/client/metrics", Some(json!({"appName": "production", "bucket": null})), 202),
    ];
    for (below, body, status) in paths {
        let path = format!("{}{below}", flags.unleash);
        let send = async |client: &Client, path: &str| match &body {
            Some(body) => client.post(path, body.clone()).await,
            None => client.get(path).await,
        };
        let id = flags.instance_id.as_str();
        let with_id = anonymous.clone().header("Unleash-InstanceId", id);
        let accepted = send(&with_id, &path).await.expect(status);
        assert_eq!(accepted.body.is_empty(), below != "/features" && below != "/client/features", "{below}");
        send(&with_id, &format!("{path}/")).await.expect(status);
        send(&anonymous, &format!("{path}?instance_id={id}")).await.expect(status);
        // SDKs send an API key that the server does not know.
        send(&with_id.clone().header("Authorization", "unknown"), &path).await.expect(status);
        send(&with_id.clone().header("Authorization", "Bearer unknown"), &path).await.expect(status);
        send(&with_id.clone().header("Private-Token", "unknown"), &path).await.expect(status);
        let unauthorized = json!({"message": "401 Unauthorized", "error": "401 Unauthorized"});
        for refused in [
            send(&anonymous, &path).await,
            send(&root, &path).await,
            send(&anonymous.clone().header("Unleash-InstanceId", "hfffc-unknown"), &path).await,
            send(&with_id, &path.replace("/unleash/", "/unleash/99999")).await,
        ] {
            assert_eq!(refused.expect(401).json(), unauthorized, "{below}");
        }
    }
    let by_path = anonymous.clone().header("Unleash-InstanceId", &flags.instance_id);
    by_path.get("/feature_flags/unleash/root%2Fwork/client/features").await.expect(200);
    root.delete(&flags.path).await.expect(202);
    by_path.get(&format!("{}/client/features", flags.unleash)).await.expect(401);
}

async fn hostile_values_are_rejected(server: TestServer) {
    let root = server.root();
    let flags = FlagsProject::new(&root, "work").await;
    let anonymous = server.anonymous().header("Unleash-InstanceId", &flags.instance_id);
    let features = format!("{}/client/features", flags.unleash);
    let long = "x".repeat(256);
    anonymous.clone().header("Unleash-Appname", &long).get(&features).await.expect(400);
    anonymous.get(&format!("{features}?app_name={long}")).await.expect(400);
    anonymous.get(&format!("{features}?app_name=%00")).await.expect(400);
    let metrics = format!("{}/client/metrics", flags.unleash);
    let large = json!({"bucket": {"toggles": {"checkout": "x".repeat(1 << 20)}}});
    anonymous.post(&metrics, large).await.expect(413);
    anonymous.post(&metrics, json!([])).await.expect(400);
    let reset = format!("{}/feature_flags_client/reset_token", flags.path);
    root.post(&reset, json!("x".repeat(1 << 20))).await.expect(413);
    anonymous.get(&format!("{features}?app_name=%2A")).await.expect(200);
}

/// Creates a user list of 99,999 bytes and returns its ID.
async fn large_user_list(root: &Client, path: &str) -> i64 {
    let user_xids: Vec<String> = (0..1_000).map(|number| format!("{number:0>99}")).collect();
    let body = json!({"name": "large", "user_xids": user_xids.join(",")});
    let created = root.post(&format!("{path}/feature_flags_user_lists"), body).await.expect(201).json();
    id(&created)
}

/// Returns strategies for the environment `staging` that use a user list.
fn list_strategies(list: i64, count: usize) -> Vec<Value> {
    let scopes = json!([{"environment_scope": "staging"}]);
    vec![json!({"name": "serviceUserList", "user_list_id": list, "scopes": scopes}); count]
}

/// Returns an anonymous caller with a budget of its own.
fn caller_with_memory(memory_bytes: u64) -> (Budgets, Caller) {
    let (budgets, memory) = request_memory(memory_bytes);
    (budgets, Caller::anonymous().with_memory(memory))
}

async fn user_list_of_many_strategies_is_read_once(server: TestServer) {
    let root = server.root();
    let project_id = project(&root, "work", json!({})).await;
    let path = format!("/projects/{project_id}");
    let list = large_user_list(&root, &path).await;
    let mut strategies = list_strategies(list, 49);
    strategies.push(json!({"name": "default", "scopes": [{"environment_scope": "production"}]}));
    let body = json!({"name": "checkout", "strategies": strategies});
    root.post(&format!("{path}/feature_flags"), body).await.expect(201);
    let size = 99_999_u64;

    let (budgets, caller) = caller_with_memory(64 << 20);
    let found = clients::features(&server.backend, &caller, project_id, "staging").await.expect("flags");
    let lists = found[0].strategies.iter().map(|strategy| strategy.user_list.as_ref().expect("a list"));
    let lists: Vec<_> = lists.collect();
    assert_eq!((found.len(), lists.len()), (1, 49));
    assert!(lists.iter().all(|list| Arc::ptr_eq(list, lists[0]) && list.user_xids.len() as u64 == size));
    // The response contains each list 49 times.
    let used = budgets.memory.used();
    assert!((49 * size..50 * size).contains(&used), "{used}");

    let (budgets, caller) = caller_with_memory(2 << 20);
    let refused = clients::features(&server.backend, &caller, project_id, "staging").await;
    assert!(matches!(refused, Err(Error::Overloaded)), "{refused:?}");
    // Lists of other environments need no memory.
    let found = clients::features(&server.backend, &caller, project_id, "production").await.expect("flags");
    assert_eq!((found.len(), found[0].strategies.len()), (1, 1));
    let used = budgets.memory.used();
    assert!(used < size, "{used}");
}

fn small_memory() -> ConfigOptions {
    ConfigOptions { body_memory_bytes: Some(3 << 20), ..ConfigOptions::default() }
}

async fn user_lists_beyond_memory_are_not_read(server: TestServer) {
    let root = server.root();
    let flags = FlagsProject::new(&root, "work").await;
    let list = large_user_list(&root, &flags.path).await;
    let all = format!("{}/feature_flags", flags.path);
    for number in 0..12 {
        let body = json!({"name": format!("flag-{number}"), "strategies": list_strategies(list, 3)});
        root.post(&all, body).await.expect(201);
    }
    let anonymous = server.anonymous();
    let before = server.statements();
    let refused = flags.features(&anonymous, "staging").await.expect(503);
    assert_eq!(refused.header("retry-after"), "5");
    root.get(&format!("{all}?per_page=100")).await.expect(503);
    let texts = server.statement_texts(before).into_iter();
    let read: Vec<String> = texts.filter(|text| text.contains("user_xids") && !text.contains("octet_length")).collect();
    assert!(read.is_empty(), "{read:?}");
    assert_eq!(names(&flags.features(&anonymous, "production").await.expect(200)), [""; 0]);
    let page = root.get(&format!("{all}?per_page=1")).await.expect(200).json();
    assert_eq!(page[0]["strategies"].as_array().map(Vec::len), Some(3));
}

on_every_database![
    configuration_is_created_once_and_replaced_on_reset,
    concurrent_first_reads_return_one_instance_id,
    configuration_requires_developer_and_reset_maintainer,
    features_contain_only_strategies_of_the_environment,
    changes_are_visible_in_the_next_request,
    response_of_one_environment_or_credential_is_never_sent_for_another,
    instance_id_is_the_only_credential,
    hostile_values_are_rejected,
    user_list_of_many_strategies_is_read_once,
    user_lists_beyond_memory_are_not_read with small_memory(),
];
