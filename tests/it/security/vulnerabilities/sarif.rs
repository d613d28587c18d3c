//! Reports of SARIF 2.1.0.

use serde_json::{Value, json};

use super::{all, report};
use crate::support::spaces::project;
use crate::support::{Client, TestServer, on_every_database};

/// Returns a document with one run.
pub fn sarif(driver: Value, results: Value) -> Value {
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    })
}

/// Returns a list with one location.
fn at(uri: &str, line: i64) -> Value {
    json!([{"physicalLocation": {"artifactLocation": {"uri": uri}, "region": {"startLine": line, "snippet": {"text": "x"}}}}])
}

async fn create_project(client: &Client) -> String {
    format!("/projects/{}", project(client, "work", json!({})).await)
}

/// Creates a project, sends the document and returns the resulting vulnerabilities.
async fn import_document(client: &Client, name: &str, document: &Value) -> Vec<Value> {
    let path = format!("/projects/{}", project(client, name, json!({})).await);
    report(client, &path, document).await;
    all(client, &path).await
}

fn pluck(all: &[Value], attribute: &str) -> Vec<String> {
    let texts = all.iter().map(|one| one[attribute].as_str().unwrap_or("null").to_owned());
    texts.collect()
}

async fn sarif_results_use_attributes_of_rules(server: TestServer) {
    let root = server.root();
    let driver = json!({
        "name": "CodeQL",
        "rules": [
            {
                "id": "js/xss", "name": "Xss", "shortDescription": {"text": "Cross-site scripting"},
                "fullDescription": {"text": "Writing user input to a page."}, "help": {"text": "long", "markdown": "long"},
                "defaultConfiguration": {"level": "error"},
                "properties": {"tags": ["security"], "precision": "very-high", "security-severity": "9.1"},
            },
            {"id": "js/eval", "name": "Eval", "properties": {"precision": "medium"}, "defaultConfiguration": {"level": "note"}},
            {"id": "js/none"},
        ],
    });
    let results = json!([
        {"ruleId": "js/xss", "ruleIndex": 0, "message": {"text": "Here."}, "locations": at("a.js", 1)},
        {"ruleId": "js/eval", "message": {"text": "There."}, "locations": at("a.js", 2)},
        {"ruleId": "js/none", "message": {"text": "First line.\nSecond line."}, "locations": at("a.js", 3)},
        {"ruleId": "js/unknown", "message": {"text": ""}, "locations": at("a.js", 4)},
        {"ruleIndex": 0, "message": {"text": " "}, "locations": at("a.js", 5)},
        {"rule": {"index": 1}, "message": {"text": "By index."}, "locations": at("a.js", 6)},
        {"rule": {"id": "js/eval"}, "message": {"text": "By id."}, "locations": at("a.js", 7)},
        {"ruleId": "js/eval/part", "message": {"text": "Below."}, "locations": at("a.js", 8)},
        {"ruleId": "js/eval", "ruleIndex": 77, "message": {"text": "Beyond."}, "locations": at("a.js", 9)},
        {"ruleIndex": -1, "message": {"text": "No rule."}, "locations": at("a.js", 10)},
    ]);
    let found = import_document(&root, "work", &sarif(driver, results)).await;
    assert_eq!(
        pluck(&found, "title"),
        [
            "Cross-site scripting",
            "Eval",
            "First line.",
            "js/unknown",
            "Cross-site scripting",
            "Eval",
            "Eval",
            "Eval",
            "Eval",
            "No rule.",
        ]
    );
    assert_eq!(
        pluck(&found, "description"),
        [
            "Here.",
            "There.",
            "First line.\nSecond line.",
            "null",
            "Writing user input to a page.",
            "By index.",
            "By id.",
            "Below.",
            "Beyond.",
            "No rule.",
        ]
    );
    assert_eq!(
        pluck(&found, "severity"),
        ["critical", "low", "medium", "medium", "critical", "low", "low", "low", "low", "medium",]
    );
    assert_eq!(
        pluck(&found, "confidence"),
        ["high", "medium", "unknown", "unknown", "high", "medium", "medium", "medium", "medium", "unknown",]
    );
    assert!(pluck(&found, "report_type").iter().all(|kind| kind == "sast"));
}

