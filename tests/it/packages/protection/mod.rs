//! Package protection rules.

mod enforcement;

use serde_json::{Value, json};
use storage::entities::{AccessLevel, Visibility};

use crate::support::spaces::{id, project};
use crate::support::{Client, TestServer, on_every_database};

/// Returns the path of the rules of a project.
pub fn rules(project: i64) -> String {
    format!("/projects/{project}/packages/protection/rules")
}

/// Creates a rule that requires a level for uploads and another level for deletions.
pub async fn rule(client: &Client, project: i64, kind: &str, pattern: &str, levels: [Option<&str>; 2]) -> Value {
    let body = json!({
        "package_name_pattern": pattern,
        "package_type": kind,
        "minimum_access_level_for_push": levels[0],
        "minimum_access_level_for_delete": levels[1],
    });
    client.post(&rules(project), body).await.expect(201).json()
}

async fn rule_lifecycle(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    let all = rules(work);
    let created = rule(&root, work, "npm", "@engines/*", [Some("maintainer"), None]).await;
    let mut expected = json!({
        "id": created["id"],
        "project_id": work,
        "package_name_pattern": "@engines/*",
        "package_type": "npm",
        "minimum_access_level_for_push": "maintainer",
        "minimum_access_level_for_delete": null,
    });
    assert_eq!(created, expected);
    let body =
        json!({ "package_name_pattern": "gear", "package_type": "cargo", "minimum_access_level_for_delete": "admin" });
    let second = root.post(&all, body).await.expect(201).json();
    let listed = root.get(&all).await.expect(200);
    assert_eq!((listed.json(), listed.header("x-total")), (json!([created, second]), "2"));
    assert_eq!(root.get(&format!("{all}?per_page=1&page=2")).await.expect(200).json(), json!([second]));
    let one = format!("{all}/{}", created["id"]);
    let changes = json!({ "package_name_pattern": "web", "minimum_access_level_for_delete": "owner" });
    expected["package_name_pattern"] = json!("web");
    expected["minimum_access_level_for_delete"] = json!("owner");
    assert_eq!(root.patch(&one, changes.clone()).await.expect(200).json(), expected);
    let changes = json!({ "minimum_access_level_for_push": null, "package_type": "pypi" });
    expected["minimum_access_level_for_push"] = json!(null);
    expected["package_type"] = json!("pypi");
    assert_eq!(root.patch(&one, changes).await.expect(200).json(), expected);
    assert_eq!(root.patch(&one, json!({})).await.expect(200).json(), expected);
    root.delete(&one).await.expect(204);
    root.delete(&one).await.expect(404);
    root.patch(&one, json!({ "package_type": "npm" })).await.expect(404);
    assert_eq!(root.get(&all).await.expect(200).json(), json!([second]));
    let other = project(&root, "other", json!({})).await;
    let foreign = format!("{}/{}", rules(other), second["id"]);
    root.patch(&foreign, json!({ "package_type": "npm" })).await.expect(404);
    root.delete(&foreign).await.expect(404);
    let one = format!("{all}/{}", second["id"]);
    let old = root.clone().header("If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:00 GMT");
    old.delete(&one).await.expect(412);
    let events = root.get(&format!("/projects/{work}/audit_events?per_page=1")).await.expect(200).json();
    assert_eq!(events[0]["details"]["event_name"], "package_protection_rule_deleted");
}

