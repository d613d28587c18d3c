//! CI/CD variables of the instance, of projects and of groups.

use sea_orm::EntityTrait;
use serde_json::{Value, json};
use storage::entities::ci_variables;

use crate::support::spaces::{group, join, project};
use crate::support::{Client, TestServer, on_every_database};

const INSTANCE: &str = "/admin/ci/variables";

/// Creates a variable in a list of variables.
pub async fn variable(client: &Client, all: &str, key: &str) {
    client.post(all, json!({ "key": key, "value": "there" })).await.expect(201);
}

/// Creates a project and a group and returns the paths of their variables.
async fn variable_lists(root: &Client) -> [String; 2] {
    let work = project(root, "work", json!({})).await;
    let team = group(root, "team", json!({})).await;
    [format!("/projects/{work}/variables"), format!("/groups/{team}/variables")]
}

async fn message(response: impl Future<Output = crate::support::ApiResponse>) -> Value {
    response.await.expect(400).json()["message"].clone()
}

async fn rows(server: &TestServer) -> Vec<ci_variables::Model> {
    let db = server.backend.database.read();
    ci_variables::Entity::find().all(db).await.expect("rows")
}

async fn variables_can_be_created_read_updated_and_deleted(server: TestServer) {
    let root = server.root();
    let [work, team] = variable_lists(&root).await;
    for (all, kind) in [(INSTANCE, "InstanceVariable"), (&work, "Variable"), (&team, "GroupVariable")] {
        let shape = |mut fields: Value, scope: &str| {
            if all != INSTANCE {
                fields["environment_scope"] = json!(scope);
            }
            fields
        };
        assert_eq!(root.get(all).await.expect(200).json(), json!([]));
        let created =
            root.post(all, json!({ "key": "PLAIN", "value": "a value\nof two lines" })).await.expect(201).json();
        assert_eq!(
            created,
            shape(
                json!({
                    "variable_type": "env_var", "key": "PLAIN", "value": "a value\nof two lines", "protected": false, "masked": false,
                }),
                "*"
            )
        );
        let one = format!("{all}/PLAIN");
        assert_eq!(root.get(&one).await.expect(200).json(), created);
        let body = json!({
            "key": "file_2", "value": "", "variable_type": "file", "protected": true, "environment_scope": "review/*",
        });
        let file = root.post(all, body).await.expect(201).json();
        assert_eq!(
            file,
            shape(
                json!({
                    "variable_type": "file", "key": "file_2", "value": "", "protected": true, "masked": false,
                }),
                "review/*"
            )
        );
        assert_eq!(root.get(all).await.expect(200).json(), json!([created, file]));
        assert_eq!(root.get(&format!("{all}?per_page=1&page=2")).await.expect(200).json(), json!([file]));
        let change =
            json!({ "key": "OTHER", "value": "other-value", "masked": true, "environment_scope": "production" });
        let changed = root.put(&one, change).await.expect(200).json();
        assert_eq!(
            changed,
            shape(
                json!({
                    "variable_type": "env_var", "key": "PLAIN", "value": "other-value", "protected": false, "masked": true,
                }),
                "production"
            )
        );
        assert_eq!(root.get(&one).await.expect(200).json(), changed);
        let early = root.clone().header("If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:00 GMT");
        early.delete(&one).await.expect(412);
        root.delete(&one).await.expect(204);
        let put = json!({ "value": "x" });
        for response in [
            root.get(&one).await,
            root.put(&one, put).await,
            root.delete(&one).await,
            root.get(&format!("{all}/plain")).await,
        ] {
            assert_eq!((response.status, response.message()), (404, format!("404 {kind} Not Found")));
        }
        // Keys are case-sensitive.
        root.get(&format!("{all}/FILE_2")).await.expect(404);
        assert_eq!(root.get(all).await.expect(200).json(), json!([file]));
    }
}

