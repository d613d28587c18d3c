//! Evaluation of gates.

use domain::instance::feature_gates::{GateActors, is_open};
use domain::kernel::caller::Caller;
use sea_orm::{ActiveModelTrait, ActiveValue::Set, IntoActiveModel};
use serde_json::{Value, json};
use storage::entities::users;

use super::gate;
use crate::support::process::{Site, TOKEN, on_every_site};
use crate::support::spaces::{group, project};
use crate::support::{Client, DatabaseKind, TestServer, on_every_database};

/// A path behind a gate that is open by default.
const BEHIND: &str = "/admin/ci/variables";
const NAME: &str = "ci_instance_level_variables";

/// Returns whether a gate is open for a caller in a project or group.
async fn open_for(server: &TestServer, name: &str, caller: &Caller, space: (Option<i64>, Option<i64>)) -> bool {
    let actors = GateActors { caller, project_id: space.0, namespace_id: space.1 };
    is_open(&server.backend, name, false, actors).await.expect("a response")
}

/// Creates an administrator.
async fn administrator(server: &TestServer, name: &str) -> (users::Model, Client) {
    let member = server.create_user(name).await;
    let mut row = member.row.into_active_model();
    row.admin = Set(true);
    let row = row.update(server.backend.database.write()).await.expect("a row");
    (row, member.client)
}

async fn gate_change_takes_effect_on_next_request(server: TestServer) {
    let (root, (ada, of_ada)) = (server.root(), administrator(&server, "ada").await);
    let responses = async || {
        // Two requests each, so that the second one uses the cache.
        let mut statuses = Vec::new();
        for client in [&root, &root, &of_ada, &of_ada] {
            statuses.push(client.get(BEHIND).await.status);
        }
        assert_eq!((statuses[0], statuses[2]), (statuses[1], statuses[3]));
        (statuses[0], statuses[2])
    };
    assert_eq!(responses().await, (200, 200));
    for (body, expected) in [
        (json!({"value": false}), (404, 404)),
        (json!({"value": true}), (200, 200)),
        (json!({"value": 0}), (404, 404)),
        (json!({"value": 100}), (200, 200)),
        (json!({"value": false}), (404, 404)),
        (json!({"value": true, "user": "ada"}), (404, 200)),
        (json!({"value": false, "user": "ada"}), (404, 404)),
        (json!({"value": true, "feature_group": "administrators"}), (200, 200)),
        (json!({"value": false}), (404, 404)),
        (json!({"value": true, "feature_group": "external_users"}), (404, 404)),
        (json!({"value": 0, "key": "percentage_of_actors"}), (404, 404)),
        (json!({"value": 100, "key": "percentage_of_actors"}), (200, 200)),
    ] {
        gate(&root, NAME, body.clone()).await;
        assert_eq!(responses().await, expected, "{body}");
    }
    // Writes return 404 too.
    gate(&root, NAME, json!({"value": false})).await;
    let hidden = root.post(BEHIND, json!({"key": "A", "value": "x"})).await.expect(404);
    assert_eq!(hidden.message(), "404 Not found");
    root.delete(&format!("{BEHIND}/A")).await.expect(404);
    server.create_user("stranger").await.client.get(BEHIND).await.expect(403);
    server.anonymous().get(BEHIND).await.expect(401);
    // Without the gate, the default of the contract applies.
    root.delete(&format!("/features/{NAME}")).await.expect(204);
    assert_eq!(responses().await, (200, 200));
    assert!(ada.admin);
}

async fn percentage_of_time_opens_for_share_of_requests(server: TestServer) {
    let root = server.root();
    gate(&root, NAME, json!({"value": 50})).await;
    let mut open = 0;
    for _ in 0..120 {
        match root.get(BEHIND).await.status {
            200 => open += 1,
            status => assert_eq!(status, 404),
        }
    }
    assert!((20..=100).contains(&open), "{open} of 120");
}

async fn percentage_of_actors_is_stable_and_monotonic(server: TestServer) {
    let root = server.root();
    let mut callers = Vec::new();
    for number in 0..40 {
        callers.push(Caller::user(server.create_user(&format!("person-{number}")).await.row));
    }
    let mut former: Vec<usize> = Vec::new();
    for (percent, likely) in [(0, 0..=0), (25, 1..=24), (60, 10..=38), (100, 40..=40)] {
        gate(&root, "g", json!({"value": percent, "key": "percentage_of_actors"})).await;
        let mut inside = Vec::new();
        for (number, caller) in callers.iter().enumerate() {
            let first = open_for(&server, "g", caller, (None, None)).await;
            // The caller determines the result even in a project or group.
            assert_eq!(open_for(&server, "g", caller, (Some(1), Some(1))).await, first);
            if first {
                inside.push(number);
            }
        }
        assert!(former.iter().all(|number| inside.contains(number)), "{percent}: {former:?} {inside:?}");
        assert!(likely.contains(&inside.len()), "{percent}: {inside:?}");
        former = inside;
    }
    // For anonymous callers, the project or group determines the result.
    let anonymous = Caller::anonymous();
    assert!(open_for(&server, "g", &anonymous, (Some(1), Some(1))).await);
    assert!(!open_for(&server, "g", &anonymous, (None, None)).await);
}

