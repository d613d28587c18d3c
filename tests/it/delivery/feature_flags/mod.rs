//! Feature flags of projects and their strategies.

use holdfast::config::ConfigOptions;
use sea_orm::EntityTrait;
use serde_json::{Value, json};
use storage::entities::{feature_flag_scopes, feature_flag_strategies, feature_flags};

use crate::delivery::feature_flag_user_lists::user_list;
use crate::support::spaces::{join, project};
use crate::support::{Client, TestServer, on_every_database};

/// Creates a flag of `/projects/:id` with a default strategy and a user list strategy.
pub async fn flag(client: &Client, path: &str, name: &str, list: i64) {
    let strategies = json!([
        {"name": "default"},
        {"name": "serviceUserList", "user_list_id": list, "scopes": [{"environment_scope": "staging"}, {"environment_scope": "review/*"}]},
    ]);
    let body = json!({"name": name, "strategies": strategies});
    client.post(&format!("{path}/feature_flags"), body).await.expect(201);
}

fn basic_plan() -> ConfigOptions {
    ConfigOptions { plan: Some("starter".to_owned()), ..ConfigOptions::default() }
}

/// Returns the environment scopes of a strategy.
fn scopes(strategy: &Value) -> Vec<&str> {
    let scopes = strategy["scopes"].as_array().expect("scopes").iter();
    scopes.map(|scope| scope["environment_scope"].as_str().expect("a text")).collect()
}

async fn strategies_of_a_form_are_separate(server: TestServer) {
    let root = server.root();
    let all = format!("/projects/{}/feature_flags", project(&root, "work", json!({})).await);
    let mut pairs = vec![("name", "rollout"), ("version", "new_version_flag")];
    for percentage in ["10", "20"] {
        pairs.extend([
            ("strategies[][parameters][percentage]", percentage),
            ("strategies[][parameters][groupId]", "default"),
            ("strategies[][name]", "gradualRolloutUserId"),
        ]);
    }
    let created = root.post_form(&all, &pairs).await.expect(201).json();
    let strategies = created["strategies"].as_array().expect("strategies").iter();
    let percentages: Vec<&Value> = strategies.map(|strategy| &strategy["parameters"]["percentage"]).collect();
    assert_eq!(percentages, ["10", "20"]);
}