async fn invalid_rules_are_refused(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    let all = rules(work);
    let valid = json!({
        "package_name_pattern": "a", "package_type": "npm", "minimum_access_level_for_push": "owner",
    });
    let needed = "minimum_access_level_for_push or minimum_access_level_for_delete is required";
    for (attribute, value, expected) in [
        ("package_name_pattern", json!(null), "package_name_pattern"),
        ("package_name_pattern", json!(""), "package_name_pattern"),
        ("package_name_pattern", json!(" "), "package_name_pattern is empty"),
        ("package_name_pattern", json!("a\nb"), "package_name_pattern is invalid"),
        ("package_name_pattern", json!("a\u{0}"), "package_name_pattern is invalid"),
        ("package_name_pattern", json!("x".repeat(256)), "package_name_pattern"),
        ("package_type", json!("conan"), "package_type does not have a valid value"),
        (
            "minimum_access_level_for_push",
            json!("developer"),
            "minimum_access_level_for_push does not have a valid value",
        ),
        ("minimum_access_level_for_push", json!(null), needed),
        ("minimum_access_level_for_delete", json!(40), "minimum_access_level_for_delete does not have a valid value"),
    ] {
        let mut sent = valid.clone();
        sent[attribute] = value;
        let refused = root.post(&all, sent).await.expect(400);
        assert!(refused.message().starts_with(expected), "{attribute}: {}", refused.message());
    }
    root.post(&all, json!({})).await.expect(400);
    let first = root.post(&all, valid.clone()).await.expect(201).json();
    let taken = root.post(&all, valid.clone()).await.expect(422);
    assert_eq!(taken.message(), "Package name pattern has already been taken");
    let mut other = valid;
    other["package_type"] = json!("pypi");
    let second = root.post(&all, other).await.expect(201).json();
    let one = format!("{all}/{}", second["id"]);
    let taken = root.patch(&one, json!({ "package_type": "npm" })).await.expect(422);
    assert_eq!(taken.message(), "Package name pattern has already been taken");
    let refused = root.patch(&one, json!({ "minimum_access_level_for_push": null })).await.expect(400);
    assert_eq!(refused.message(), needed);
    root.patch(&one, json!({ "package_name_pattern": "\t" })).await.expect(400);
    root.patch(&format!("{all}/x"), json!({})).await.expect(400);
    root.delete(&format!("{all}/x")).await.expect(400);
    let large = json!({ "package_name_pattern": "x".repeat(2 << 20) });
    root.post(&all, large.clone()).await.expect(413);
    root.patch(&one, large).await.expect(413);
    assert_eq!(root.get(&all).await.expect(200).json(), json!([first, second]));
}

async fn number_of_rules_is_limited(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    for number in 0..98 {
        rule(&root, work, "generic", &format!("a{number}"), [Some("owner"), None]).await;
    }
    // Concurrent requests cannot exceed the limit.
    let create = |number: usize| {
        let root = root.clone();
        let body = json!({
            "package_name_pattern": format!("b{number}"), "package_type": "npm", "minimum_access_level_for_push": "owner",
        });
        async move { root.post(&rules(work), body).await }
    };
    let responses = futures_util::future::join_all((0..5).map(create)).await;
    let mut statuses: Vec<u16> = responses.iter().map(|response| response.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 201, 400, 400, 400]);
    let refused = responses.iter().find(|response| response.status == 400).expect("a refusal");
    assert_eq!(refused.message(), "The maximum number of package protection rules (100) is reached");
}

async fn maintainers_manage_rules(server: TestServer) {
    let private = server.insert_project_at("g/p", Visibility::Private).await.id;
    let created = rule(&server.root(), private, "npm", "a", [Some("owner"), None]).await;
    let one = format!("{}/{}", rules(private), id(&created));
    let statuses = async |client: &Client, pattern: &str| {
        let body = json!({
            "package_name_pattern": pattern, "package_type": "npm", "minimum_access_level_for_push": "admin",
        });
        [
            client.get(&rules(private)).await.status,
            client.post(&rules(private), body).await.status,
            client.patch(&one, json!({ "minimum_access_level_for_delete": "owner" })).await.status,
            client.delete(&format!("{}/999999", rules(private))).await.status,
        ]
    };
    for (level, expected) in [
        (AccessLevel::Guest, [403; 4]),
        (AccessLevel::Reporter, [403; 4]),
        (AccessLevel::Developer, [403; 4]),
        (AccessLevel::Maintainer, [200, 201, 200, 404]),
        (AccessLevel::Owner, [200, 201, 200, 404]),
    ] {
        let name = format!("{level:?}").to_lowercase();
        let user = server.create_user(&name).await;
        server.insert_member(private, user.id, level).await;
        assert_eq!(statuses(&user.client, &name).await, expected, "{level:?}");
    }
    let outsider = server.create_user("outsider").await;
    assert_eq!(statuses(&outsider.client, "x").await, [404; 4]);
    assert_eq!(statuses(&server.anonymous(), "x").await, [401; 4]);
    let narrow = server.with_token(&server.create_token(1, &["read_api"]).await);
    assert_eq!(statuses(&narrow, "x").await, [200, 403, 403, 403]);
}

on_every_database![rule_lifecycle, invalid_rules_are_refused, number_of_rules_is_limited, maintainers_manage_rules,];
