//! Lists of vulnerabilities.

use serde_json::json;

use super::{all, report, security, vulnerability};
use crate::support::query_plans::{full_scans, list_statements};
use crate::support::spaces::project;
use crate::support::{TestServer, on_every_database};

async fn list_vulnerabilities_filters_by_state_severity_and_report_type(server: TestServer) {
    let root = server.root();
    let path = format!("/projects/{}", project(&root, "work", json!({})).await);
    let list = format!("{path}/vulnerabilities");
    assert_eq!(root.get(&list).await.expect(200).json(), json!([]));
    let mut reported = security(&["a", "b", "c"]);
    reported["vulnerabilities"][1]["severity"] = json!("Critical");
    assert_eq!(report(&root, &path, &reported).await, [3, 0, 0]);
    let mut reported = security(&["d"]);
    reported["scan"]["type"] = json!("dast");
    assert_eq!(report(&root, &path, &reported).await, [1, 0, 0]);
    let found = all(&root, &path).await;
    let elsewhere = format!("/projects/{}", project(&root, "other", json!({})).await);
    vulnerability(&root, &elsewhere, "a").await;
    let titles = async |query: &str| {
        let page = root.get(&format!("{list}?{query}")).await.expect(200);
        let titles = page.pluck("title");
        let titles: Vec<String> = titles.iter().map(|title| title.as_str().expect("a title").to_owned()).collect();
        assert_eq!(page.header("x-total") == titles.len().to_string(), !query.contains("page"), "{query}");
        titles.concat()
    };
    assert_eq!(titles("").await, "abcd");
    assert_eq!(titles("per_page=3&page=2").await, "d");
    assert_eq!(titles("per_page=3").await, "abc");
    assert_eq!(titles("severity=critical").await, "b");
    assert_eq!(titles("severity=high").await, "acd");
    assert_eq!(titles("report_type=dast").await, "d");
    assert_eq!(titles("state=opened").await, "abcd");
    root.post(&format!("/vulnerabilities/{}/dismiss", found[2]["id"]), json!({})).await.expect(201);
    assert_eq!(titles("state=opened").await, "abd");
    assert_eq!(titles("state=closed").await, "c");
    assert_eq!(titles("state=opened&severity=high&report_type=sast").await, "a");
    assert_eq!(titles("state=resolved").await, "");
    let one = root.get(&format!("/vulnerabilities/{}", found[0]["id"])).await.expect(200).json();
    assert_eq!(one, found[0]);
    for query in ["state=dismissed", "severity=bad", "report_type=x", "page=x"] {
        root.get(&format!("{list}?{query}")).await.expect(400);
    }
}

async fn list_vulnerabilities_uses_index(server: TestServer) {
    let root = server.root();
    let path = format!("/projects/{}", project(&root, "work", json!({})).await);
    vulnerability(&root, &path, "a").await;
    let lists = [format!("{path}/vulnerabilities?per_page=20")];
    let queries = ["page=1", "state=opened", "severity=high", "report_type=sast"];
    let statements = list_statements(&server, &[&root], &lists, &queries, "vulnerabilities").await;
    let scans = full_scans(&server, &statements, "vulnerabilities").await;
    assert_eq!(scans, Vec::<String>::new());
}

on_every_database![list_vulnerabilities_filters_by_state_severity_and_report_type, list_vulnerabilities_uses_index,];
