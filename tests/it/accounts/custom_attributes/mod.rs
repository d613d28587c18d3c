//! Custom attributes of projects, groups and users.

use serde_json::{Value, json};

use crate::support::client::segment;
use crate::support::spaces::{group, project};
use crate::support::{Client, TestServer, on_every_database};

async fn paths(client: &Client, query: &str) -> Vec<Value> {
    let list = client.get(&format!("/projects?order_by=id&sort=asc&{query}")).await;
    list.expect(200).pluck("path")
}

async fn custom_attribute_lifecycle(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    let team = group(&root, "team", json!({})).await;
    let ada = server.create_user("ada").await;
    root.get("/users/missing-user/custom_attributes").await.expect(404);
    root.put("/users/missing-user/custom_attributes/a", json!({"value": "1"})).await.expect(404);
    for base_path in [format!("/projects/{work}"), format!("/groups/{team}"), "/users/ADA".to_owned()] {
        let all = format!("{base_path}/custom_attributes");
        assert_eq!(root.get(&all).await.expect(200).json(), json!([]));
        root.get(&format!("{all}/centre")).await.expect(404);
        root.delete(&format!("{all}/centre")).await.expect(404);
        for (key, value) in [("centre", "1"), ("area/ö \"x\"", "<b>"), ("centre", "4711")] {
            let set = root.put(&format!("{all}/{}", segment(key)), json!({"value": value})).await.expect(200);
            assert_eq!(set.json(), json!({"key": key, "value": value}));
        }
        assert_eq!(root.get(&format!("{all}/centre")).await.expect(200).json()["value"], "4711");
        let list = root.get(&all).await.expect(200);
        assert_eq!(list.header("x-total"), "2");
        assert_eq!(list.json(), json!([{"key": "area/ö \"x\"", "value": "<b>"}, {"key": "centre", "value": "4711"}]));
        root.delete(&format!("{all}/centre")).await.expect(204);
        assert_eq!(root.get(&all).await.expect(200).pluck("key"), ["area/ö \"x\""]);
        root.put(&format!("{all}/centre"), json!({})).await.expect(400);
        root.put(&format!("{all}/centre"), json!({"value": ""})).await.expect(400);
        root.put(&format!("{all}/centre"), json!({"value": "a\0"})).await.expect(400);
        root.put(&format!("{all}/{}", "k".repeat(256)), json!({"value": "1"})).await.expect(400);
        root.get(&format!("{all}/%00")).await.expect(400);
        root.delete(&format!("{all}/%00")).await.expect(400);
        root.get(&format!("{all}?page=x")).await.expect(400);
        root.put(&format!("{all}/a"), json!({"value": "x".repeat(1 << 20)})).await.expect(413);
        ada.client.get(&all).await.expect(if base_path.starts_with("/users") { 403 } else { 404 });
    }
}

async fn project_attribute_filters_require_administrator(server: TestServer) {
    let root = server.root();
    let ada = server.create_user("ada").await;
    let a = project(&ada.client, "a", json!({})).await;
    let b = project(&ada.client, "b", json!({})).await;
    for (id, key, value) in [(a, "centre", "1"), (a, "area", "x"), (b, "centre", "1")] {
        root.put(&format!("/projects/{id}/custom_attributes/{key}"), json!({"value": value})).await.expect(200);
    }
    assert_eq!(paths(&root, "custom_attributes[centre]=1").await, ["a", "b"]);
    assert_eq!(paths(&root, "custom_attributes[centre]=1&custom_attributes[area]=x").await, ["a"]);
    assert_eq!(
        paths(&root, "custom_attributes[centre]=1&custom_attributes[area]=x&search=b").await,
        Vec::<Value>::new()
    );
    assert_eq!(paths(&root, "custom_attributes[centre]=2").await, Vec::<Value>::new());
    assert_eq!(paths(&ada.client, "custom_attributes[centre]=2").await, ["a", "b"]);
    let many: String = (0..51).map(|number| format!("custom_attributes[k{number}]=1&")).collect();
    root.get(&format!("/projects?{many}")).await.expect(400);
    let seen = async |client: &Client, path: &str| client.get(path).await.expect(200).json();
    let one = format!("/projects/{a}?with_custom_attributes=true");
    let both = json!([{"key": "area", "value": "x"}, {"key": "centre", "value": "1"}]);
    assert_eq!(seen(&root, &one).await["custom_attributes"], both);
    assert!(seen(&ada.client, &one).await.get("custom_attributes").is_none());
    let list = "/projects?with_custom_attributes=true&order_by=id&sort=asc";
    assert_eq!(seen(&root, list).await[0]["custom_attributes"], both);
    assert!(seen(&ada.client, list).await[0].get("custom_attributes").is_none());
    assert!(seen(&root, "/projects").await[0].get("custom_attributes").is_none());
    let user = seen(&root, "/users/ada/projects?custom_attributes[area]=x").await;
    assert_eq!(user[0]["path"], "a");
}