async fn feature_flag_lifecycle(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    let path = format!("/projects/{work}");
    let all = format!("{path}/feature_flags");
    assert_eq!(root.get(&all).await.expect(200).json(), json!([]));
    let (iid, list) = user_list(&root, &path, "early birds").await;
    let list_shown = root.get(&format!("{path}/feature_flags_user_lists/{iid}")).await.expect(200).json();
    let created = root.post(&all, json!({
        "name": "new_checkout", "description": "The new checkout", "active": false, "version": "new_version_flag",
        "strategies": [
            {"name": "default", "parameters": {}, "scopes": [{"environment_scope": "staging"}, {"environment_scope": "review/*"}]},
            {"name": "gradualRolloutUserId", "parameters": {"groupId": "default", "percentage": 25}},
            {"name": "userWithId", "parameters": {"userIds": "a,b"}},
            {"name": "flexibleRollout", "parameters": {"groupId": "a", "rollout": "5", "stickiness": "random"}},
            {"name": "serviceUserList", "user_list_id": list},
            {"name": "gitlabUserList", "user_list_id": list, "parameters": {}},
        ],
    })).await.expect(201).json();
    let own = |index: usize, name: &str, parameters: Value, list: Value| {
        let strategy = &created["strategies"][index];
        json!({"id": strategy["id"], "name": name, "parameters": parameters, "scopes": strategy["scopes"], "user_list": list})
    };
    assert_eq!(
        created,
        json!({
            "name": "new_checkout", "description": "The new checkout", "active": false, "version": "new_version_flag",
            "created_at": created["created_at"], "updated_at": created["updated_at"], "scopes": [],
            "strategies": [
                own(0, "default", json!({}), json!(null)),
                own(1, "gradualRolloutUserId", json!({"groupId": "default", "percentage": "25"}), json!(null)),
                own(2, "userWithId", json!({"userIds": "a,b"}), json!(null)),
                own(3, "flexibleRollout", json!({"groupId": "a", "rollout": "5", "stickiness": "random"}), json!(null)),
                own(4, "serviceUserList", json!({}), list_shown.clone()),
                own(5, "gitlabUserList", json!({}), list_shown),
            ],
        })
    );
    assert_eq!(scopes(&created["strategies"][0]), ["staging", "review/*"]);
    assert_eq!(scopes(&created["strategies"][1]), ["*"]);
    let one = format!("{all}/new_checkout");
    assert_eq!(root.get(&one).await.expect(200).json(), created);
    let plain = root.post(&all, json!({"name": "plain"})).await.expect(201).json();
    assert_eq!(
        (&plain["active"], &plain["description"], &plain["strategies"]),
        (&json!(true), &json!(null), &json!([]))
    );
    let listed = root.get(&all).await.expect(200);
    assert_eq!((listed.json(), listed.header("x-total")), (json!([created, plain]), "2"));
    assert_eq!(root.get(&format!("{all}?scope=enabled")).await.expect(200).json(), json!([plain]));
    assert_eq!(root.get(&format!("{all}?scope=disabled")).await.expect(200).json(), json!([created]));
    assert_eq!(root.get(&format!("{all}?per_page=1&page=2")).await.expect(200).json(), json!([plain]));
    root.get(&format!("{all}?scope=all")).await.expect(400);
    let changed =
        root.put(&one, json!({"name": "checkout", "description": null, "active": true})).await.expect(200).json();
    assert_eq!(
        (&changed["name"], &changed["description"], &changed["active"]),
        (&json!("checkout"), &json!(null), &json!(true))
    );
    assert_eq!(changed["strategies"], created["strategies"]);
    root.get(&one).await.expect(404);
    let one = format!("{all}/checkout");
    assert_eq!(root.put(&one, json!({})).await.expect(200).json()["strategies"], created["strategies"]);
    let early = root.clone().header("If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:00 GMT");
    early.delete(&one).await.expect(412);
    let deleted = root.delete(&one).await.expect(200).json();
    assert_eq!((&deleted["name"], &deleted["strategies"]), (&json!("checkout"), &created["strategies"]));
    for response in [root.get(&one).await, root.delete(&one).await, root.put(&one, json!({"active": true})).await] {
        assert_eq!((response.status, response.message()), (404, "404 Not found".to_owned()));
    }
    assert_eq!(root.get(&all).await.expect(200).json(), json!([plain]));
}

