//! SDKs that evaluate feature flags with the Unleash protocol.

use serde_json::{Value, json};

use super::feature_flag_user_lists::user_list;
use super::feature_flags::flag;
use crate::support::spaces::{join, project};
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
        let unauthorized = json!({"message": "401 Unauthorized"});
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

on_every_database![
    configuration_is_created_once_and_replaced_on_reset,
    concurrent_first_reads_return_one_instance_id,
    configuration_requires_developer_and_reset_maintainer,
    features_contain_only_strategies_of_the_environment,
    changes_are_visible_in_the_next_request,
    response_of_one_environment_or_credential_is_never_sent_for_another,
    instance_id_is_the_only_credential,
    hostile_values_are_rejected,
];
