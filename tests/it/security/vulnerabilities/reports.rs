//! Security reports in the format of the reference service.

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use super::{all, report, security, send};
use crate::support::spaces::{join, project};
use crate::support::{Client, TestServer, on_every_database};

/// Reports one vulnerability and returns it.
async fn report_one(client: &Client, base_path: &str, one: Value) -> Value {
    let before = all(client, base_path).await.len();
    assert_eq!(report(client, base_path, &json!({"vulnerabilities": [one]})).await, [1, 0, 0]);
    all(client, base_path).await.split_off(before).remove(0)
}

async fn repeated_report_updates_vulnerability_and_keeps_state(server: TestServer) {
    let root = server.root();
    let base_path = format!("/projects/{}", project(&root, "work", json!({})).await);
    let ada = server.create_user("ada").await;
    join(&root, &base_path, ada.id, 30).await;
    assert_eq!(report(&root, &base_path, &security(&["a", "b", "c", "a"])).await, [3, 0, 0]);
    assert_eq!(report(&ada.client, &base_path, &security(&["c", "a", "d"])).await, [1, 0, 2]);
    let before = all(&root, &base_path).await;
    assert_eq!(before.iter().map(|one| one["title"].as_str().expect("a title")).collect::<String>(), "abcd");
    assert_eq!(before[3]["author_id"], ada.id);
    root.post(&format!("/vulnerabilities/{}/dismiss", before[0]["id"]), json!({})).await.expect(201);
    root.post(&format!("/vulnerabilities/{}/resolve", before[1]["id"]), json!({})).await.expect(201);
    let decided = all(&root, &base_path).await;
    let mut again = security(&["a", "b", "c", "e"]);
    again["vulnerabilities"][0]["description"] = json!("Another text");
    again["vulnerabilities"][1]["severity"] = json!("low");
    again["vulnerabilities"][2]["confidence"] = json!("confirmed");
    assert_eq!(report(&ada.client, &base_path, &again).await, [1, 3, 0]);
    assert_eq!(report(&root, &base_path, &again).await, [0, 0, 4]);
    let after = all(&root, &base_path).await;
    let mut expected = decided.clone();
    for (index, attribute, value) in
        [(0, "description", "Another text"), (1, "severity", "low"), (2, "confidence", "confirmed")]
    {
        expected[index][attribute] = json!(value);
        expected[index]["updated_by_id"] = json!(ada.id);
        expected[index]["updated_at"] = after[index]["updated_at"].clone();
        assert_ne!(after[index]["updated_at"], decided[index]["updated_at"]);
    }
    // Only changes of title and description count as edits.
    expected[0]["last_edited_by_id"] = json!(ada.id);
    expected[0]["last_edited_at"] = after[0]["last_edited_at"].clone();
    assert!(after[0]["last_edited_at"].is_string());
    assert_eq!(after[..4], expected[..]);
    again["vulnerabilities"][0]["severity"] = json!("critical");
    again["vulnerabilities"][0]["name"] = json!("a");
    assert_eq!(report(&root, &base_path, &again).await, [0, 1, 3]);
    let last = all(&root, &base_path).await.remove(0);
    assert_eq!((&last["last_edited_by_id"], &last["last_edited_at"]), (&json!(ada.id), &after[0]["last_edited_at"]));
    assert_eq!((&last["state"], &last["severity"]), (&json!("closed"), &json!("critical")));
    // Another project has separate vulnerabilities.
    let elsewhere = format!("/projects/{}", project(&root, "other", json!({})).await);
    assert_eq!(report(&root, &elsewhere, &again).await, [4, 0, 0]);
    assert_eq!(report(&root, &base_path, &json!({"vulnerabilities": []})).await, [0, 0, 0]);
    assert_eq!(report(&root, &base_path, &json!({"vulnerabilities": null})).await, [0, 0, 0]);
}