async fn update_flag_changes_strategies_and_scopes_by_id(server: TestServer) {
    let root = server.root();
    let path = format!("/projects/{}", project(&root, "work", json!({})).await);
    let (_, list) = user_list(&root, &path, "list").await;
    flag(&root, &path, "f1", list).await;
    flag(&root, &path, "f2", list).await;
    let one = format!("{path}/feature_flags/f1");
    let before = root.get(&one).await.expect(200).json();
    let (first, second) = (before["strategies"][0]["id"].clone(), before["strategies"][1]["id"].clone());
    let put = async |strategies: Value| root.put(&one, json!({"strategies": strategies})).await;
    // One strategy is changed, one stays, one is new.
    let rollout = json!({"groupId": "a", "percentage": "50"});
    let changed = put(json!([
        {"id": first, "name": "gradualRolloutUserId", "parameters": rollout},
        {"name": "userWithId", "parameters": {"userIds": ""}, "scopes": [{"environment_scope": "production"}]},
    ]))
    .await
    .expect(200)
    .json()["strategies"]
        .clone();
    assert_eq!(
        changed[0],
        json!({
            "id": first, "name": "gradualRolloutUserId", "parameters": rollout, "scopes": before["strategies"][0]["scopes"], "user_list": null,
        })
    );
    assert_eq!(changed[1], before["strategies"][1]);
    assert_eq!((&changed[2]["name"], scopes(&changed[2])), (&json!("userWithId"), vec!["production"]));
    // Only the parameters are changed.
    let changed =
        put(json!([{"id": first, "parameters": {"groupId": "a", "percentage": "60"}}])).await.expect(200).json();
    assert_eq!(changed["strategies"][0]["parameters"]["percentage"], "60");
    // Two scopes are swapped, one is added, one is removed.
    let (a, b) = (changed["strategies"][1]["scopes"][0].clone(), changed["strategies"][1]["scopes"][1].clone());
    let swapped = put(json!([{"id": second, "scopes": [
        {"id": a["id"], "environment_scope": b["environment_scope"]}, {"id": b["id"], "environment_scope": a["environment_scope"]},
        {"environment_scope": "production"},
    ]}])).await.expect(200).json();
    let shown = &swapped["strategies"][1]["scopes"];
    assert_eq!((shown[0]["id"].clone(), shown[1]["id"].clone()), (a["id"].clone(), b["id"].clone()));
    assert_eq!(scopes(&swapped["strategies"][1]), ["review/*", "staging", "production"]);
    let fewer = put(json!([{"id": second, "scopes": [{"id": a["id"], "_destroy": true}]}])).await.expect(200).json();
    assert_eq!(scopes(&fewer["strategies"][1]), ["staging", "production"]);
    // One strategy changes its kind and loses its list, and one is removed.
    let left = put(json!([
        {"id": second, "name": "default", "user_list_id": null}, {"id": first, "_destroy": true}, {"_destroy": true},
    ]))
    .await
    .expect(200)
    .json()["strategies"]
        .clone();
    assert_eq!(left.as_array().expect("a list").len(), 2);
    assert_eq!((&left[0]["id"], &left[0]["name"], &left[0]["user_list"]), (&second, &json!("default"), &json!(null)));
    // Strategies of another flag and removed ones return 404, and nothing is changed.
    let foreign = root.get(&format!("{path}/feature_flags/f2")).await.expect(200).json()["strategies"][0].clone();
    for strange in [
        json!({"id": first, "_destroy": true}),
        json!({"id": foreign["id"], "_destroy": true}),
        json!({"id": foreign["id"], "name": "default"}),
        json!({"id": second, "scopes": [{"id": foreign["scopes"][0]["id"], "environment_scope": "x"}]}),
        json!({"id": second, "scopes": [{"id": foreign["scopes"][0]["id"], "_destroy": true}]}),
    ] {
        put(json!([{"name": "default"}, strange])).await.expect(404);
    }
    put(json!([{"id": second, "_destroy": true}, {"id": second, "_destroy": true}])).await.expect(404);
    assert_eq!(root.get(&one).await.expect(200).json()["strategies"], left);
    assert_eq!(root.get(&format!("{path}/feature_flags/f2")).await.expect(200).json()["strategies"][0], foreign);
}

