//! Issues made and changed at the same time.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::{open, public_project};
use crate::support::scenario;

scenario! {
    async fn two_hundred_at_once_get_numbers_without_a_gap(server) {
        let root = server.root();
        let id = public_project(&server, "busy").await;
        let path = format!("/projects/{id}/issues");
        let made = join_all((0..200).map(|number| {
            // Some name the same labels, some do not do at all and must take no number.
            let title = if number % 10 == 9 { String::new() } else { format!("Issue {number}") };
            root.post(&path, json!({"title": title, "labels": format!("l{}", number % 3)}))
        }))
        .await;
        let (made, refused): (Vec<_>, Vec<_>) = made.into_iter().partition(|answer| answer.status == 201);
        assert!(refused.iter().all(|answer| answer.status == 400));
        let numbers: BTreeSet<i64> = made.iter().map(|answer| answer.json()["iid"].as_i64().expect("a number")).collect();
        assert_eq!((made.len(), numbers), (180, (1..=180).collect()));
        let labels = root.get(&format!("/projects/{id}/labels")).await.expect(200).pluck("name");
        assert_eq!(labels, ["l0", "l1", "l2"].map(Value::from));
    }

    async fn of_changes_at_once_none_is_lost(server) {
        let root = server.root();
        let id = public_project(&server, "shared").await;
        let iid = open(&root, id, json!({"title": "t"})).await;
        let path = format!("/projects/{id}/issues/{iid}");
        let added = join_all((0..20).map(|number| root.put(&path, json!({"add_labels": format!("label {number}")})))).await;
        assert!(added.iter().all(|answer| answer.status == 200));
        let labels = root.get(&path).await.expect(200).json()["labels"].as_array().map(Vec::len);
        assert_eq!(labels, Some(20));
        let spend = format!("{path}/add_spent_time");
        let spent = join_all((0..20).map(|_| root.post(&spend, json!({"duration": "1m"})))).await;
        assert!(spent.iter().all(|answer| answer.status == 201));
        assert_eq!(root.get(&path).await.expect(200).json()["time_stats"]["total_time_spent"], 1200);
    }

    async fn an_edit_and_a_removal_at_once_leave_one_outcome(server) {
        let root = server.root();
        let id = public_project(&server, "torn").await;
        for _ in 0..10 {
            let iid = open(&root, id, json!({"title": "t"})).await;
            let path = format!("/projects/{id}/issues/{iid}");
            let (edited, removed) =
                tokio::join!(root.put(&path, json!({"state_event": "close"})), root.delete(&path));
            assert!([200, 404].contains(&edited.status), "{edited:?}");
            assert_eq!(removed.status, 204);
            root.get(&path).await.expect(404);
        }
    }
}
