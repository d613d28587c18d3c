//! Tests of the parsers, without a server.

use std::io::Cursor;

use serde_json::{Value, json};

use super::document::{MAX_NESTING, MAX_TEXT_BYTES};
use super::finding::{MAX_FINDINGS_BYTES, MAX_RESULTS};
use super::{Finding, ReportError, read_report};

/// Returns the findings of a document.
fn findings(document: &[u8]) -> Result<Vec<Finding>, ReportError> {
    let mut output = Vec::new();
    read_report(&mut Cursor::new(document), &mut output)?;
    let text = String::from_utf8(output).expect("findings");
    let found = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("a finding"));
    Ok(found.collect())
}

fn fault(document: &[u8]) -> String {
    match findings(document).expect_err("a fault") {
        ReportError::Invalid(text) | ReportError::Attribute { text, .. } => text,
        other => panic!("{other}"),
    }
}

fn sarif(results: &Value) -> Vec<u8> {
    let run = json!({"tool": {"driver": {"name": "t"}}, "results": results});
    json!({"version": "2.1.0", "runs": [run]})
        .to_string()
        .into_bytes()
}

#[test]
fn byte_order_mark_is_ignored() {
    let document = sarif(&json!([{"message": {"text": "one"}}]));
    let marked = [&[0xEF, 0xBB, 0xBF][..], &document].concat();
    assert_eq!(
        findings(&marked).expect("findings"),
        findings(&document).expect("findings")
    );
    assert!(fault(&[0xEF, 0xBB, 0xBF]).contains("not valid JSON"));
}

#[test]
fn message_arguments_replace_numbered_placeholders() {
    let description_of = |text: &str, arguments: Value| {
        let document = sarif(&json!([{"message": {"text": text, "arguments": arguments}}]));
        findings(&document).expect("findings")[0]
            .description
            .clone()
            .expect("a text")
    };
    assert_eq!(description_of("a {0} b {1} {0}", json!(["x", "y"])), "a x b y x");
    assert_eq!(description_of("{2} {x} {", json!(["x"])), "{2} {x} {");
    assert_eq!(description_of("{{0}} {0}", json!(["x"])), "{0} x");
    assert_eq!(description_of("{0}", json!(["{0}{1}"])), "{0}{1}");
    assert_eq!(description_of("{0} {{}}", json!([])), "{0} {{}}");
    assert_eq!(description_of("{0000}", json!(["x"])), "x");
    // A placeholder consists of at most four digits, so the rest of the text is not searched for its end.
    for text in ["{+0}", "{00000}", "{ 0}", "{0 }", "{0", "{0{0", "}0}", "{ä}"] {
        assert_eq!(description_of(text, json!(["x"])), text);
    }
    let brackets = "{x".repeat(50_000);
    assert_eq!(description_of(&brackets, json!(["x"])), brackets);
    // Repetitions are limited by the maximum length.
    let much = description_of(&"{0}".repeat(100_000), json!(["ä".repeat(4_000)]));
    assert_eq!(much.chars().count(), 100_000);
}

#[test]
fn long_texts_and_deep_nesting_are_rejected() {
    let long = format!("{{\"x\": \"{}\"}}", "y".repeat(MAX_TEXT_BYTES));
    assert!(fault(long.as_bytes()).contains("is too long (maximum is 4 MiB)"));
    let quoted = format!("{{\"x\": \"{}\"}}", "\\\"".repeat(MAX_TEXT_BYTES / 2));
    assert!(fault(quoted.as_bytes()).contains("is too long (maximum is 4 MiB)"));
    let deep = format!("{{\"x\": {}", "[".repeat(MAX_NESTING));
    assert!(fault(deep.as_bytes()).contains("nested too deeply (maximum is 100 levels)"));
    // Brackets inside texts do not count.
    let flat = json!({"version": "2.1.0", "runs": [], "x": "[{".repeat(MAX_NESTING), "y": ["\\\"[".repeat(MAX_NESTING)]});
    assert_eq!(findings(flat.to_string().as_bytes()).expect("findings"), []);
}