async fn invalid_variables_are_rejected_without_repeating_values(server: TestServer) {
    let root = server.root();
    let [work, team] = variable_lists(&root).await;
    for all in [INSTANCE, &work, &team] {
        let characters = "can contain only letters, digits and '_'.";
        assert_eq!(message(root.post(all, json!({}))).await, json!("key is missing, value is missing"));
        for (key, texts) in [
            ("", json!(["can't be blank", characters])),
            ("a-b", json!([characters])),
            (&"k".repeat(256), json!(["is too long (maximum is 255 characters)"])),
        ] {
            assert_eq!(message(root.post(all, json!({ "key": key, "value": "x" }))).await, json!({ "key": texts }));
        }
        let long = "y".repeat(10_001);
        let rejected = root.post(all, json!({ "key": "K", "value": long })).await.expect(400);
        let text = "The value of the provided variable exceeds the 10000 character limit";
        assert_eq!(rejected.json()["message"], json!({ "value": [text] }));
        for unmaskable in ["short", "with blanks in it", "two\nlines-long", "tilde~tilde"] {
            let body = json!({ "key": "K", "value": unmaskable, "masked": true });
            let rejected = root.post(all, body).await.expect(400);
            assert_eq!(rejected.json()["message"], json!({ "value": ["is invalid"] }), "{unmaskable}");
            assert!(!String::from_utf8_lossy(&rejected.body).contains(unmaskable));
        }
        root.post(all, json!({ "key": "K", "value": "x", "variable_type": "secret" })).await.expect(400);
        root.post(all, json!({ "key": "K", "value": "y".repeat(10_000) })).await.expect(201);
        let again = message(root.post(all, json!({ "key": "K", "value": "planted-value" }))).await;
        assert_eq!(again, json!({ "key": ["(K) has already been taken"] }));
        let one = format!("{all}/K");
        // Value and `masked` are validated together, even if only one of them is sent.
        let masked = json!({ "value": "y y y y y", "masked": true });
        assert_eq!(message(root.put(&one, masked)).await, json!({ "value": ["is invalid"] }));
        root.put(&one, json!({ "value": "long-enough", "masked": true })).await.expect(200);
        assert_eq!(message(root.put(&one, json!({ "value": "short" }))).await, json!({ "value": ["is invalid"] }));
        assert_eq!(root.get(&one).await.expect(200).json()["value"], "long-enough");
        assert_eq!(root.get(all).await.expect(200).pluck("key"), ["K"]);
    }
    assert_eq!(
        message(root.put(&format!("{INSTANCE}/K"), json!({ "masked": false }))).await,
        json!("value is missing")
    );
    for all in [work, team] {
        // Attributes that are not sent keep their values and are validated again.
        let one = format!("{all}/K");
        let remaining = root.put(&one, json!({ "protected": true })).await.expect(200).json();
        assert_eq!(
            (&remaining["value"], &remaining["masked"], &remaining["protected"]),
            (&json!("long-enough"), &json!(true), &json!(true))
        );
        root.put(&one, json!({ "value": "short", "masked": false })).await.expect(200);
        assert_eq!(message(root.put(&one, json!({ "masked": true }))).await, json!({ "value": ["is invalid"] }));
        let scope = json!({ "key": "S", "value": "x", "environment_scope": "a;b" });
        assert!(message(root.post(&all, scope)).await["environment_scope"].is_array());
    }
}

async fn create_variable_rejects_hidden_variables(server: TestServer) {
    let root = server.root();
    let [work, team] = variable_lists(&root).await;
    for all in [INSTANCE, &work, &team] {
        let hidden = json!({ "key": "K", "value": "rather-secret-1", "masked_and_hidden": true });
        let refused = message(root.post(all, hidden)).await;
        assert_eq!(refused, json!({ "masked_and_hidden": ["is not supported; use masked"] }), "{all}");
        assert_eq!(root.get(all).await.expect(200).json(), json!([]));
        let masked = json!({ "key": "K", "value": "rather-secret-1", "masked": true, "masked_and_hidden": false });
        assert_eq!(root.post(all, masked).await.expect(201).json()["masked"], true);
    }
    assert_eq!(rows(&server).await.len(), 3);
}

async fn variable_key_is_unique_per_environment_scope(server: TestServer) {
    let root = server.root();
    for all in variable_lists(&root).await {
        for scope in ["*", "production", "review/*"] {
            let body = json!({ "key": "K", "value": scope, "environment_scope": scope });
            root.post(&all, body.clone()).await.expect(201);
            assert_eq!(message(root.post(&all, body)).await, json!({ "key": ["(K) has already been taken"] }));
        }
        let one = format!("{all}/K");
        let text = "There are multiple variables with provided parameters. Please use 'filter[environment_scope]'";
        for response in [root.get(&one).await, root.put(&one, json!({ "value": "x" })).await, root.delete(&one).await] {
            assert_eq!((response.status, response.message()), (409, text.to_owned()));
        }
        let of = |scope: &str| format!("{one}?filter[environment_scope]={}", scope.replace('/', "%2F"));
        assert_eq!(root.get(&of("review/*")).await.expect(200).json()["value"], "review/*");
        let changed = root.put(&of("production"), json!({ "value": "new" })).await.expect(200).json();
        assert_eq!((&changed["value"], &changed["environment_scope"]), (&json!("new"), &json!("production")));
        let taken = message(root.put(&of("production"), json!({ "environment_scope": "*" }))).await;
        assert_eq!(taken, json!({ "key": ["(K) has already been taken"] }));
        // The filter compares the scope literally and does not match wildcards.
        root.get(&of("review/1")).await.expect(404);
        root.delete(&of("*")).await.expect(204);
        root.delete(&of("review/*")).await.expect(204);
        assert_eq!(root.get(&one).await.expect(200).json()["value"], "new");
    }
}

