//! Gates that are open for single users, groups and projects.

use serde_json::json;

use super::{gate, gate_json, post};
use crate::support::spaces::{group, project};
use crate::support::{TestServer, on_every_database};

async fn gate_targets_can_be_added_and_removed(server: TestServer) {
    let root = server.root();
    let ada = server.create_user("ada").await.id;
    let team = group(&root, "Team", json!({})).await;
    let work = project(&root, "work", json!({"namespace_id": team})).await;
    let all =
        json!({"value": true, "feature_group": "perf_team", "user": "ADA", "group": "team", "project": "team/work"});
    let actors = json!([format!("User:{ada}"), format!("Group:{team}"), format!("Project:{work}")]);
    let open = gate_json("g", "conditional", false, &[("actors", actors), ("groups", json!(["perf_team"]))]);
    for _ in 0..2 {
        assert_eq!(gate(&root, "g", all.clone()).await, open);
    }
    // A percentage does not change the actors.
    let share = gate(&root, "g", json!({"value": 20, "user": "root"})).await;
    assert_eq!(share["gates"][1], json!({"key": "percentage_of_time", "value": 20}));
    assert_eq!(share["gates"][2], open["gates"][1]);
    let fewer = gate(&root, "g", json!({"value": false, "user": "ada", "feature_group": "perf_team"})).await;
    let left = json!([format!("Group:{team}"), format!("Project:{work}")]);
    let expected = [("percentage_of_time", json!(20)), ("actors", left)];
    assert_eq!(fewer, gate_json("g", "conditional", false, &expected));
    // A boolean value clears the targets.
    assert_eq!(gate(&root, "g", json!({"value": false})).await, gate_json("g", "off", false, &[]));
    gate(&root, "g", all.clone()).await;
    assert_eq!(gate(&root, "g", json!({"value": true})).await, gate_json("g", "on", true, &[]));
    // Targets do not change the state of an open gate.
    assert_eq!(gate(&root, "g", json!({"value": true, "user": "ada"})).await["state"], "on");
    assert_eq!(gate(&root, "g", json!({"value": false, "user": "ada"})).await, gate_json("g", "on", true, &[]));
    // The gate is closed when its last target is removed.
    gate(&root, "h", json!({"value": true, "project": "team/work"})).await;
    let closed = gate(&root, "h", json!({"value": false, "project": "team/work"})).await;
    assert_eq!(closed, gate_json("h", "off", false, &[]));
}

async fn unknown_gate_targets_are_ignored(server: TestServer) {
    let root = server.root();
    project(&root, "work", json!({})).await;
    for body in [
        json!({"value": true, "user": "missing-user", "group": "nowhere", "project": "no/where"}),
        // The path of a user is not a group, and IDs are not names.
        json!({"value": true, "group": "root", "user": "1", "project": "1"}),
        json!({"value": true, "user": "", "feature_group": " "}),
        json!({"value": true, "user": "'; --", "group": "%", "project": "%/%"}),
    ] {
        let name = body.to_string();
        assert_eq!(gate(&root, &name, body).await, gate_json(&name, "off", false, &[]));
    }
    post(&root, "g", json!({"value": true, "feature_group": "x".repeat(256)})).await.expect(400);
}

async fn deleted_targets_are_removed_from_gate(server: TestServer) {
    let root = server.root();
    let ada = server.create_user("ada").await.id;
    let team = group(&root, "team", json!({})).await;
    let work = project(&root, "work", json!({})).await;
    gate(&root, "g", json!({"value": true, "user": "ada", "group": "team", "project": "root/work"})).await;
    root.delete(&format!("/projects/{work}")).await.expect(202);
    root.delete(&format!("/groups/{team}")).await.expect(202);
    root.delete(&format!("/users/{ada}")).await.expect(204);
    server.finish_jobs().await;
    assert_eq!(root.get("/features").await.expect(200).json(), json!([gate_json("g", "off", false, &[])]));
}

on_every_database![
    gate_targets_can_be_added_and_removed,
    unknown_gate_targets_are_ignored,
    deleted_targets_are_removed_from_gate,
];
