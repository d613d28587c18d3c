//! Statement counts of lists that continue on another page, so that they are counted.

use serde_json::json;

use crate::planning::{issues, labels, milestones};
use crate::support::{Client, TestServer, on_every_database, spaces};

/// Statements that identify the caller, and the project with the role of the caller.
const IDENTIFICATION: usize = 2;

/// Checks the number of statements and the total of the list.
async fn assert_statements(server: &TestServer, client: &Client, path: &str, total: &str, max: usize) {
    let before = server.statements();
    let response = client.get(path).await.expect(200);
    assert_eq!(response.header("X-Total"), total, "{path}");
    let texts = server.statement_texts(before);
    assert!(texts.len() <= max, "{path}: {} statements\n{}", texts.len(), texts.join("\n"));
}

async fn counted_lists_run_few_statements(server: TestServer) {
    let root = server.root();
    let group = spaces::group(&root, "engines", json!({})).await;
    let ada = server.create_user("ada").await;
    spaces::join(&root, &format!("/groups/{group}"), ada.id, 20).await;
    let project = spaces::project(&root, "work", json!({"namespace_id": group, "tag_list": "a,b"})).await;
    let path = format!("/projects/{project}");
    let label = labels::label(&root, &path, "bug").await;
    let milestone = milestones::milestone(&root, &format!("/groups/{group}"), "v1").await;
    for number in 1..=3 {
        let issue = json!({
            "title": format!("issue {number}"), "labels": "bug", "assignee_ids": [ada.id], "milestone_id": milestone,
        });
        issues::open(&root, project, issue).await;
        server.insert_merge_request(project, number, &[label], Some(milestone)).await;
        let other = json!({"namespace_id": group, "tag_list": "c"});
        spaces::project(&root, &format!("other-{number}"), other).await;
    }
    for client in [&root, &ada.client] {
        // The first use of a token on a day is recorded.
        client.get(&path).await.expect(200);
        for kind in ["issues", "merge_requests"] {
            // The IDs of the page, its rows and the related rows.
            let list = format!("{path}/{kind}?per_page=2");
            let last = format!("{list}&page=2");
            for path in [&list, &last, &format!("{list}&state=opened")] {
                assert_statements(&server, client, path, "3", IDENTIFICATION + 3).await;
            }
            // A filter with few matches: its matches, the rows of the page and the related rows.
            for query in ["labels=bug", "labels=bug&state=opened", "milestone=v1&labels=bug"] {
                let path = format!("{list}&{query}");
                assert_statements(&server, client, &path, "3", IDENTIFICATION + 3).await;
            }
        }
        // The caller, the rows of the page and the related rows.
        for query in ["", "&order_by=name&sort=asc", "&page=2"] {
            let path = format!("/projects?per_page=2{query}");
            assert_statements(&server, client, &path, "4", 3).await;
        }
    }
    // The projects with a role of the caller come first.
    assert_statements(&server, &ada.client, "/projects?membership=true&per_page=2", "4", 4).await;
}

on_every_database![counted_lists_run_few_statements];
