//! `docs/METRICS.md`, the dashboard and the alert rules name only metrics of the table.

use std::collections::BTreeSet;

use holdfast::config::ConfigOptions;
use holdfast::observability::table::{METRICS, Metric, MetricType};
use regex::Regex;
use serde_json::Value;

fn read(name: &str) -> String {
    let path = format!("{}/docs/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the rows of the table that follows a heading.
fn rows(page: &str, heading: &str) -> Vec<String> {
    let (_, section) = page.split_once(&format!("\n{heading}\n")).expect("a heading");
    let table = section.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    table.skip(2).map(str::to_owned).collect()
}

fn page_lists_metrics_as_in_the_table() {
    let row = |metric: &Metric| {
        let labels: Vec<String> = metric.labels.iter().map(|label| format!(" `{label}`")).collect();
        format!("| `{}` | {} |{} | {} |", metric.name, metric.metric_type.name(), labels.join(","), metric.help)
    };
    let expected: Vec<String> = METRICS.iter().map(row).collect();
    assert_eq!(rows(&read("METRICS.md"), "## Metrics"), expected);
}

fn page_lists_buckets_as_in_the_table() {
    let histograms = METRICS.iter().filter(|metric| metric.metric_type == MetricType::Histogram);
    let expected: Vec<String> = histograms
        .map(|metric| {
            let buckets: Vec<String> = metric.buckets.iter().map(f64::to_string).collect();
            format!("| `{}` | {} |", metric.name, buckets.join(", "))
        })
        .collect();
    assert_eq!(rows(&read("METRICS.md"), "## Buckets"), expected);
}

/// Returns the metrics in expressions that are not in the table, or are there without the given suffix.
fn unknown(text: &str) -> Vec<String> {
    let names = Regex::new(r"\b(?:holdfast|process)_[a-z_]+\b").expect("an expression");
    let is_listed = |name: &str| {
        METRICS.iter().any(|metric| match name.strip_prefix(metric.name) {
            Some("") => metric.metric_type != MetricType::Histogram,
            Some("_bucket" | "_sum" | "_count") => metric.metric_type == MetricType::Histogram,
            _ => false,
        })
    };
    names.find_iter(text).map(|found| found.as_str()).filter(|name| !is_listed(name)).map(str::to_owned).collect()
}

fn dashboard_has_only_metrics_of_the_table() {
    let dashboard: Value = serde_json::from_str(&read("monitoring/dashboard.json")).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let mut shown = BTreeSet::new();
    let mut ids = BTreeSet::new();
    for panel in panels {
        assert!(ids.insert(panel["id"].as_u64().expect("an ID")), "{panel}");
        let targets = panel["targets"].as_array();
        assert!(panel["type"] == "row" || targets.is_some_and(|targets| !targets.is_empty()), "{panel}");
        for target in targets.into_iter().flatten() {
            let expression = target["expr"].as_str().expect("an expression");
            assert_eq!(unknown(expression), [""; 0], "{expression}");
            shown.extend(METRICS.iter().map(|metric| metric.name).filter(|name| expression.contains(name)));
        }
    }
    let variable = dashboard["templating"]["list"][1]["query"].as_str().expect("a query");
    assert_eq!(unknown(variable), [""; 0], "{variable}");
    let hidden = ["process_virtual_memory_bytes", "process_start_time_seconds", "holdfast_scrape_seconds"];
    let missing: Vec<&str> = METRICS.iter().map(|metric| metric.name).filter(|name| !shown.contains(name)).collect();
    assert!(missing.iter().all(|name| hidden.contains(name)), "the dashboard does not show {missing:?}");
}

fn alerts_have_metrics_of_the_table_and_a_section() {
    let rules: Value = yaml_serde::from_str(&read("monitoring/alerts.yml")).expect("YAML");
    let page = read("METRICS.md");
    let (_, section) = page.split_once("\n## Alerts\n").expect("the section of alerts");
    let section = section.split("\n## ").next().unwrap_or_default();
    let headings: BTreeSet<&str> = section.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    let mut alerts = BTreeSet::new();
    for rule in rules["groups"][0]["rules"].as_array().expect("rules") {
        let name = rule["alert"].as_str().expect("a name");
        assert!(alerts.insert(name), "{name} appears twice");
        let expression = rule["expr"].as_str().expect("an expression");
        assert_eq!(unknown(expression), [""; 0], "{name}");
        assert!(["warning", "critical"].contains(&rule["labels"]["severity"].as_str().expect("a severity")));
        assert!(rule["for"].is_string(), "{name}");
        for text in ["summary", "description"] {
            assert!(rule["annotations"][text].as_str().is_some_and(|text| !text.is_empty()), "{name} has no {text}");
        }
        let anchor = format!("docs/METRICS.md#{}", name.to_lowercase());
        assert_eq!(rule["annotations"]["runbook"], anchor.as_str(), "{name}");
    }
    assert_eq!(alerts, headings);
    let cases = read("monitoring/alerts_test.yml");
    for alert in alerts {
        assert!(cases.contains(&format!("  - name: {alert} fires\n")), "no test lets {alert} fire");
    }
}

fn page_has_valid_settings_of_traces() {
    let page = read("METRICS.md");
    let (_, block) = page.split_once("\n```toml traces.toml\n").expect("a block");
    let block = block.split("\n```").next().unwrap_or_default();
    let directory = tempfile::tempdir().expect("a directory");
    let headers = directory.path().join("headers");
    std::fs::write(&headers, "Authorization=Bearer TOKEN\n").expect("a file");
    let path = directory.path().join("holdfast.toml");
    let headers = headers.to_str().expect("UTF-8");
    std::fs::write(&path, block.replace("/etc/holdfast/trace-headers", headers)).expect("a file");
    let options = ConfigOptions::default().over_file(Some(&path)).expect("a settings file");
    let traces = options.settings().expect("settings").traces.expect("a collector");
    assert_eq!((traces.endpoint.as_str(), traces.sampling_ratio), ("http://127.0.0.1:4318", 0.1));
    assert_eq!(traces.headers.len(), 1);
}

harness::tests![
    page_lists_metrics_as_in_the_table,
    page_lists_buckets_as_in_the_table,
    dashboard_has_only_metrics_of_the_table,
    alerts_have_metrics_of_the_table_and_a_section,
    page_has_valid_settings_of_traces,
];
