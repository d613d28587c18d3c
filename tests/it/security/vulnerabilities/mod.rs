//! Vulnerabilities of projects and the reports that create them.

mod hostile;
mod large;
mod levels;
mod lists;
mod reports;
mod sarif;
mod state_changes;

use serde_json::{Value, json};

use crate::support::spaces::id;
use crate::support::{ApiResponse, Client};

/// Returns a security report with a vulnerability for each name.
pub fn security(names: &[&str]) -> Value {
    let all = names.iter().map(|name| {
        json!({
            "category": "sast", "name": name, "description": format!("What {name} is"), "severity": "High",
            "confidence": "Medium", "identifiers": [{"type": "rule", "name": name, "value": name}],
            "location": {"file": "src/main.rs", "start_line": 7},
        })
    });
    json!({"version": "15.0.0", "scan": {"type": "sast"}, "vulnerabilities": all.collect::<Vec<_>>()})
}

/// Sends a report to `/projects/:id`.
pub async fn send(client: &Client, path: &str, report: &Value) -> ApiResponse {
    client.post(&format!("{path}/vulnerability_reports"), report.clone()).await
}

/// Sends a report and returns the numbers of created, updated and unchanged vulnerabilities.
pub async fn report(client: &Client, path: &str, report: &Value) -> [i64; 3] {
    let outcome = send(client, path, report).await.expect(201).json();
    ["created", "updated", "unchanged"].map(|name| outcome[name].as_i64().expect("a number"))
}

/// Creates a vulnerability in `/projects/:id` and returns its ID.
pub async fn vulnerability(client: &Client, path: &str, name: &str) -> i64 {
    assert_eq!(report(client, path, &security(&[name])).await, [1, 0, 0]);
    let all = all(client, path).await;
    id(all.iter().find(|one| one["title"] == name).expect("the vulnerability"))
}

/// Returns all vulnerabilities of `/projects/:id`.
pub async fn all(client: &Client, path: &str) -> Vec<Value> {
    let list = client.get(&format!("{path}/vulnerabilities?per_page=100")).await;
    list.expect(200).json().as_array().expect("a list").clone()
}
