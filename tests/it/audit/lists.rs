//! Lists of audit events: attributes, filters, pages and access.

use chrono::TimeDelta;
use serde_json::{Value, json};
use storage::entities::{AccessLevel, now};

use super::{events, newest};
use crate::support::spaces::{group, id, join, project};
use crate::support::{TestServer, on_every_database};

async fn event_has_author_entity_object_and_values(server: TestServer) {
    let (ada, root) = (server.create_user("ada").await, server.root());
    let engines = group(&ada.client, "engines", json!({ "visibility": "public" })).await;
    let work = project(&ada.client, "work", json!({ "namespace_id": engines })).await;
    let path = format!("/projects/{work}");
    ada.client.put(&path, json!({ "visibility": "internal" })).await.expect(200);
    let event = newest(&server, "project_visibility_changed").await;
    let token = server.token_row(&ada.token).await.id;
    assert_eq!(
        event,
        json!({
            "id": event["id"], "author_id": ada.id, "entity_id": work, "entity_type": "Project",
            "details": {
                "event_name": "project_visibility_changed", "change": "visibility", "from": "private", "to": "internal",
                "author_name": "Name of ada", "target_id": work, "target_type": "Project",
                "target_details": "engines/work", "ip_address": "127.0.0.1", "entity_path": "engines/work",
                "access_token_id": token,
            },
            "created_at": event["created_at"],
        })
    );
    for path in [
        format!("/audit_events/{}", event["id"]),
        format!("/projects/{work}/audit_events/{}", event["id"]),
        format!("/projects/engines%2Fwork/audit_events/{}", event["id"]),
    ] {
        assert_eq!(root.get(&path).await.expect(200).json(), event, "{path}");
    }
    let member = server.create_user("bob").await;
    join(&ada.client, &path, member.id, 30).await;
    let added = newest(&server, "member_added").await;
    assert_eq!((&added["details"]["add"], &added["details"]["to"]), (&json!("user_access"), &json!("Developer")));
    assert_eq!(
        (&added["details"]["target_id"], &added["details"]["target_details"]),
        (&json!(member.id), &json!("bob"))
    );
    ada.client.delete(&format!("{path}/members/{}", member.id)).await.expect(204);
    let removed = newest(&server, "member_removed").await;
    assert_eq!(removed["details"]["remove"], "user_access");
    assert_eq!((&removed["details"]["from"], removed["details"].get("to")), (&json!("Developer"), None));
}

async fn filters_select_entity_and_time(server: TestServer) {
    let root = server.root();
    let (one, other) = (group(&root, "one", json!({})).await, group(&root, "other", json!({})).await);
    let work = project(&root, "work", json!({ "namespace_id": one })).await;
    let ids = async |query: &str| {
        let listed = root.get(&format!("/audit_events{query}")).await.expect(200).json();
        let listed = listed.as_array().expect("a list").clone();
        listed.iter().map(|event| (event["entity_type"].clone(), event["entity_id"].clone())).collect::<Vec<_>>()
    };
    let of_group = (json!("Group"), json!(one));
    let found = ids(&format!("?entity_type=Group&entity_id={one}")).await;
    assert!(!found.is_empty() && found.iter().all(|entity| *entity == of_group), "{found:?}");
    let found = ids("?entity_type=Group").await;
    assert!(found.contains(&of_group) && found.contains(&(json!("Group"), json!(other))));
    assert!(found.iter().all(|(kind, _)| kind == "Group"));
    assert!(ids("?entity_type=Project").await.iter().all(|entity| *entity == (json!("Project"), json!(work))));
    assert_eq!(ids(&format!("?entity_type=Project&entity_id={}", work + 1)).await, []);
    let rejected = root.get("/audit_events?entity_id=1").await.expect(400);
    assert!(rejected.text().contains("entity_id requires entity_type"), "{}", rejected.text());
    root.get("/audit_events?entity_type=Issue").await.expect(400);
    let at = |delta: TimeDelta| (now() + delta).format("%Y-%m-%dT%H:%M:%SZ").to_string();
    let (past, future) = (at(TimeDelta::hours(-1)), at(TimeDelta::hours(1)));
    assert_eq!(ids(&format!("?created_before={past}")).await, []);
    assert_eq!(ids(&format!("?created_after={future}")).await, []);
    assert_eq!(ids(&format!("?created_after={past}&created_before={future}&per_page=100")).await.len(), {
        events(&server).await.len()
    });
    // The time of an event selects it in both directions.
    let event = newest(&server, "project_created").await;
    let time = event["created_at"].as_str().expect("a time");
    for filter in ["created_after", "created_before"] {
        let listed = root.get(&format!("/projects/{work}/audit_events?{filter}={time}")).await.expect(200);
        assert!(listed.pluck("id").contains(&event["id"]), "{filter}");
    }
}