async fn sarif_rules_may_follow_results_and_be_in_extensions(server: TestServer) {
    let root = server.root();
    let path = create_project(&root).await;
    // A text rather than `json!`, because the rules must follow the results.
    let run = r#"{"results": [
            {"ruleId": "r", "message": {"id": "m", "arguments": ["1", "2"]}, "locations": [{"physicalLocation": {"artifactLocation": {"index": 1}}}]},
            {"rule": {"index": 0, "toolComponent": {"index": 0}}, "message": {"id": "m"}},
            {"rule": {"id": "x2", "toolComponent": {"guid": "g"}}, "message": {"id": "shared", "arguments": ["y"]}},
            {"rule": {"index": 0, "toolComponent": {"name": "second"}}, "message": {"text": "t"}}
          ],
          "artifacts": [{"location": {"uri": "a"}}, {"location": {"uri": "b"}}],
          "tool": {
            "extensions": [
              {"name": "first", "rules": [{"id": "x1", "name": "X1", "messageStrings": {"m": {"text": "of x1"}}}]},
              {"name": "second", "guid": "g", "rules": [{"id": "x3", "name": "X3"}, {"id": "x2", "name": "X2"}],
               "globalMessageStrings": {"shared": {"text": "all {0}"}}}
            ],
            "driver": {"name": "t", "rules": [{"id": "r", "name": "R", "messageStrings": {"m": {"text": "{1} of {0}"}}}]}
          },
          "properties": {"report_type": "secret_detection"}}"#;
    let document: Value = serde_json::from_str(&format!(r#"{{"runs": [{run}], "version": "2.1.0"}}"#)).expect("JSON");
    assert_eq!(report(&root, &path, &document).await, [4, 0, 0]);
    let found = all(&root, &path).await;
    assert_eq!(pluck(&found, "title"), ["R", "X1", "X2", "X3"]);
    assert_eq!(pluck(&found, "description"), ["2 of 1", "of x1", "all y", "t"]);
    assert!(pluck(&found, "report_type").iter().all(|kind| kind == "secret_detection"));
    // A file index and its URI are the same location.
    let named = document.to_string().replace(r#"{"index":1}"#, r#"{"uri":"b"}"#);
    assert_eq!(report(&root, &path, &serde_json::from_str(&named).expect("JSON")).await, [0, 0, 4]);
}

async fn sarif_severity_and_confidence_prefer_result_over_rule(server: TestServer) {
    let root = server.root();
    let rules = json!([
        {"id": "scored", "properties": {"security-severity": 7}, "defaultConfiguration": {"level": "note", "rank": 10}},
        {"id": "odd", "properties": {"security-severity": "high", "precision": ["x"]}, "defaultConfiguration": {"level": "none"}},
    ]);
    let mut results = Vec::new();
    let mut expected = Vec::new();
    for (score, severity) in [
        ("10", "critical"),
        ("9.0", "critical"),
        ("8.9", "high"),
        ("7.0", "high"),
        ("6.9", "medium"),
        ("4", "medium"),
        ("3.9", "low"),
        ("0.1", "low"),
        ("0", "info"),
        ("0.0", "info"),
        // An invalid score falls back to the level.
        ("11", "medium"),
        ("-1", "medium"),
        ("NaN", "medium"),
        ("", "medium"),
    ] {
        results.push(json!({"properties": {"security-severity": score}}));
        expected.push((severity, "unknown"));
    }
    for (level, severity) in
        [("error", "high"), ("warning", "medium"), ("note", "low"), ("none", "info"), ("loud", "unknown")]
    {
        results.push(json!({"level": level}));
        expected.push((severity, "unknown"));
    }
    for (rank, confidence) in [
        (100.0, "high"),
        (67.0, "high"),
        (66.9, "medium"),
        (34.0, "medium"),
        (33.0, "low"),
        (0.0, "low"),
        (-1.0, "unknown"),
    ] {
        results.push(json!({"rank": rank}));
        expected.push(("medium", confidence));
    }
    results.push(json!({"ruleId": "scored", "level": "error"}));
    expected.push(("high", "low"));
    results.push(json!({"ruleId": "scored", "properties": {"security-severity": 1}, "rank": 99}));
    expected.push(("low", "high"));
    results.push(json!({"ruleId": "odd"}));
    expected.push(("info", "unknown"));
    for (number, result) in results.iter_mut().enumerate() {
        result["message"] = json!({"text": "m"});
        result["locations"] = at("a", number as i64);
    }
    let found = import_document(&root, "work", &sarif(json!({"name": "t", "rules": rules}), json!(results))).await;
    let shown: Vec<(String, String)> = pluck(&found, "severity").into_iter().zip(pluck(&found, "confidence")).collect();
    let expected: Vec<(String, String)> =
        expected.into_iter().map(|(severity, confidence)| (severity.to_owned(), confidence.to_owned())).collect();
    assert_eq!(shown, expected);
}

async fn sarif_suppressed_absent_and_passed_results_are_skipped(server: TestServer) {
    let root = server.root();
    let mut results = vec![
        json!({"kind": "pass"}),
        json!({"kind": "review"}),
        json!({"kind": "informational"}),
        json!({"kind": "notApplicable"}),
        json!({"baselineState": "absent"}),
        json!({"suppressions": [{"kind": "inSource"}]}),
        json!({"suppressions": [{"kind": "external", "status": "accepted"}, {"kind": "inSource"}]}),
    ];
    let remaining = [
        json!({"kind": "fail"}),
        json!({"baselineState": "new"}),
        json!({"baselineState": "unchanged"}),
        json!({"suppressions": []}),
        json!({"suppressions": [{"kind": "external", "status": "rejected"}]}),
        json!({"suppressions": [{"kind": "inSource"}, {"kind": "external", "status": "underReview"}]}),
    ];
    let count = remaining.len();
    results.extend(remaining);
    for (number, result) in results.iter_mut().enumerate() {
        result["message"] = json!({"text": format!("m{number}")});
        result["locations"] = at("a", number as i64);
    }
    let found = import_document(&root, "work", &sarif(json!({"name": "t"}), json!(results))).await;
    let expected: Vec<String> = (7..7 + count).map(|number| format!("m{number}")).collect();
    assert_eq!(pluck(&found, "title"), expected);
}

async fn sarif_fingerprints_identify_results(server: TestServer) {
    let root = server.root();
    let path = create_project(&root).await;
    let send = async |result: Value| {
        let mut complete = json!({"ruleId": "r", "message": {"text": "m"}, "locations": at("a", 1)});
        complete.as_object_mut().expect("an object").extend(result.as_object().expect("an object").clone());
        report(&root, &path, &sarif(json!({"name": "t"}), json!([complete]))).await
    };
    let (new, same, changed) = ([1, 0, 0], [0, 0, 1], [0, 1, 0]);
    // By location, if there are no fingerprints.
    assert_eq!(send(json!({})).await, new);
    assert_eq!(send(json!({})).await, same);
    assert_eq!(send(json!({"message": {"text": "other"}})).await, changed);
    assert_eq!(send(json!({"locations": at("a", 2)})).await, new);
    assert_eq!(send(json!({"locations": at("b", 1)})).await, new);
    assert_eq!(send(json!({"ruleId": "s"})).await, new);
    // Without a location, by message.
    assert_eq!(send(json!({"locations": []})).await, new);
    assert_eq!(send(json!({"locations": null})).await, same);
    assert_eq!(send(json!({"locations": [], "message": {"text": "elsewhere"}})).await, new);
    let logical = json!([{"logicalLocations": [{"fullyQualifiedName": "a::b", "name": "b"}]}]);
    assert_eq!(send(json!({"locations": logical})).await, new);
    assert_eq!(send(json!({"locations": logical, "message": {"text": "said otherwise"}})).await, changed);
    // By partial fingerprint and file, regardless of the line.
    let part = |hash: &str| json!({"primaryLocationLineHash": hash, "primaryLocationStartColumnFingerprint": "4"});
    assert_eq!(send(json!({"partialFingerprints": part("x:1")})).await, new);
    assert_eq!(send(json!({"partialFingerprints": part("x:1"), "locations": at("a", 99)})).await, same);
    assert_eq!(send(json!({"partialFingerprints": part("x:2")})).await, new);
    assert_eq!(send(json!({"partialFingerprints": part("x:1"), "locations": at("b", 1)})).await, new);
    // By fingerprint, regardless of the location.
    let complete = json!({"v1": "f", "v2": "g"});
    assert_eq!(send(json!({"fingerprints": complete, "partialFingerprints": part("x:1")})).await, new);
    assert_eq!(send(json!({"fingerprints": {"v2": "g", "v1": "f"}, "locations": at("moved", 5)})).await, same);
    assert_eq!(send(json!({"fingerprints": {"v1": "f"}})).await, new);
    assert_eq!(send(json!({"fingerprints": {}})).await, changed);
    // Results of different tools are distinct.
    let other =
        sarif(json!({"name": "u"}), json!([{"ruleId": "r", "message": {"text": "m"}, "locations": at("a", 1)}]));
    assert_eq!(report(&root, &path, &other).await, new);
}

async fn sarif_runs_are_independent(server: TestServer) {
    let root = server.root();
    let path = create_project(&root).await;
    let run = |tool: &str, name: &str| {
        json!({
            "tool": {"driver": {"name": tool, "rules": [{"id": "r", "name": name}]}},
            "results": [{"ruleIndex": 0, "message": {"text": "m"}, "locations": at("a", 1)}],
        })
    };
    let empty = json!({"tool": {"driver": {"name": "t"}}, "results": null});
    let mut document = json!({"version": "2.1.0", "runs": [run("one", "First"), empty, {}, run("two", "Second"), run("one", "First")]});
    assert_eq!(report(&root, &path, &document).await, [2, 0, 0]);
    assert_eq!(pluck(&all(&root, &path).await, "title"), ["First", "Second"]);
    document["runs"] = json!([]);
    assert_eq!(report(&root, &path, &document).await, [0, 0, 0]);
    document["runs"] = json!(null);
    assert_eq!(report(&root, &path, &document).await, [0, 0, 0]);
}

on_every_database![
    sarif_results_use_attributes_of_rules,
    sarif_rules_may_follow_results_and_be_in_extensions,
    sarif_severity_and_confidence_prefer_result_over_rule,
    sarif_suppressed_absent_and_passed_results_are_skipped,
    sarif_fingerprints_identify_results,
    sarif_runs_are_independent,
];