async fn group_lists_show_attributes_only_to_administrators(server: TestServer) {
    let (root, ada) = (server.root(), server.create_user("ada").await);
    let outer = group(&ada.client, "outer", json!({})).await;
    let inner = group(&ada.client, "inner", json!({ "parent_id": outer })).await;
    let work = project(&ada.client, "work", json!({ "namespace_id": outer })).await;
    for path in [format!("/groups/{outer}"), format!("/groups/{inner}"), format!("/projects/{work}")] {
        for key in ["centre", "area"] {
            root.put(&format!("{path}/custom_attributes/{key}"), json!({"value": path})).await.expect(200);
        }
    }
    let of = |path: String| json!([{"key": "area", "value": path}, {"key": "centre", "value": path}]);
    let with = "with_custom_attributes=true";
    let expected = of(format!("/groups/{inner}"));
    for list in ["subgroups", "descendant_groups", "descendants"] {
        let path = format!("/groups/{outer}/{list}");
        assert_eq!(
            root.get(&format!("{path}?{with}")).await.expect(200).pluck("custom_attributes"),
            std::slice::from_ref(&expected)
        );
        assert_eq!(
            ada.client.get(&format!("{path}?{with}")).await.expect(200).pluck("custom_attributes"),
            [Value::Null]
        );
        assert_eq!(root.get(&path).await.expect(200).pluck("custom_attributes"), [Value::Null]);
    }
    let all = root.get(&format!("/groups?{with}&order_by=id")).await.expect(200).pluck("custom_attributes");
    assert_eq!(all, [of(format!("/groups/{outer}")), expected]);
    let one = root.get(&format!("/groups/{outer}?{with}")).await.expect(200).json();
    assert_eq!(one["custom_attributes"], of(format!("/groups/{outer}")));
    assert!(ada.client.get(&format!("/groups/{outer}?{with}")).await.json().get("custom_attributes").is_none());
    let projects = root.get(&format!("/groups/{outer}/projects?{with}")).await.expect(200);
    assert_eq!(projects.pluck("custom_attributes"), [of(format!("/projects/{work}"))]);
    let cost = async || {
        let before = server.statements();
        root.get(&format!("/groups?{with}")).await.expect(200);
        server.statements() - before
    };
    let few = cost().await;
    for name in ["a", "b", "c"] {
        group(&ada.client, name, json!({})).await;
    }
    assert_eq!(cost().await, few);
}