async fn invalid_flag_attributes_are_rejected_and_change_nothing(server: TestServer) {
    let root = server.root();
    let path = format!("/projects/{}", project(&root, "work", json!({})).await);
    let other = format!("/projects/{}", project(&root, "other", json!({})).await);
    let (_, list) = user_list(&root, &path, "list").await;
    let (_, foreign) = user_list(&root, &other, "theirs").await;
    flag(&root, &path, "taken", list).await;
    let all = format!("{path}/feature_flags");
    let before = root.get(&all).await.expect(200).json();
    let one = format!("{all}/taken");
    let id = before[0]["strategies"][0]["id"].clone();
    let message = async |body: Value| root.post(&all, body).await.expect(400).json()["message"].clone();
    assert_eq!(message(json!({})).await, "name is missing");
    for name in ["", "a", "A1", "1a", "a-", "a b", "a/b", &"a".repeat(64)] {
        assert!(message(json!({"name": name})).await["name"].is_array(), "{name}");
        root.put(&one, json!({"name": name})).await.expect(400);
    }
    assert_eq!(message(json!({"name": "taken"})).await, json!({"name": ["has already been taken"]}));
    assert_eq!(message(json!({"name": "ab", "version": "legacy_flag"})).await, "version does not have a valid value");
    let named = "strategies[0][name] does not have a valid value";
    assert_eq!(message(json!({"name": "ab", "strategies": [{"name": "nothing"}]})).await, named);
    assert_eq!(message(json!({"name": "ab", "strategies": [{}]})).await, "strategies[0][name] is missing");
    for (strategy, field, text) in [
        (json!({"name": "default", "parameters": {"a": "b"}}), "parameters", "parameters are invalid"),
        (json!({"name": "gradualRolloutUserId"}), "parameters", "parameters are invalid"),
        (
            json!({"name": "gradualRolloutUserId", "parameters": {"groupId": "a", "percentage": "101"}}),
            "parameters",
            "percentage must be a string between 0 and 100 inclusive",
        ),
        (
            json!({"name": "userWithId", "parameters": {"userIds": "a,,b"}}),
            "parameters",
            "must be a string of unique comma separated values each 256 characters or less",
        ),
        (json!({"name": "serviceUserList"}), "user_list_id", "can't be blank"),
        (json!({"name": "gitlabUserList"}), "user_list_id", "can't be blank"),
        (json!({"name": "default", "user_list_id": list}), "user_list_id", "must be blank"),
        (json!({"name": "serviceUserList", "user_list_id": foreign}), "user_list_id", "is invalid"),
        (json!({"name": "serviceUserList", "user_list_id": 4711}), "user_list_id", "is invalid"),
        (
            json!({"name": "default", "scopes": [{"environment_scope": "a"}, {"environment_scope": "a"}]}),
            "scopes",
            "has already been taken",
        ),
        (
            json!({"name": "default", "scopes": [{"environment_scope": " "}]}),
            "scopes][0][environment_scope",
            "can't be blank",
        ),
        (
            json!({"name": "default", "scopes": [{"environment_scope": "a;b"}]}),
            "scopes][0][environment_scope",
            "can contain only letters, digits, '-', '_', '/', '$', '{', '}', '.', '*' and spaces",
        ),
    ] {
        let expected = json!({format!("strategies[1][{field}]"): [text]});
        let both = json!([{"name": "default"}, strategy]);
        assert_eq!(message(json!({"name": "ab", "strategies": both})).await, expected, "{strategy}");
        let put = root.put(&one, json!({"description": "x", "strategies": both})).await.expect(400);
        assert_eq!(put.json()["message"], expected, "{strategy}");
    }
    let missing = root.put(&one, json!({"strategies": [{"id": id, "scopes": [{}]}]})).await.expect(400);
    assert_eq!(missing.message(), "strategies[0][scopes][0][environment_scope] is missing");
    assert_eq!(
        root.put(&one, json!({"strategies": [{}]})).await.expect(400).message(),
        "strategies[0][name] is missing"
    );
    let many: Vec<Value> = (0..51).map(|_| json!({"name": "default"})).collect();
    message(json!({"name": "ab", "strategies": many})).await;
    root.put(&one, json!({"strategies": many[..49]})).await.expect(400);
    let many: Vec<Value> = (0..50).map(|number| json!({"environment_scope": format!("e{number}")})).collect();
    root.put(&one, json!({"strategies": [{"id": id, "scopes": many}]})).await.expect(400);
    for bad in [json!("x"), json!({"a": 1}), json!([1]), json!([{"name": "default", "parameters": "x"}])] {
        root.put(&one, json!({"strategies": bad})).await.expect(400);
    }
    root.put(&one, json!({"description": "a\0"})).await.expect(400);
    assert_eq!(root.get(&all).await.expect(200).json(), before);
}

async fn delete_user_list_rejects_list_used_by_strategy(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    let path = format!("/projects/{work}");
    let (iid, list) = user_list(&root, &path, "list").await;
    flag(&root, &path, "f1", list).await;
    let one = format!("{path}/feature_flags_user_lists/{iid}");
    let rejected = root.delete(&one).await.expect(409);
    assert_eq!(rejected.message(), "User list is associated with a strategy");
    // The list can still be changed.
    root.put(&one, json!({"user_xids": "other"})).await.expect(200);
    let shown = root.get(&format!("{path}/feature_flags/f1")).await.expect(200).json();
    assert_eq!(shown["strategies"][1]["user_list"]["user_xids"], "other");
    root.delete(&format!("{path}/feature_flags/f1")).await.expect(200);
    root.delete(&one).await.expect(204);
    // Either the list is deleted, or the flag that uses it is created.
    for round in 0..6 {
        let (iid, list) = user_list(&root, &path, &format!("list-{round}")).await;
        let name = format!("flag-{round}");
        let body = json!({"name": name, "strategies": [{"name": "serviceUserList", "user_list_id": list}]});
        let all = format!("{path}/feature_flags");
        let one = format!("{path}/feature_flags_user_lists/{iid}");
        let (created, deleted) = tokio::join!(root.post(&all, body), root.delete(&one));
        assert!(
            matches!((created.status, deleted.status), (201, 409) | (400, 204)),
            "{} {}",
            created.status,
            deleted.status
        );
        let flag = root.get(&format!("{all}/{name}")).await;
        match created.status {
            201 => assert_eq!(flag.expect(200).json()["strategies"][0]["user_list"]["id"], list),
            _ => drop(flag.expect(404)),
        }
    }
    // Deleting a project deletes its flags.
    let db = server.backend.database.write();
    storage::entities::projects::Entity::delete_by_id(work).exec(db).await.expect("a removal");
    assert_eq!(feature_flags::Entity::find().all(db).await.expect("rows"), []);
    assert_eq!(feature_flag_strategies::Entity::find().all(db).await.expect("rows"), []);
    assert_eq!(feature_flag_scopes::Entity::find().all(db).await.expect("rows"), []);
}