async fn instance_is_limited_to_25_variables(server: TestServer) {
    let root = server.root();
    for number in 0..24 {
        variable(&root, INSTANCE, &format!("K{number}")).await;
    }
    let [work, _] = variable_lists(&root).await;
    let last = (24..27).map(|number| {
        let (root, body) = (root.clone(), json!({ "key": format!("K{number}"), "value": "x" }));
        async move { root.post(INSTANCE, body).await }
    });
    let responses = futures_util::future::join_all(last).await;
    let mut statuses: Vec<u16> = responses.iter().map(|response| response.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 400, 400]);
    let rejected = responses.iter().find(|response| response.status == 400).expect("a refusal");
    let text = "Maximum number of ci instance level variables (25) exceeded";
    assert_eq!(rejected.json()["message"], json!({ "base": [text] }));
    root.put(&format!("{INSTANCE}/K0"), json!({ "value": "still" })).await.expect(200);
    variable(&root, &work, "K0").await;
    root.delete(&format!("{INSTANCE}/K0")).await.expect(204);
    variable(&root, INSTANCE, "K0").await;
}

async fn variables_require_maintainer_owner_or_administrator(server: TestServer) {
    let root = server.root();
    let work = format!("/projects/{}", project(&root, "work", json!({ "visibility": "public" })).await);
    let team = format!("/groups/{}", group(&root, "team", json!({ "visibility": "public" })).await);
    let non_member = server.create_user("stranger").await.client;
    for (path, least) in [(&work, 40), (&team, 50)] {
        let (below, enough) =
            (server.create_user(&format!("below-{least}")).await, server.create_user(&format!("with-{least}")).await);
        join(&root, path, below.id, least - 10).await;
        join(&root, path, enough.id, least).await;
        let all = format!("{path}/variables");
        variable(&enough.client, &all, "K").await;
        for (client, status) in [(&server.anonymous(), 401), (&non_member, 403), (&below.client, 403)] {
            expect_status_of_all(client, &all, status).await;
        }
        enough.client.get(&all).await.expect(200);
        expect_status_of_all(&enough.client, INSTANCE, 403).await;
    }
    expect_status_of_all(&server.anonymous(), INSTANCE, 401).await;
    let hidden = project(&root, "hidden", json!({})).await;
    non_member.get(&format!("/projects/{hidden}/variables")).await.expect(404);
    let reading = server.with_token(&server.create_token(1, &["read_user"]).await);
    reading.get(INSTANCE).await.expect(403);
}

async fn variable_values_are_encrypted_per_row(server: TestServer) {
    let root = server.root();
    let [work, team] = variable_lists(&root).await;
    for all in [INSTANCE, &work, &team] {
        root.post(all, json!({ "key": "K", "value": format!("planted {all}") })).await.expect(201);
    }
    let remaining = rows(&server).await;
    assert_eq!(remaining.len(), 3);
    for row in &remaining {
        assert!(row.value_encrypted.starts_with("v1.") && !row.value_encrypted.contains("planted"));
        // A value copied to another row cannot be decrypted.
        for other in &remaining {
            let path = format!("ci_variables.value:{}", other.id);
            let opened = server.backend.keyring.decrypt(&row.value_encrypted, &path);
            assert_eq!(opened.is_ok_and(|value| value.expose().starts_with("planted")), row.id == other.id);
        }
    }
}

async fn delete_project_or_group_deletes_its_variables(server: TestServer) {
    let root = server.root();
    let [work, team] = variable_lists(&root).await;
    for all in [INSTANCE, &work, &team] {
        variable(&root, all, "K").await;
    }
    let db = server.backend.database.write();
    let id = |all: &str| all.split('/').nth(2).and_then(|id| id.parse::<i64>().ok()).expect("an id");
    storage::entities::projects::Entity::delete_by_id(id(&work)).exec(db).await.expect("a removal");
    storage::entities::namespaces::Entity::delete_by_id(id(&team)).exec(db).await.expect("a removal");
    let left = rows(&server).await;
    assert_eq!(left.len(), 1);
    assert!(left[0].instance.is_some());
}

on_every_database![
    variables_can_be_created_read_updated_and_deleted,
    invalid_variables_are_rejected_without_repeating_values,
    create_variable_rejects_hidden_variables,
    variable_key_is_unique_per_environment_scope,
    instance_is_limited_to_25_variables,
    variables_require_maintainer_owner_or_administrator,
    variable_values_are_encrypted_per_row,
    delete_project_or_group_deletes_its_variables,
];

/// Sends every operation, with invalid bodies too, and expects this status.
async fn expect_status_of_all(client: &Client, all: &str, status: u16) {
    let one = format!("{all}/K");
    client.get(all).await.expect(status);
    client.get(&one).await.expect(status);
    client.post(all, json!({})).await.expect(status);
    client.put(&one, json!({ "masked": "perhaps" })).await.expect(status);
    client.delete(&one).await.expect(status);
}
