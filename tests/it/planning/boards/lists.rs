//! Lists of boards.

use serde_json::{Value, json};

use super::{board, list};
use crate::planning::labels::label;
use crate::planning::milestones::milestone;
use crate::support::spaces::{group, project};
use crate::support::{Client, TestServer, on_every_database};

/// Returns the IDs of a board's lists in the order of their positions, and asserts that positions have no gap.
async fn order(client: &Client, path: &str) -> Vec<i64> {
    let lists = client.get(&format!("{path}/lists?per_page=100")).await.expect(200);
    let positions: Vec<i64> = lists.pluck("position").iter().filter_map(Value::as_i64).collect();
    assert!(positions.iter().copied().eq(0..positions.len() as i64), "{positions:?}");
    let ids = lists.pluck("id");
    let on_board = client.get(path).await.expect(200).json()["lists"].clone();
    let shown: Vec<Value> = on_board.as_array().expect("lists").iter().map(|list| list["id"].clone()).collect();
    assert_eq!(ids, shown);
    ids.iter().filter_map(Value::as_i64).collect()
}

async fn board_list_lifecycle(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    let team = group(&root, "team", json!({})).await;
    for parent in [format!("/projects/{work}"), format!("/groups/{team}")] {
        let number = board(&root, &parent, "x").await;
        let path = format!("{parent}/boards/{number}");
        let bug = label(&root, &parent, "bug").await;
        let v1 = milestone(&root, &parent, "v1").await;
        let of_label = list(&root, &parent, number, json!({ "label_id": bug })).await;
        let of_milestone = list(&root, &parent, number, json!({ "milestone_id": v1 })).await;
        let of_user = list(&root, &parent, number, json!({ "assignee_id": 1 })).await;
        assert_eq!(order(&root, &path).await, [of_label, of_milestone, of_user]);
        let one = format!("{path}/lists/{of_label}");
        let found = root.get(&one).await.expect(200).json();
        assert_eq!(
            (&found["label"]["name"], &found["milestone"], &found["assignee"]),
            (&json!("bug"), &Value::Null, &Value::Null)
        );
        let found = root.get(&format!("{path}/lists/{of_milestone}")).await.expect(200).json();
        assert_eq!((&found["milestone"]["title"], &found["label"]), (&json!("v1"), &Value::Null));
        let found = root.get(&format!("{path}/lists/{of_user}")).await.expect(200).json();
        assert_eq!((&found["assignee"]["username"], &found["position"]), (&json!("root"), &json!(2)));
        let moved = root.put(&one, json!({ "position": 1 })).await.expect(200).json();
        assert_eq!(moved["position"], 1);
        assert_eq!(order(&root, &path).await, [of_milestone, of_label, of_user]);
        let last = root.put(&one, json!({ "position": 4711 })).await.expect(200).json();
        assert_eq!(last["position"], 2);
        root.put(&one, json!({ "position": 0 })).await.expect(200);
        assert_eq!(order(&root, &path).await, [of_label, of_milestone, of_user]);
        for bad in [json!({}), json!({ "position": -1 }), json!({ "position": "x" })] {
            root.put(&one, bad).await.expect(400);
        }
        for bad in [
            json!({}),
            json!({ "label_id": bug, "milestone_id": v1 }),
            json!({ "label_id": bug }),
            json!({ "label_id": 4711 }),
            json!({ "milestone_id": 4711 }),
            json!({ "assignee_id": 4711 }),
        ] {
            root.post(&format!("{path}/lists"), bad).await.expect(400);
        }
        let early = root.clone().header("If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:00 GMT");
        early.delete(&one).await.expect(412);
        root.delete(&format!("{path}/lists/{of_milestone}")).await.expect(204);
        assert_eq!(order(&root, &path).await, [of_label, of_user]);
        // Deleting a label deletes its list.
        root.delete(&format!("{parent}/labels/{bug}")).await.expect(204);
        assert_eq!(order(&root, &path).await, [of_user]);
        assert_eq!(root.get(&one).await.expect(404).message(), "404 List Not Found");
        root.put(&one, json!({ "position": 0 })).await.expect(404);
        root.delete(&one).await.expect(404);
        let unused_address = format!("{parent}/boards/4711/lists");
        root.get(&unused_address).await.expect(404);
        root.post(&unused_address, json!({ "assignee_id": 1 })).await.expect(404);
    }
}

async fn board_list_accepts_only_own_and_ancestor_labels_and_milestones(server: TestServer) {
    let root = server.root();
    let team = group(&root, "team", json!({})).await;
    let work = format!("/projects/{}", project(&root, "work", json!({ "namespace_id": team })).await);
    let other = format!("/projects/{}", project(&root, "other", json!({})).await);
    let team = format!("/groups/{team}");
    let one = board(&root, &work, "x").await;
    let above = label(&root, &team, "above").await;
    let v1 = milestone(&root, &team, "v1").await;
    list(&root, &work, one, json!({ "label_id": above })).await;
    let found = list(&root, &work, one, json!({ "milestone_id": v1 })).await;
    let page = root.get(&format!("{work}/boards/{one}/lists/{found}")).await.expect(200).json()["milestone"]["web_url"]
        .clone();
    assert!(page.as_str().expect("an address").ends_with("/groups/team/-/milestones/1"), "{page}");
    let foreign = label(&root, &other, "foreign").await;
    let v2 = milestone(&root, &other, "v2").await;
    for bad in [json!({ "label_id": foreign }), json!({ "milestone_id": v2 })] {
        root.post(&format!("{work}/boards/{one}/lists"), bad).await.expect(400);
    }
    root.get(&format!("{other}/boards/{one}")).await.expect(404);
}

async fn concurrent_list_moves_leave_no_position_gaps(server: TestServer) {
    let root = server.root();
    let work = format!("/projects/{}", project(&root, "work", json!({})).await);
    let one = board(&root, &work, "x").await;
    let path = format!("{work}/boards/{one}");
    let mut labels = Vec::new();
    for number in 0..6 {
        labels.push(label(&root, &work, &format!("l{number}")).await);
    }
    let added = labels.iter().map(|label| list(&root, &work, one, json!({ "label_id": label })));
    let mut lists = futures_util::future::join_all(added).await;
    let all = format!("{path}/lists");
    let same = (0..3).map(|_| root.post(&all, json!({ "assignee_id": 1 })));
    let same = futures_util::future::join_all(same).await;
    assert_eq!(same.iter().filter(|response| response.status == 201).count(), 1);
    let moves = lists.iter().enumerate().map(|(number, list)| {
        let (root, path) = (root.clone(), format!("{path}/lists/{list}"));
        async move { root.put(&path, json!({ "position": 5 - number })).await.expect(200) }
    });
    futures_util::future::join_all(moves).await;
    let mut after = order(&root, &path).await;
    assert_eq!(after.len(), 7);
    after.retain(|id| lists.contains(id));
    after.sort_unstable();
    lists.sort_unstable();
    assert_eq!(after, lists);
}

on_every_database![
    board_list_lifecycle,
    board_list_accepts_only_own_and_ancestor_labels_and_milestones,
    concurrent_list_moves_leave_no_position_gaps,
];