async fn report_attributes_are_mapped_to_fields(server: TestServer) {
    let root = server.root();
    let base_path = format!("/projects/{}", project(&root, "work", json!({})).await);
    let one = report_one(&root, &base_path, json!({
        "id": "1", "category": "dependency_scanning", "name": "  Prototype\u{0} pollution\nin lodash ", "message": "m",
        "description": "Long.\nLonger.", "severity": "CRITICAL", "confidence": "Experimental", "solution": "Upgrade it.",
        "cve": "x", "scanner": {"id": "s", "name": "S"}, "links": [{"url": "https://h.example.com"}],
        "identifiers": [{"type": "cve", "name": "CVE-1", "value": "CVE-1", "url": "https://h.example.com"}],
        "location": {"file": "package.json", "dependency": {"package": {"name": "lodash"}, "version": "1.2.3"}},
    })).await;
    assert_eq!(
        [&one["title"], &one["description"], &one["severity"], &one["confidence"], &one["report_type"]],
        [
            "Prototype pollution",
            "Long.\nLonger.\n\nSolution: Upgrade it.",
            "critical",
            "experimental",
            "dependency_scanning"
        ]
    );
    let one = report_one(&root, &base_path, json!({"message": "Only a message"})).await;
    assert_eq!(
        [&one["title"], &one["description"], &one["severity"], &one["confidence"], &one["report_type"]],
        ["Only a message", "Only a message", "unknown", "unknown", "generic"]
    );
    let one = report_one(
        &root,
        &base_path,
        json!({"identifiers": [{"name": "CVE-2"}], "severity": "terrible", "confidence": "so so"}),
    )
    .await;
    assert_eq!((&one["title"], &one["description"]), (&json!("CVE-2"), &json!(null)));
    assert_eq!((&one["severity"], &one["confidence"]), (&json!("unknown"), &json!("unknown")));
    let one = report_one(&root, &base_path, json!({"name": "ä".repeat(300), "description": "ö".repeat(100_001)})).await;
    assert_eq!((&one["title"], &one["description"]), (&json!("ä".repeat(255)), &json!("ö".repeat(100_000))));
    for kind in [
        "sast",
        "dependency_scanning",
        "container_scanning",
        "dast",
        "secret_detection",
        "coverage_fuzzing",
        "api_fuzzing",
        "cluster_image_scanning",
        "generic",
    ] {
        let mut of_kind = security(&["kind"]);
        of_kind["scan"]["type"] = json!(kind);
        assert_eq!(report(&root, &base_path, &of_kind).await, [1, 0, 0], "{kind}");
    }
    for (word, shown) in
        [("Info", "info"), ("Low", "low"), ("Medium", "medium"), ("High", "high"), ("Undefined", "unknown")]
    {
        assert_eq!(report_one(&root, &base_path, json!({"name": word, "severity": word})).await["severity"], shown);
    }
    for (word, shown) in [("Ignore", "ignore"), ("Low", "low"), ("High", "high"), ("Confirmed", "confirmed")] {
        let named = format!("sure {word}");
        assert_eq!(
            report_one(&root, &base_path, json!({"name": named, "confidence": word})).await["confidence"],
            shown
        );
    }
}

async fn fingerprint_depends_on_category_identifier_and_location(server: TestServer) {
    let root = server.root();
    let base_path = format!("/projects/{}", project(&root, "work", json!({})).await);
    let plain = json!({
        "category": "sast", "name": "n", "identifiers": [{"type": "t", "name": "i", "value": "v"}],
        "location": {"file": "f", "start_line": 1, "end_line": 2, "class": "c", "method": "m"},
    });
    let send = async |change: Value| {
        let mut one = plain.clone();
        one.as_object_mut().expect("an object").extend(change.as_object().expect("an object").clone());
        report(&root, &base_path, &json!({"vulnerabilities": [one]})).await
    };
    assert_eq!(send(json!({})).await, [1, 0, 0]);
    // These are different vulnerabilities.
    assert_eq!(send(json!({"category": "dast"})).await, [1, 0, 0]);
    assert_eq!(send(json!({"identifiers": [{"type": "t", "name": "i", "value": "w"}]})).await, [1, 0, 0]);
    assert_eq!(send(json!({"identifiers": [{"type": "u", "name": "i", "value": "v"}]})).await, [1, 0, 0]);
    assert_eq!(
        send(json!({"location": {"file": "f", "start_line": 3, "end_line": 2, "class": "c", "method": "m"}})).await,
        [1, 0, 0]
    );
    assert_eq!(send(json!({"location": {"image": "f"}})).await, [1, 0, 0]);
    assert_eq!(send(json!({"location": null})).await, [1, 0, 0]);
    // These are the same vulnerability.
    assert_eq!(send(json!({"name": "other"})).await, [0, 1, 0]);
    assert_eq!(send(json!({"name": "other", "id": "7", "cve": "x", "scanner": {"id": "z"}})).await, [0, 0, 1]);
    let second = json!({"type": "x", "name": "x", "value": "x"});
    let both = json!({"name": "other", "identifiers": [plain["identifiers"][0], second]});
    assert_eq!(send(both).await, [0, 0, 1]);
    // Without identifiers, `cve` is compared, then the ID, then the title.
    let bare = async |one: Value| report(&root, &base_path, &json!({"vulnerabilities": [one]})).await;
    assert_eq!(bare(json!({"name": "n", "cve": "c", "id": "1"})).await, [1, 0, 0]);
    assert_eq!(bare(json!({"name": "n", "cve": "c", "id": "2"})).await, [0, 0, 1]);
    assert_eq!(bare(json!({"name": "n", "id": "2"})).await, [1, 0, 0]);
    assert_eq!(bare(json!({"name": "n"})).await, [1, 0, 0]);
    assert_eq!(bare(json!({"name": "n", "identifiers": []})).await, [0, 0, 1]);
}

