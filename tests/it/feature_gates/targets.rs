//! Gates that are open for some.

use serde_json::json;

use super::{gate, post, shown};
use crate::support::places::{group, project};
use crate::support::{TestServer, on_every_database};

async fn users_groups_projects_and_feature_groups_are_named_together_and_taken_back(server: TestServer) {
    let root = server.root();
    let ada = server.person("ada").await.id;
    let team = group(&root, "Team", json!({})).await;
    let work = project(&root, "work", json!({"namespace_id": team})).await;
    let all =
        json!({"value": true, "feature_group": "perf_team", "user": "ADA", "group": "team", "project": "team/work"});
    let actors = json!([format!("User:{ada}"), format!("Group:{team}"), format!("Project:{work}")]);
    let open = shown("g", "conditional", false, &[("actors", actors), ("groups", json!(["perf_team"]))]);
    for _ in 0..2 {
        assert_eq!(gate(&root, "g", all.clone()).await, open);
    }
    // With a share beside them, which does not touch them.
    let share = gate(&root, "g", json!({"value": 20, "user": "root"})).await;
    assert_eq!(share["gates"][1], json!({"key": "percentage_of_time", "value": 20}));
    assert_eq!(share["gates"][2], open["gates"][1]);
    let fewer = gate(&root, "g", json!({"value": false, "user": "ada", "feature_group": "perf_team"})).await;
    let left = json!([format!("Group:{team}"), format!("Project:{work}")]);
    let expected = [("percentage_of_time", json!(20)), ("actors", left)];
    assert_eq!(fewer, shown("g", "conditional", false, &expected));
    // What is said of everybody forgets them.
    assert_eq!(gate(&root, "g", json!({"value": false})).await, shown("g", "off", false, &[]));
    gate(&root, "g", all.clone()).await;
    assert_eq!(gate(&root, "g", json!({"value": true})).await, shown("g", "on", true, &[]));
    // Somebody who is named beside everybody changes nothing for the others.
    assert_eq!(gate(&root, "g", json!({"value": true, "user": "ada"})).await["state"], "on");
    // When the last one goes, it is closed.
    gate(&root, "h", json!({"value": true, "project": "team/work"})).await;
    let closed = gate(&root, "h", json!({"value": false, "project": "team/work"})).await;
    assert_eq!(closed, shown("h", "off", false, &[]));
}

async fn names_that_nobody_has_are_overlooked(server: TestServer) {
    let root = server.root();
    project(&root, "work", json!({})).await;
    for wish in [
        json!({"value": true, "user": "nobody", "group": "nowhere", "project": "no/where"}),
        // What names a user is no group, and numbers are no names.
        json!({"value": true, "group": "root", "user": "1", "project": "1"}),
        json!({"value": true, "user": "", "feature_group": " "}),
        json!({"value": true, "user": "'; --", "group": "%", "project": "%/%"}),
    ] {
        let name = wish.to_string();
        assert_eq!(gate(&root, &name, wish).await, shown(&name, "off", false, &[]));
    }
    post(&root, "g", json!({"value": true, "feature_group": "x".repeat(256)})).await.expect(400);
}

async fn who_is_gone_is_named_no_more(server: TestServer) {
    let root = server.root();
    let ada = server.person("ada").await.id;
    let team = group(&root, "team", json!({})).await;
    let work = project(&root, "work", json!({})).await;
    gate(&root, "g", json!({"value": true, "user": "ada", "group": "team", "project": "root/work"})).await;
    root.delete(&format!("/projects/{work}")).await.expect(202);
    root.delete(&format!("/groups/{team}")).await.expect(202);
    root.delete(&format!("/users/{ada}")).await.expect(204);
    server.finish_jobs().await;
    assert_eq!(root.get("/features").await.expect(200).json(), json!([shown("g", "off", false, &[])]));
}

on_every_database![
    users_groups_projects_and_feature_groups_are_named_together_and_taken_back,
    names_that_nobody_has_are_overlooked,
    who_is_gone_is_named_no_more,
];
