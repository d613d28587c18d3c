//! Invalid and hostile reports.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use reqwest::Method;
use serde_json::{Value, json};

use super::sarif::sarif;
use super::{all, security, send};
use crate::support::raw_http::RawConnection;
use crate::support::server::ROOT_TOKEN;
use crate::support::spaces::project;
use crate::support::{ApiResponse, Client, TestServer, on_every_database};

/// Number of mutated documents.
const MUTANTS: u64 = 150;

async fn raw(client: &Client, path: &str, body: Vec<u8>) -> ApiResponse {
    let request = client.request(Method::POST, path);
    client.send(request.header("Content-Type", "application/json").body(body)).await
}

fn valid_document() -> Value {
    let driver = json!({
        "name": "t", "rules": [{
            "id": "r", "shortDescription": {"text": "s"}, "messageStrings": {"m": {"text": "{0}"}},
            "defaultConfiguration": {"level": "error", "rank": 50.0}, "properties": {"security-severity": "5", "precision": "high"},
        }],
    });
    let results = json!([
        {"ruleId": "r", "ruleIndex": 0, "level": "error", "rank": 7.5, "kind": "fail", "message": {"id": "m", "arguments": ["a"]},
         "locations": [{"physicalLocation": {"artifactLocation": {"uri": "a", "index": 0}, "region": {"startLine": 1, "endLine": 2}}}]},
        {"rule": {"id": "r", "index": 0, "toolComponent": {"index": 0}}, "message": {"text": "t"}, "fingerprints": {"a": "b"},
         "partialFingerprints": {"c": "d"}, "suppressions": [{"kind": "inSource", "status": "rejected"}], "baselineState": "new",
         "properties": {"security-severity": 5}},
    ]);
    let mut document = sarif(driver, results);
    document["runs"][0]["artifacts"] = json!([{"location": {"uri": "a"}}]);
    document["runs"][0]["tool"]["extensions"] = json!([{"name": "e", "guid": "g", "rules": [{"id": "x"}]}]);
    document
}

/// Returns a random unexpected value.
fn unexpected_value(random: &mut StdRng) -> Value {
    match random.random_range(0..14) {
        0 => json!(null),
        1 => json!(true),
        2 => json!(-1),
        3 => json!(u64::MAX),
        4 => json!(1e300),
        5 => json!(0.5),
        6 => json!(""),
        7 => json!("\u{0}\u{fffd}{0}{{"),
        8 => json!("x".repeat(70_000)),
        9 => json!([]),
        10 => json!({}),
        11 => json!([[[{"text": []}]]]),
        12 => (0..90).fold(json!(1), |inner, _| json!([inner])),
        _ => json!({"text": {"text": 1}}),
    }
}

/// Replaces a random part of a value with an unexpected one, or removes it.
fn mutate(value: &mut Value, random: &mut StdRng) {
    let deeper = random.random_range(0..10) < 8;
    match value {
        Value::Array(items) if deeper && !items.is_empty() => {
            let index = random.random_range(0..items.len());
            if random.random_range(0..8) == 0 {
                let again = items[index].clone();
                items.push(again);
            }
            mutate(&mut items[index], random);
        }
        Value::Object(entries) if deeper && !entries.is_empty() => {
            let index = random.random_range(0..entries.len());
            let key = entries.keys().nth(index).expect("a key").clone();
            if random.random_range(0..8) == 0 {
                entries.shift_remove(&key);
            } else if let Some(value) = entries.get_mut(&key) {
                mutate(value, random);
            }
        }
        value => *value = unexpected_value(random),
    }
}

/// Returns the text of a mutated document.
fn mutant(document: &Value, random: &mut StdRng) -> Vec<u8> {
    let mut document = document.clone();
    for _ in 0..random.random_range(1..4) {
        mutate(&mut document, random);
    }
    let mut text = document.to_string().into_bytes();
    match random.random_range(0..6) {
        0 => text.truncate(random.random_range(0..text.len())),
        1 => {
            let index = random.random_range(0..text.len());
            text[index] = random.random_range(0..=255);
        }
        2 => {
            let index = random.random_range(0..text.len());
            text.splice(index..index, b"1e999999".to_vec());
        }
        3 => text.extend_from_slice(b"{}"),
        _ => {}
    }
    text
}