async fn concurrent_reports_create_each_vulnerability_once(server: TestServer) {
    let root = server.root();
    let base_path = format!("/projects/{}", project(&root, "work", json!({})).await);
    let names: Vec<String> = (0..1_200).map(|number| format!("n{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let complete = security(&names);
    let outcomes = join_all((0..4).map(|_| report(&root, &base_path, &complete))).await;
    let sum = |index: usize| outcomes.iter().map(|outcome| outcome[index]).sum::<i64>();
    assert_eq!([sum(0), sum(1), sum(2)], [1_200, 0, 3_600]);
    let total = root.get(&format!("{base_path}/vulnerabilities")).await.expect(200);
    assert_eq!(total.header("x-total"), "1200");
}

async fn invalid_report_creates_no_vulnerability(server: TestServer) {
    let root = server.root();
    let base_path = format!("/projects/{}", project(&root, "work", json!({})).await);
    let names: Vec<String> = (0..1_200).map(|number| format!("n{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut broken = security(&names);
    broken["vulnerabilities"][1_199]["location"] = json!("nowhere");
    let fault = send(&root, &base_path, &broken).await.expect(400).json();
    let text = fault["message"]["vulnerabilities"][0].as_str().expect("a text").to_owned();
    assert!(
        text.starts_with("/vulnerabilities/1199: invalid type: string \"nowhere\", expected a location at line 1"),
        "{text}"
    );
    assert_eq!(all(&root, &base_path).await, Vec::<Value>::new());
    // No temporary file remains.
    let left: Vec<_> = std::fs::read_dir(server.data().join("tmp")).expect("a folder").collect();
    assert_eq!(left.len(), 0);
}

async fn report_requires_json_content_type(server: TestServer) {
    let root = server.root();
    let path = format!("/projects/{}/vulnerability_reports", project(&root, "work", json!({})).await);
    let sent = async |kind: Option<&str>, body: String| {
        let mut request = root.request(Method::POST, &path).body(body);
        if let Some(kind) = kind {
            request = request.header("Content-Type", kind);
        }
        root.send(request).await
    };
    let complete = security(&["a"]).to_string();
    for kind in
        [None, Some("application/json; charset=utf-8"), Some("application/sarif+json"), Some("Application/JSON")]
    {
        sent(kind, complete.clone()).await.expect(201);
    }
    for kind in ["application/x-www-form-urlencoded", "multipart/form-data; boundary=b", "text/plain"] {
        let response = sent(Some(kind), complete.clone()).await.expect(400);
        assert_eq!(response.message(), "the Content-Type must be application/json");
    }
    let empty = sent(Some("application/json"), String::new()).await.expect(400);
    assert!(empty.message().starts_with("the body is not valid JSON: EOF"), "{}", empty.message());
    // Report attributes in the query are rejected.
    root.post(&format!("{path}?vulnerabilities=x"), json!({})).await.expect(400);
}

on_every_database![
    repeated_report_updates_vulnerability_and_keeps_state,
    report_attributes_are_mapped_to_fields,
    fingerprint_depends_on_category_identifier_and_location,
    concurrent_reports_create_each_vulnerability_once,
    invalid_report_creates_no_vulnerability,
    report_requires_json_content_type,
];
