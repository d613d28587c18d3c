//! The metrics of a server and a worker, compared with the table of metrics.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use domain::operations::disk_space::DiskMonitor;
use futures_util::future::join_all;
use holdfast::observability::scrape::Scraper;
use holdfast::observability::table::{METRICS, Metric, MetricType, UNDOCUMENTED_STATUS};
use reqwest::Method;
use serde::{Deserialize, Serialize};
use serde_json::json;
use storage::database::{Database, DatabaseOptions};
use storage::jobs::{self, Job, JobFailure, JobRegistry, JobRunner, RunnerOptions};
use tokio::io::{AsyncBufReadExt, BufReader};

use super::exposition::Exposition;
use crate::support::git::Work;
use crate::support::process::{Site, TOKEN, on_every_site};
use crate::support::{Client, TestServer, on_every_database};

/// How long to wait for a metric.
const TIME_LIMIT: Duration = Duration::from_secs(60);

async fn scrape(base: &str) -> Exposition {
    Exposition::parse(&Client::new(base, None).get("//-/metrics").await.expect(200).text())
}

/// Waits until a condition on the metrics is met.
async fn scrape_until(base: &str, condition: impl Fn(&Exposition) -> bool) -> Exposition {
    let met = async {
        loop {
            let found = scrape(base).await;
            if condition(&found) {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(TIME_LIMIT, met).await.expect("the condition")
}

/// Checks that each metric is in the table, with its help text, type, labels and buckets.
fn assert_agrees_with_table(found: &Exposition) {
    for (name, family) in &found.0 {
        let listed = METRICS.iter().find(|metric| metric.name == name);
        let Metric { help, metric_type, labels, buckets, .. } =
            listed.unwrap_or_else(|| panic!("{name} is not listed"));
        assert_eq!((family.help.as_str(), family.metric_type.as_str()), (*help, metric_type.name()), "{name}");
        assert_eq!(family.label_names(), labels.iter().copied().collect::<BTreeSet<_>>(), "{name}");
        let mut expected: BTreeSet<String> = buckets.iter().map(f64::to_string).collect();
        if *metric_type == MetricType::Histogram {
            expected.insert("+Inf".to_owned());
        }
        let bounds = family.samples.iter().filter_map(|sample| sample.labels.get("le").cloned());
        assert_eq!(bounds.collect::<BTreeSet<_>>(), expected, "{name}");
    }
}

/// A job of which no process runs the kind.
#[derive(Serialize, Deserialize)]
struct Unknown {}

impl Job for Unknown {
    const KIND: &'static str = "unknown_to_the_server";
}

async fn server_reports_every_metric_of_the_table(site: Site) {
    let server = site.serve(&[]).await;
    let database = Database::connect(&site.database_url(), &DatabaseOptions::default()).await.expect("a database");
    jobs::enqueue(database.write(), &Unknown {}).await.expect("a job");
    database.close().await.expect("closing");

    let root = Client::new(&server.base, Some(TOKEN));
    root.post("/projects", json!({"name": "p", "initialize_with_readme": true})).await.expect(201);
    for _ in 0..3 {
        root.get("/projects?search=p").await.expect(200);
    }
    root.get("/projects/404").await.expect(404);
    root.get("//missing").await.expect(404);
    root.get("//docs").await;
    root.get("//-/liveness").await.expect(200);
    root.get("/projects/root%2Fp/repository/archive.tar").await.expect(200);
    let package = "/projects/root%2Fp/packages/maven/com/gear/1.0/gear.jar";
    root.send(root.request(Method::PUT, package).body("12345")).await.expect(200);
    for _ in 0..2 {
        assert_eq!(root.get(package).await.expect(200).text(), "12345");
    }
    let work = Work::empty();
    let address = server.address("p");
    work.git(&["clone", "--quiet", &address, "c"]).await;
    let clone = work.below("c");
    clone.commit("a", "1").await;
    clone.git(&["push", "--quiet", "origin", "main"]).await;
    clone.fails(&["fetch", "--quiet", &address, &"1".repeat(40)]).await;

    let is_complete = |found: &Exposition| {
        let shown = |metric: &Metric| metric.name == UNDOCUMENTED_STATUS.name || found.0.contains_key(metric.name);
        let missing: Vec<&str> = METRICS.iter().filter(|metric| !shown(metric)).map(|metric| metric.name).collect();
        let programs = |kind, result| found.sum("holdfast_git_programs_total", &[("kind", kind), ("result", result)]);
        let are_counted = programs("push", "success") == Some(1.0)
            && programs("archive", "success") == Some(1.0)
            && programs("fetch", "failure").is_some()
            && programs("advertisement", "success").is_some_and(|count| count >= 2.0);
        let jobs = found.sum("holdfast_job_attempts_total", &[("result", "success")]);
        missing.is_empty() && are_counted && jobs.is_some()
    };
    let found = scrape_until(&server.base, is_complete).await;
    assert_agrees_with_table(&found);
    let value = |name: &str, labels: &[(&str, &str)]| found.sum(name, labels);
    for (operation, method, status, count) in [
        ("list_projects", "GET", "200", 3.0),
        ("create_project", "POST", "201", 1.0),
        ("get_project", "GET", "404", 1.0),
        ("unmatched", "GET", "404", 1.0),
    ] {
        let labels = [("operation", operation), ("method", method), ("status", status)];
        assert_eq!(value("holdfast_requests_total", &labels), Some(count), "{operation}");
    }
    for operation in ["git", "health", "page"] {
        assert!(value("holdfast_requests_total", &[("operation", operation)]).is_some(), "{operation}");
    }
    let listed = [("operation", "list_projects"), ("status_class", "2xx")];
    assert_eq!(value("holdfast_request_seconds_count", &listed), Some(3.0));
    assert!(value("holdfast_git_seconds_count", &[("kind", "fetch")]) >= Some(2.0));
    assert!(value("holdfast_git_cpu_seconds_sum", &[("program", "receive-pack")]) > Some(0.0));
    let unknown = |state| [("kind", Unknown::KIND), ("state", state)];
    assert_eq!(value("holdfast_jobs", &unknown("waiting")), Some(1.0));
    assert_eq!(value("holdfast_jobs", &unknown("failed")), Some(0.0));
    assert!(value("holdfast_job_oldest_seconds", &[("kind", Unknown::KIND)]) > Some(0.0));
    for check in ["database", "repositories", "disk"] {
        assert_eq!(value("holdfast_ready", &[("check", check)]), Some(1.0), "{check}");
    }
    for part in ["database", "disk", "process"] {
        assert_eq!(value("holdfast_scrape_errors", &[("part", part)]), Some(0.0), "{part}");
    }
    assert_eq!(value("holdfast_repositories", &[]), Some(1.0));
    let maven = [("format", "maven")];
    for (name, expected) in [
        ("holdfast_package_uploads_total", 1.0),
        ("holdfast_package_upload_bytes_total", 5.0),
        ("holdfast_package_downloads_total", 2.0),
        ("holdfast_package_download_bytes_total", 10.0),
        ("holdfast_packages", 1.0),
        ("holdfast_package_files", 1.0),
        ("holdfast_package_files_bytes", 5.0),
    ] {
        assert_eq!(value(name, &maven), Some(expected), "{name}");
    }
    assert_eq!(value("holdfast_build_info", &[("version", env!("CARGO_PKG_VERSION"))]), Some(1.0));
    assert!(value("holdfast_database_statement_seconds_count", &[]) > Some(10.0));
    assert!(value("holdfast_database_wait_seconds_count", &[]) > Some(10.0));
    assert!(value("holdfast_database_connections_open", &[]) >= Some(1.0));
    assert!(value("holdfast_database_connections_limit", &[]) >= Some(10.0));
    assert!(value("process_resident_memory_bytes", &[]) > Some(1e6));
    assert!(value("process_open_fds", &[]) > Some(3.0));
    assert!(value("process_max_fds", &[]) > value("process_open_fds", &[]));
    assert!(value("process_cpu_seconds_total", &[]) > Some(0.0));
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a time").as_secs_f64();
    let start = value("process_start_time_seconds", &[]).expect("a start");
    assert!(start > clock - 3_600.0 && start < clock + 60.0, "{start} at {clock}");
    server.stop().await;
}

async fn worker_reports_metrics(site: Site) {
    site.serve(&[]).await.stop().await;
    let mut command = site.command(&["worker", "--worker-listen", "127.0.0.1:0"]);
    let mut worker = command.stdout(Stdio::piped()).spawn().expect("the binary");
    let mut lines = BufReader::new(worker.stdout.take().expect("its output")).lines();
    let base = loop {
        let line = lines.next_line().await.expect("a line").expect("an address");
        if let Some(base) = line.strip_prefix("Health: ").and_then(|line| line.strip_suffix("/-/health")) {
            break base.to_owned();
        }
    };
    let is_complete = |found: &Exposition| found.sum("holdfast_job_attempts_total", &[]).is_some();
    let found = scrape_until(&base, is_complete).await;
    assert_agrees_with_table(&found);
    assert!(!found.0.contains_key("holdfast_response_cache_entries"));
    assert_eq!(found.sum("holdfast_ready", &[("check", "database")]), Some(1.0));
    worker.kill().await.expect("killing");
}

on_every_site![server_reports_every_metric_of_the_table, worker_reports_metrics];

async fn scrape_runs_at_most_three_statements(server: TestServer) {
    scrape(&server.base).await;
    let before = server.statements();
    scrape(&server.base).await;
    let texts = server.statement_texts(before);
    assert!(texts.len() <= 3, "{texts:?}");
}

async fn concurrent_clients_share_a_scrape(server: TestServer) {
    let scraper = Scraper::new(&server.backend, DiskMonitor::of_instance(&server.backend), None);
    let texts = join_all((0..20).map(|_| scraper.scrape())).await;
    let first = texts[0].as_ref().expect("a text");
    assert!(texts.iter().all(|text| text.as_ref().is_some_and(|text| Arc::ptr_eq(text, first))));
    let next = scraper.scrape().await.expect("a text");
    assert!(!Arc::ptr_eq(&next, first));
}

/// A job that fails in its first attempt, or in each.
#[derive(Serialize, Deserialize)]
struct Failing {
    always: bool,
}

impl Job for Failing {
    const KIND: &'static str = "failing_job_of_the_metrics";
    const MAX_ATTEMPTS: u16 = 2;
}

async fn results_of_jobs_are_counted(server: TestServer) {
    let database = &server.backend.database;
    for always in [true, false] {
        jobs::enqueue(database.write(), &Failing { always }).await.expect("a job");
    }
    let registry = JobRegistry::default().handle(|job: Failing, attempt| async move {
        match job.always || attempt.number == 1 {
            true => Err(JobFailure::transient("a failure")),
            false => Ok(()),
        }
    });
    let options =
        RunnerOptions { backoff: Duration::from_millis(1), poll: Duration::from_millis(5), ..RunnerOptions::default() };
    let done = async {
        loop {
            let backlog = jobs::backlog(database.read()).await.expect("a backlog");
            if (backlog.waiting, backlog.running, backlog.dead) == (0, 0, 1) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let runner = JobRunner::new(database.clone(), registry, options);
    tokio::time::timeout(TIME_LIMIT, runner.run(done)).await.expect("the jobs");
    let later = storage::entities::now() + Duration::from_secs(3_600);
    jobs::enqueue_at(database.write(), &Failing { always: false }, later).await.expect("a job");
    let found = scrape(&server.base).await;
    let attempts = |result| {
        found.sum("holdfast_job_attempts_total", &[("kind", Failing::KIND), ("result", result)]).unwrap_or_default()
    };
    // The tests of both databases count in one process.
    assert!(attempts("success") >= 1.0 && attempts("failure") >= 1.0 && attempts("retry") >= 2.0, "{found:?}");
    for (state, count) in [("failed", 1.0), ("scheduled", 1.0), ("waiting", 0.0), ("running", 0.0)] {
        let labels = [("kind", Failing::KIND), ("state", state)];
        assert_eq!(found.sum("holdfast_jobs", &labels), Some(count), "{state}");
    }
    assert_eq!(found.sum("holdfast_job_oldest_seconds", &[("kind", Failing::KIND)]), Some(0.0));
}

on_every_database![
    scrape_runs_at_most_three_statements,
    concurrent_clients_share_a_scrape,
    results_of_jobs_are_counted,
];