async fn invalid_reports_return_error_with_path_and_position(server: TestServer) {
    let root = server.root();
    let base_path = format!("/projects/{}", project(&root, "work", json!({})).await);
    let path = format!("{base_path}/vulnerability_reports");
    let fault = async |body: &str| raw(&root, &path, body.into()).await.expect(400).json()["message"].clone();
    for (body, prefix) in [
        ("{", "the body is not valid JSON: EOF while parsing an object at line 1 column 1"),
        ("", "the body is not valid JSON: EOF while parsing a value"),
        ("{} {}", "the body is not valid JSON: trailing characters at line 1 column 4"),
        ("{\"version\": tru}", "the body is not valid JSON: expected ident"),
        ("{\"version\": 1e999}", "the body is not valid JSON: number out of range"),
        ("{\"version\": \"\\ud800\"}", "the body is not valid JSON: "),
        ("{\"version\": \"\n\"}", "the body is not valid JSON: control character"),
    ] {
        let message = fault(body).await;
        assert!(message.as_str().is_some_and(|text| text.starts_with(prefix)), "{body}: {message}");
    }
    let neither = json!({"base": ["must be a SARIF report with `runs` or a security report with `vulnerabilities`"]});
    assert_eq!(fault("{}").await, neither);
    assert_eq!(fault(r#"{"version": "2.1.0", "results": []}"#).await, neither);
    for version in [r#""version": "2.0.0","#, r#""version": 2.1,"#, ""] {
        let body = format!(r#"{{{version} "runs": []}}"#);
        assert_eq!(fault(&body).await, json!({"version": ["/version: must be \"2.1.0\""]}));
    }
    for (body, attribute, prefix) in [
        ("[]", "base", "/: invalid type: sequence, expected an object"),
        ("5", "base", "/: invalid type: integer `5`, expected an object"),
        (r#"{"runs": 5}"#, "runs", "/runs: invalid type: integer `5`, expected a list"),
        (r#"{"runs": [[]]}"#, "runs", "/runs/0: invalid type: sequence, expected an object"),
        (r#"{"runs": [], "runs": []}"#, "base", "/: duplicate key `runs`"),
        (
            r#"{"version": "2.1.0", "runs": [{"tool": []}]}"#,
            "runs",
            "/runs/0/tool: invalid type: sequence, expected an object",
        ),
        (
            r#"{"version": "2.1.0", "runs": [{"tool": {"driver": {"name": 5}}}]}"#,
            "runs",
            "/runs/0/tool/driver/name: invalid type: integer `5`, expected a string",
        ),
        (
            r#"{"version": "2.1.0", "runs": [{"tool": {"driver": {"name": "x", "rules": [{}, {"id": {}}]}}}]}"#,
            "runs",
            "/runs/0/tool/driver/rules/1: invalid type: map, expected a string",
        ),
        (
            r#"{"version": "2.1.0", "runs": [{}, {"results": {}}]}"#,
            "runs",
            "/runs/1/results: invalid type: map, expected a list",
        ),
        (
            r#"{"version": "2.1.0", "runs": [{"results": [{"message": {"text": "m"}}, {"message": "m"}]}]}"#,
            "runs",
            "/runs/0/results/1: invalid type: string \"m\", expected a message",
        ),
        (
            r#"{"version": "2.1.0", "runs": [{"results": [{"message": {"text": "m"}, "ruleId": 5}]}]}"#,
            "runs",
            "/runs/0/results/0: invalid type: integer `5`, expected a string",
        ),
        (
            r#"{"version": "2.1.0", "runs": [{"results": [{}]}]}"#,
            "runs",
            "/runs/0/results/0: must have a message or a rule",
        ),
        (r#"{"vulnerabilities": {}}"#, "vulnerabilities", "/vulnerabilities: invalid type: map, expected a list"),
        (
            r#"{"vulnerabilities": ["x"]}"#,
            "vulnerabilities",
            "/vulnerabilities/0: invalid type: string \"x\", expected a vulnerability",
        ),
        (
            r#"{"vulnerabilities": [{}]}"#,
            "vulnerabilities",
            "/vulnerabilities/0: must have a name, a message or another description",
        ),
        (
            r#"{"vulnerabilities": [{"name": "x", "name": "y"}]}"#,
            "vulnerabilities",
            "/vulnerabilities/0: duplicate field `name`",
        ),
        (
            r#"{"vulnerabilities": [{"name": "x", "location": {"start_line": "7"}}]}"#,
            "vulnerabilities",
            "/vulnerabilities/0: invalid type: string \"7\"",
        ),
        (r#"{"vulnerabilities": [], "scan": 5}"#, "scan", "/scan: invalid type: integer `5`, expected an object"),
    ] {
        let message = fault(body).await;
        let response = message[attribute][0].as_str();
        assert!(
            response.is_some_and(|text| text.starts_with(prefix) && text.contains(" at line 1 column ")),
            "{body}: {message}"
        );
    }
    let deep = format!("{{\"x\": {}", "[".repeat(100));
    assert_eq!(fault(&deep).await, "the body is nested too deeply (maximum is 100 levels)");
    let long = format!("{{\"x\": \"{}\"}}", "y".repeat(4 << 20));
    assert_eq!(fault(&long).await, "a string in the body is too long (maximum is 4 MiB)");
    assert_eq!(all(&root, &base_path).await, Vec::<Value>::new());
}

async fn mutated_reports_are_accepted_or_rejected(server: TestServer) {
    let root = server.root();
    let path = format!("/projects/{}/vulnerability_reports", project(&root, "work", json!({})).await);
    let mut random = StdRng::seed_from_u64(0x05A1_21F0);
    let sound = [valid_document(), security(&["a", "b"])];
    for document in &sound {
        raw(&root, &path, document.to_string().into_bytes()).await.expect(201);
    }
    let (mut accepted, mut rejected) = (0, 0);
    for number in 0..MUTANTS {
        let text = mutant(&sound[usize::from(number % 3 == 0)], &mut random);
        let shown = String::from_utf8_lossy(&text).chars().take(3_000).collect::<String>();
        let response = raw(&root, &path, text).await;
        match response.status {
            201 => accepted += 1,
            400 => {
                assert!(response.body.len() < 2_000, "{shown}: {}", response.text());
                rejected += 1;
            }
            other => panic!("{other}: {shown}"),
        }
    }
    assert!(accepted > 10 && rejected > 10, "{accepted} accepted and {rejected} rejected");
}

async fn oversized_and_unauthorized_reports_are_rejected_early(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    let path = format!("/projects/{work}/vulnerability_reports");
    let connection = async |token: &str, rest: &str| {
        let mut connection = RawConnection::connect(&server.base).await;
        let head = format!(
            "POST /api/v4{path} HTTP/1.1\r\nHost: h\r\nPrivate-Token: {token}\r\nContent-Type: application/json\r\n{rest}"
        );
        connection.send(head).await;
        connection.response().await.status
    };
    assert_eq!(connection(ROOT_TOKEN, "Content-Length: 52428801\r\n\r\n").await, 413);
    // No body is sent, so the response cannot depend on it.
    let non_member = server.create_user("stranger").await;
    assert_eq!(connection(&non_member.token, "Content-Length: 1000\r\n\r\n").await, 404);
    assert_eq!(connection("unknown", "Content-Length: 1000\r\n\r\n").await, 401);
    // One byte over the limit, without a `Content-Length`.
    let mut body = br#"{"vulnerabilities": []}"#.to_vec();
    body.resize(52_428_801, b' ');
    let pieces: Vec<std::io::Result<Vec<u8>>> = body.chunks(1 << 20).map(|piece| Ok(piece.to_vec())).collect();
    let streamed = reqwest::Body::wrap_stream(futures_util::stream::iter(pieces));
    let request = root.request(Method::POST, &path).header("Content-Type", "application/json").body(streamed);
    root.send(request).await.expect(413);
    let left = std::fs::read_dir(server.data().join("tmp")).expect("a folder").count();
    assert_eq!(left, 0);
}

async fn report_waits_for_parser_slot(server: TestServer) {
    let root = server.root();
    let path = format!("/projects/{}", project(&root, "work", json!({})).await);
    let budgets = &server.backend.budgets;
    let (count, used) = budgets.parser_slots();
    assert_eq!(used, 0);
    let mut slots = Vec::new();
    for _ in 0..count {
        slots.push(budgets.parser().await.expect("a slot"));
    }
    let report = security(&["a"]);
    let mut waiting = Box::pin(send(&root, &path, &report));
    assert!(tokio::time::timeout(Duration::from_secs(1), &mut waiting).await.is_err(), "the report was parsed");
    assert_eq!(all(&root, &path).await, Vec::<Value>::new());
    drop(slots);
    waiting.await.expect(201);
    assert_eq!((all(&root, &path).await.len(), budgets.parser_slots()), (1, (count, 0)));
}

on_every_database![
    report_waits_for_parser_slot,
    invalid_reports_return_error_with_path_and_position,
    mutated_reports_are_accepted_or_rejected,
    oversized_and_unauthorized_reports_are_rejected_early,
];
