//! Time tracking of issues.

use serde_json::json;

use super::{open, public_project, system_notes};
use crate::support::{TestServer, on_every_database};

async fn time_tracking_sets_adds_and_resets_times(server: TestServer) {
    let root = server.root();
    let id = public_project(&server, "timed").await;
    let iid = open(&root, id, json!({"title": "t"})).await;
    let path = format!("/projects/{id}/issues/{iid}");
    let post = async |operation: &str, body, status| {
        root.post(&format!("{path}/{operation}"), body).await.expect(status).json()
    };
    let estimated = post("time_estimate", json!({"duration": "1d 2h"}), 200).await;
    assert_eq!((&estimated["time_estimate"], &estimated["human_time_estimate"]), (&json!(36_000), &json!("1d 2h")));
    let spent = post("add_spent_time", json!({"duration": "90m"}), 201).await;
    assert_eq!((&spent["total_time_spent"], &spent["human_total_time_spent"]), (&json!(5400), &json!("1h 30m")));
    let less = post("add_spent_time", json!({"duration": "-1h"}), 201).await;
    assert_eq!(less["total_time_spent"], 1800);
    post("add_spent_time", json!({"duration": "-1h"}), 400).await;
    for duration in ["soon", "", "1y", "99999999999999mo"] {
        post("add_spent_time", json!({"duration": duration}), 400).await;
        post("time_estimate", json!({"duration": duration}), 400).await;
    }
    post("time_estimate", json!({"duration": "-1h"}), 400).await;
    post("time_estimate", json!({}), 400).await;
    let stats = root.get(&format!("{path}/time_stats")).await.expect(200).json();
    assert_eq!((&stats["time_estimate"], &stats["total_time_spent"]), (&json!(36_000), &json!(1800)));
    assert_eq!(root.get(&path).await.expect(200).json()["time_stats"], stats);
    let none = post("reset_time_estimate", json!({}), 200).await;
    assert_eq!((&none["time_estimate"], &none["human_time_estimate"]), (&json!(0), &json!(null)));
    let none = post("reset_spent_time", json!({}), 200).await;
    assert_eq!(none["total_time_spent"], 0);
    assert_eq!(
        system_notes(&server, id, iid).await,
        [
            "changed time estimate to 1d 2h",
            "added 1h 30m of time spent",
            "subtracted 1h of time spent",
            "removed time estimate",
            "removed time spent",
        ]
    );
    for operation in ["time_estimate", "add_spent_time"] {
        root.post(&format!("/projects/{id}/issues/99/{operation}"), json!({"duration": "1h"})).await.expect(404);
    }
}

on_every_database![time_tracking_sets_adds_and_resets_times,];