async fn gate_for_group_applies_to_subgroups_and_projects(server: TestServer) {
    let root = server.root();
    let top = group(&root, "top", json!({})).await;
    let low = group(&root, "low", json!({"parent_id": top})).await;
    let other = group(&root, "other", json!({})).await;
    let inside = project(&root, "inside", json!({"namespace_id": low})).await;
    let outside = project(&root, "outside", json!({"namespace_id": other})).await;
    let ada = Caller::user(server.create_user("ada").await.row);
    let spaces = [
        (None, Some(top)),
        (None, Some(low)),
        (Some(inside), Some(low)),
        (None, Some(other)),
        (Some(outside), Some(other)),
    ];
    let open = async |name: &str| {
        let mut open = Vec::new();
        for space in spaces {
            let first = open_for(&server, name, &ada, space).await;
            assert_eq!(open_for(&server, name, &Caller::anonymous(), space).await, first);
            open.push(first);
        }
        open
    };
    gate(&root, "g", json!({"value": true, "group": "top"})).await;
    assert_eq!(open("g").await, [true, true, true, false, false]);
    gate(&root, "p", json!({"value": true, "project": "other/outside"})).await;
    assert_eq!(open("p").await, [false, false, false, false, true]);
    gate(&root, "l", json!({"value": true, "group": "top/low"})).await;
    assert_eq!(open("l").await, [false, true, true, false, false]);
    assert_eq!(open("never set").await, [false; 5]);
    // A transferred group keeps its own gates and loses those of its former ancestors.
    root.post(&format!("/groups/{low}/transfer"), json!({"group_id": other})).await.expect(201);
    assert_eq!(open("g").await, [true, false, false, false, false]);
    assert_eq!(open("l").await, [false, true, true, false, false]);
}

async fn feature_groups_match_kinds_of_users(server: TestServer) {
    let root = server.root();
    let plain = server.create_user("plain").await.row;
    let kinds: [(&str, users::Model); 3] = [
        ("administrators", users::Model { admin: true, ..plain.clone() }),
        ("bots", users::Model { bot: true, id: -1, ..plain.clone() }),
        ("external_users", users::Model { external: true, id: -2, ..plain.clone() }),
    ];
    for (name, _) in &kinds {
        gate(&root, name, json!({"value": true, "feature_group": name})).await;
    }
    gate(&root, "unknown", json!({"value": true, "feature_group": "unknown"})).await;
    for (name, row) in &kinds {
        for (other, _) in &kinds {
            // The cache assumes stored rows, and these users are not stored.
            server.backend.database.invalidate();
            let caller = Caller::user(row.clone());
            assert_eq!(open_for(&server, other, &caller, (None, None)).await, name == other, "{name} {other}");
            assert!(!open_for(&server, "unknown", &caller, (None, None)).await);
        }
        server.backend.database.invalidate();
        assert!(!open_for(&server, name, &Caller::user(plain.clone()), (None, None)).await);
        assert!(!open_for(&server, name, &Caller::anonymous(), (None, None)).await);
    }
}

async fn feature_paths_accept_duplicate_slashes(server: TestServer) {
    let root = server.root();
    let created = root.post("/features//walk", json!({"value": true})).await.expect(201).json();
    assert_eq!((&created["name"], &created["state"]), (&json!("walk"), &json!("on")));
    for path in ["/features", "/features/"] {
        assert_eq!(root.get(path).await.expect(200).pluck("name"), ["walk"], "{path}");
    }
    root.delete("/features//walk").await.expect(204);
    assert_eq!(root.get("/features/").await.expect(200).json(), json!([]));
}

on_every_database![
    gate_change_takes_effect_on_next_request,
    percentage_of_time_opens_for_share_of_requests,
    percentage_of_actors_is_stable_and_monotonic,
    gate_for_group_applies_to_subgroups_and_projects,
    feature_groups_match_kinds_of_users,
    feature_paths_accept_duplicate_slashes,
];

async fn gate_change_applies_to_other_node_at_once(site: Site) {
    let mut nodes = vec![site.serve(&[]).await];
    // An instance on SQLite has one server.
    if let DatabaseKind::Postgresql(_) = site.kind {
        nodes.push(site.serve(&[]).await);
    }
    let clients = [0, nodes.len() - 1].map(|node| Client::new(&nodes[node].base, Some(TOKEN)));
    for round in 0..6 {
        let (writer, reader) = (&clients[round % 2], &clients[(round + 1) % 2]);
        let open: Value = json!(round % 3 == 0);
        gate(writer, NAME, json!({"value": open})).await;
        let expected = if open == true { 200 } else { 404 };
        for _ in 0..2 {
            reader.get(BEHIND).await.expect(expected);
            writer.get(BEHIND).await.expect(expected);
        }
    }
    for node in nodes {
        node.stop().await;
    }
}

on_every_site![gate_change_applies_to_other_node_at_once,];