async fn pages_are_offset_or_keyset(server: TestServer) {
    let root = server.root();
    let engines = group(&root, "engines", json!({})).await;
    for name in ["a", "b", "c"] {
        root.put(&format!("/groups/{engines}"), json!({ "name": name })).await.expect(200);
    }
    let path = format!("/groups/{engines}/audit_events");
    let all = root.get(&path).await.expect(200);
    assert_eq!((all.header("x-total"), all.header("x-per-page")), ("5", "20"));
    let all = all.pluck("id");
    let second = root.get(&format!("{path}?per_page=2&page=2")).await.expect(200);
    assert_eq!(second.pluck("id"), all[2..4]);
    assert_eq!(second.header("x-next-page"), "3");
    let first = root.get(&format!("{path}?per_page=2&pagination=keyset")).await.expect(200);
    assert_eq!(first.pluck("id"), all[..2]);
    assert_eq!(first.header("x-total"), "");
    assert!(first.header("link").contains(&format!("id_before={}", all[1])), "{}", first.header("link"));
    let next = root.get(&format!("{path}?per_page=2&pagination=keyset&id_before={}", all[1])).await.expect(200);
    assert_eq!(next.pluck("id"), all[2..4]);
}

async fn lists_require_administrator_owner_or_maintainer(server: TestServer) {
    let root = server.root();
    let engines = group(&root, "engines", json!({})).await;
    let work = project(&root, "work", json!({ "namespace_id": engines })).await;
    let of_group = newest(&server, "group_created").await["id"].clone();
    let of_project = newest(&server, "project_created").await["id"].clone();
    let members = server.create_member_per_role(&root, engines).await;
    for (level, member) in members {
        let status = |least: AccessLevel| if level >= i64::from(i32::from(least)) { 200 } else { 403 };
        for (path, status) in [
            ("/audit_events".to_owned(), 403),
            (format!("/audit_events/{of_group}"), 403),
            (format!("/groups/{engines}/audit_events"), status(AccessLevel::Owner)),
            (format!("/groups/{engines}/audit_events/{of_group}"), status(AccessLevel::Owner)),
            (format!("/projects/{work}/audit_events"), status(AccessLevel::Maintainer)),
            (format!("/projects/{work}/audit_events/{of_project}"), status(AccessLevel::Maintainer)),
        ] {
            assert_eq!(member.client.get(&path).await.status, status, "{path} {level}");
        }
    }
    let stranger = server.create_user("stranger").await.client;
    for (client, hidden) in [(&server.anonymous(), 401), (&stranger, 404)] {
        client.get(&format!("/groups/{engines}/audit_events")).await.expect(hidden);
        client.get(&format!("/projects/{work}/audit_events/{of_project}")).await.expect(hidden);
    }
    server.anonymous().get("/audit_events").await.expect(401);
    // An event of another entity is not found.
    root.get(&format!("/groups/{engines}/audit_events/{of_project}")).await.expect(404);
    root.get(&format!("/projects/{work}/audit_events/{of_group}")).await.expect(404);
    root.get("/audit_events/999999").await.expect(404);
}

async fn events_of_deleted_project_remain_for_administrators(server: TestServer) {
    let root = server.root();
    root.put("/application/settings", json!({ "deletion_adjourned_period": 0 })).await.expect(200);
    let work = project(&root, "work", json!({})).await;
    root.delete(&format!("/projects/{work}")).await.expect(202);
    server.finish_jobs().await;
    root.get(&format!("/projects/{work}/audit_events")).await.expect(404);
    let query = format!("/audit_events?entity_type=Project&entity_id={work}");
    let names: Vec<Value> = root
        .get(&query)
        .await
        .expect(200)
        .pluck("details")
        .into_iter()
        .map(|details| details["event_name"].clone())
        .collect();
    assert_eq!(names.first(), Some(&json!("project_deleted")));
    assert_eq!(names.last(), Some(&json!("project_created")).or(names.last()));
    assert!(names.contains(&json!("project_created")));
}

async fn lists_run_a_fixed_number_of_statements(server: TestServer) {
    let root = server.root();
    let engines = group(&root, "engines", json!({})).await;
    let path = format!("/groups/{engines}/audit_events");
    let count = async || {
        root.get(&path).await.expect(200);
        let before = server.statements();
        root.get(&format!("{path}?page=1")).await.expect(200);
        server.statements() - before
    };
    let few = count().await;
    for number in 0..12 {
        root.put(&format!("/groups/{engines}"), json!({ "name": format!("name {number}") })).await.expect(200);
    }
    assert_eq!(count().await, few);
    assert!(few <= 5, "{few}");
    let listed = root.get(&path).await.json();
    assert!(listed.as_array().expect("a list").iter().all(|event| id(event) > 0));
}

on_every_database![
    event_has_author_entity_object_and_values,
    filters_select_entity_and_time,
    pages_are_offset_or_keyset,
    lists_require_administrator_owner_or_maintainer,
    events_of_deleted_project_remain_for_administrators,
    lists_run_a_fixed_number_of_statements,
];