#[test]
fn results_rules_runs_extensions_and_texts_are_limited() {
    let results = vec![json!({"kind": "pass"}); MAX_RESULTS];
    assert_eq!(findings(&sarif(&json!(results))).expect("findings"), []);
    let more = vec![json!({"kind": "pass"}); MAX_RESULTS + 1];
    let text = fault(&sarif(&json!(more)));
    assert!(
        text.contains("/runs/0/results/100000: too many results (maximum is 100000)"),
        "{text}"
    );
    let all = vec![json!({"name": "x"}); MAX_RESULTS + 1];
    let text = fault(json!({"vulnerabilities": all}).to_string().as_bytes());
    assert!(
        text.contains("/vulnerabilities/100000: too many results (maximum is 100000)"),
        "{text}"
    );
    let tool = |driver: Value| {
        let run = json!({"tool": driver, "results": []});
        json!({"version": "2.1.0", "runs": [run]})
            .to_string()
            .into_bytes()
    };
    let rules = vec![json!({"id": "r"}); 50_001];
    let text = fault(&tool(json!({"driver": {"name": "t", "rules": rules}})));
    assert!(
        text.contains("/runs/0/tool/driver/rules/50000: too many rules (maximum is 50000)"),
        "{text}"
    );
    let extensions = vec![json!({"name": "e"}); 1_001];
    let text = fault(&tool(json!({"driver": {"name": "t"}, "extensions": extensions})));
    assert!(
        text.contains("/runs/0/tool/extensions/1000: too many extensions (maximum is 1000)"),
        "{text}"
    );
    let runs = vec![json!({}); 1_001];
    let text = fault(json!({"version": "2.1.0", "runs": runs}).to_string().as_bytes());
    assert!(
        text.contains("/runs/1000: too many runs (maximum is 1000)"),
        "{text}"
    );
    let rules = vec![json!({"id": "r", "fullDescription": {"text": "x".repeat(4_000)}}); 5_000];
    let text = fault(&tool(json!({"driver": {"name": "t", "rules": rules}})));
    assert!(
        text.contains("has too many strings (maximum is 16 MiB)"),
        "{text}"
    );
}

#[test]
fn total_size_of_findings_is_limited() {
    let document = |rule: Value, results: &[Value]| {
        let run = json!({"tool": {"driver": {"name": "t", "rules": [rule]}}, "results": results});
        json!({"version": "2.1.0", "runs": [run]})
            .to_string()
            .into_bytes()
    };
    let rule = json!({"id": "r", "messageStrings": {"m": {"text": "{0}".repeat(1_333)}}});
    let result = |fingerprint: usize| {
        json!({
            "ruleId": "r", "message": {"id": "m", "arguments": ["x".repeat(4_000)]},
            "fingerprints": {"f": fingerprint.to_string()},
        })
    };
    // The placeholders multiply the size of each result by 100.
    let distinct: Vec<Value> = (0..1_000).map(result).collect();
    let same: Vec<Value> = (0..1_000).map(|_| result(0)).collect();
    for results in [&distinct, &same] {
        let mut output = Vec::new();
        let document = document(rule.clone(), results);
        let error = read_report(&mut Cursor::new(document), &mut output).expect_err("a fault");
        let text = error.to_string();
        assert!(
            text.contains("/runs/0/results/")
                && text.contains("the findings are too large (maximum is 64 MiB)"),
            "{text}"
        );
        assert!(output.len() <= MAX_FINDINGS_BYTES, "{}", output.len());
    }
    let accepted = findings(&document(rule, &distinct[..100])).expect("findings");
    assert_eq!(accepted.len(), 100);
    // Descriptions of a rule count for each result, also without placeholders.
    let rule = json!({"id": "r", "fullDescription": {"text": "x".repeat(4_000)}});
    let results: Vec<Value> = (0..20_000)
        .map(|number| json!({"ruleId": "r", "fingerprints": {"f": number.to_string()}}))
        .collect();
    let text = fault(&document(rule, &results));
    assert!(
        text.contains("the findings are too large (maximum is 64 MiB)"),
        "{text}"
    );
}

#[test]
fn error_quotes_little_of_the_document() {
    let document = sarif(&json!([{"message": "x".repeat(100_000)}]));
    let text = fault(&document);
    assert!(
        text.contains("/runs/0/results/0: invalid type: string") && text.len() < 400,
        "{text}"
    );
}