async fn feature_flags_require_developer(server: TestServer) {
    let root = server.root();
    let work = format!("/projects/{}", project(&root, "work", json!({"visibility": "public"})).await);
    let (reporter, developer) = (server.create_user("reporter").await, server.create_user("developer").await);
    join(&root, &work, reporter.id, 20).await;
    join(&root, &work, developer.id, 30).await;
    let all = format!("{work}/feature_flags");
    developer.client.post(&all, json!({"name": "flag"})).await.expect(201);
    let one = format!("{all}/flag");
    let non_member = server.create_user("stranger").await.client;
    for (client, status) in [(&server.anonymous(), 401), (&non_member, 403), (&reporter.client, 403)] {
        client.get(&all).await.expect(status);
        client.get(&one).await.expect(status);
        client.get(&format!("{all}/other")).await.expect(status);
        client.post(&all, json!({})).await.expect(status);
        client.put(&one, json!({"name": ""})).await.expect(status);
        client.delete(&one).await.expect(status);
    }
    let other = format!("/projects/{}", project(&root, "other", json!({})).await);
    root.get(&one.replace(&work, &other)).await.expect(404);
    non_member.get(&format!("{other}/feature_flags")).await.expect(404);
    root.post(&format!("{work}/archive"), json!({})).await.expect(201);
    developer.client.get(&one).await.expect(200);
    developer.client.put(&one, json!({"active": false})).await.expect(403);
}

async fn feature_flags_require_premium_plan(server: TestServer) {
    let root = server.root();
    let all = format!("/projects/{}/feature_flags", project(&root, "work", json!({})).await);
    for response in [root.get(&all).await, root.post(&all, json!({})).await, root.get(&format!("{all}/x")).await] {
        assert!(response.expect(403).message().contains("plan"));
    }
}

async fn concurrent_flag_updates_respect_strategy_limit(server: TestServer) {
    let root = server.root();
    let path = format!("/projects/{}", project(&root, "work", json!({})).await);
    let all = format!("{path}/feature_flags");
    root.post(&all, json!({"name": "flag"})).await.expect(201);
    let one = format!("{all}/flag");
    let some: Vec<Value> = (0..20).map(|_| json!({"name": "default"})).collect();
    let puts = (0..4).map(|_| root.put(&one, json!({"strategies": some})));
    let mut statuses: Vec<u16> =
        futures_util::future::join_all(puts).await.iter().map(|response| response.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 200, 400, 400]);
    let remaining = root.get(&one).await.expect(200).json();
    assert_eq!(remaining["strategies"].as_array().expect("a list").len(), 40);
    let same = (0..3).map(|_| root.post(&all, json!({"name": "same"})));
    let mut statuses: Vec<u16> =
        futures_util::future::join_all(same).await.iter().map(|response| response.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 400, 400]);
}

async fn list_feature_flags_statement_count_is_constant(server: TestServer) {
    let root = server.root();
    let path = format!("/projects/{}", project(&root, "work", json!({})).await);
    let (_, list) = user_list(&root, &path, "list").await;
    let count = async || {
        let before = server.statements();
        root.get(&format!("{path}/feature_flags?per_page=100")).await.expect(200);
        server.statements() - before
    };
    flag(&root, &path, "first", list).await;
    let with_one = count().await;
    for number in 0..12 {
        flag(&root, &path, &format!("f{number}"), list).await;
    }
    assert_eq!(count().await, with_one);
}

on_every_database![
    strategies_of_a_form_are_separate,
    feature_flag_lifecycle,
    update_flag_changes_strategies_and_scopes_by_id,
    invalid_flag_attributes_are_rejected_and_change_nothing,
    delete_user_list_rejects_list_used_by_strategy,
    feature_flags_require_developer,
    feature_flags_require_premium_plan with basic_plan(),
    concurrent_flag_updates_respect_strategy_limit,
    list_feature_flags_statement_count_is_constant,
];