async fn group_and_user_attribute_filters_require_administrator(server: TestServer) {
    let root = server.root();
    let (ada, ben) = (server.create_user("ada").await, server.create_user("ben").await);
    let outer = group(&ada.client, "outer", json!({})).await;
    let inner = group(&ada.client, "inner", json!({ "parent_id": outer })).await;
    for (path, key, value) in [
        (format!("/groups/{outer}"), "centre", "1"),
        (format!("/groups/{inner}"), "centre", "1"),
        (format!("/groups/{inner}"), "area", "x"),
        (format!("/users/{}", ada.id), "centre", "1"),
        (format!("/users/{}", ben.id), "centre", "1"),
        (format!("/users/{}", ben.id), "area", "x"),
    ] {
        root.put(&format!("{path}/custom_attributes/{key}"), json!({"value": value})).await.expect(200);
    }
    let names = async |client: &Client, path: &str, attribute: &str, query: &str| {
        client.get(&format!("{path}?order_by=id&sort=asc&{query}")).await.expect(200).pluck(attribute)
    };
    for (query, groups, users) in [
        ("custom_attributes[centre]=1", &["outer", "inner"][..], &["ada", "ben"][..]),
        ("custom_attributes[centre]=1&custom_attributes[area]=x", &["inner"], &["ben"]),
        ("custom_attributes[centre]=2", &[], &[]),
    ] {
        assert_eq!(names(&root, "/groups", "path", query).await, groups, "{query}");
        assert_eq!(names(&root, "/users", "username", query).await, users, "{query}");
    }
    let below = format!("/groups/{outer}/subgroups");
    assert_eq!(names(&root, &below, "path", "custom_attributes[area]=x").await, ["inner"]);
    assert_eq!(names(&root, &below, "path", "custom_attributes[area]=y").await, Vec::<Value>::new());
    // The filters are ignored for other callers.
    let ignored = "custom_attributes[centre]=2";
    assert_eq!(names(&ada.client, "/groups", "path", ignored).await, ["outer", "inner"]);
    assert_eq!(names(&ada.client, "/users", "username", ignored).await.len(), 3);
    let many: String = (0..51).map(|number| format!("custom_attributes[k{number}]=1&")).collect();
    for path in ["/groups", "/users"] {
        root.get(&format!("{path}?{many}")).await.expect(400);
    }
}

async fn users_show_attributes_only_to_administrators(server: TestServer) {
    let (root, ada) = (server.root(), server.create_user("ada").await);
    let one = format!("/users/{}", ada.id);
    for key in ["centre", "area"] {
        root.put(&format!("{one}/custom_attributes/{key}"), json!({"value": "1"})).await.expect(200);
    }
    let both = json!([{"key": "area", "value": "1"}, {"key": "centre", "value": "1"}]);
    let with = "with_custom_attributes=true";
    assert_eq!(root.get(&format!("{one}?{with}")).await.expect(200).json()["custom_attributes"], both);
    let listed = root.get(&format!("/users?order_by=id&{with}")).await.expect(200).pluck("custom_attributes");
    assert_eq!(listed, [both, json!([])]);
    for path in [one.clone(), "/users".to_owned()] {
        assert!(!root.get(&path).await.expect(200).text().contains("custom_attributes"), "{path}");
        let hidden = ada.client.get(&format!("{path}?{with}")).await.expect(200).text();
        assert!(!hidden.contains("custom_attributes"), "{path}");
    }
    let cost = async || {
        let before = server.statements();
        root.get(&format!("/users?{with}")).await.expect(200);
        server.statements() - before
    };
    let few = cost().await;
    for name in ["ben", "cy"] {
        server.create_user(name).await;
    }
    assert_eq!(cost().await, few);
}

async fn attributes_are_limited_to_100_and_survive_concurrent_writes(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    let all = format!("/projects/{work}/custom_attributes");
    let same = (0..4).map(|number| {
        let (root, path) = (root.clone(), format!("{all}/same"));
        async move { root.put(&path, json!({"value": number.to_string()})).await }
    });
    for response in futures_util::future::join_all(same).await {
        response.expect(200);
    }
    for number in 1..100 {
        root.put(&format!("{all}/k{number}"), json!({"value": "1"})).await.expect(200);
    }
    root.put(&format!("{all}/more"), json!({"value": "1"})).await.expect(400);
    root.put(&format!("{all}/same"), json!({"value": "2"})).await.expect(200);
    assert_eq!(root.get(&all).await.expect(200).header("x-total"), "100");
}

on_every_database![
    custom_attribute_lifecycle,
    project_attribute_filters_require_administrator,
    group_lists_show_attributes_only_to_administrators,
    group_and_user_attribute_filters_require_administrator,
    users_show_attributes_only_to_administrators,
    attributes_are_limited_to_100_and_survive_concurrent_writes,
];
