//! Access level of the vulnerabilities of projects.

use serde_json::json;

use super::{security, send, vulnerability};
use crate::support::spaces::{join, project};
use crate::support::{Client, TestServer, on_every_database};

/// Returns the statuses of a confirmation, of both reads and of a new report.
async fn statuses(client: &Client, project: &str, one: &str, decision: &str) -> [u16; 4] {
    [
        client.post(&format!("{one}/{decision}"), json!({})).await.status,
        client.get(one).await.status,
        client.get(&format!("{project}/vulnerabilities")).await.status,
        send(client, project, &security(&["weak"])).await.status,
    ]
}

async fn access_level_restricts_vulnerabilities(server: TestServer) {
    let root = server.root();
    let path = format!("/projects/{}", project(&root, "work", json!({"visibility": "public"})).await);
    let one = format!("/vulnerabilities/{}", vulnerability(&root, &path, "weak").await);
    let (developer, reporter) = (server.create_user("developer").await, server.create_user("reporter").await);
    join(&root, &path, developer.id, 30).await;
    join(&root, &path, reporter.id, 20).await;
    let stranger = server.create_user("stranger").await.client;
    for (level, member, decision) in [
        ("private", [201, 200, 200, 201], "confirm"),
        ("enabled", [201, 200, 200, 201], "resolve"),
        ("disabled", [403; 4], "dismiss"),
    ] {
        root.put(&path, json!({"security_and_compliance_access_level": level})).await.expect(200);
        for (client, expected) in [
            (&developer.client, member),
            (&reporter.client, [403; 4]),
            (&stranger, [403; 4]),
            (&server.anonymous(), [401; 4]),
        ] {
            assert_eq!(statuses(client, &path, &one, decision).await, expected, "{level}");
        }
    }
    assert_eq!(statuses(&root, &path, &one, "dismiss").await, [403; 4], "administrator");
    let refused = root.get(&one).await;
    assert_eq!(refused.message(), "403 Forbidden - The vulnerabilities of this project are disabled.");
    // The vulnerability was preserved.
    root.put(&path, json!({"security_and_compliance_access_level": "private"})).await.expect(200);
    assert_eq!(root.get(&one).await.expect(200).json()["state"], "resolved");
}

on_every_database![access_level_restricts_vulnerabilities];
