//! The log of the server and the worker.

use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use storage::entities::settings;
use tokio::io::{AsyncBufReadExt, BufReader};

use super::key_rotation::secrets::open;
use crate::support::Client;
use crate::support::git::Work;
use crate::support::process::{Process, Site, TOKEN, on_every_site};
use crate::support::raw_http::RawConnection;

/// How long to wait for a line.
const TIME_LIMIT: Duration = Duration::from_secs(15);

/// Starts a server with a log file next to the data directory.
async fn serve(site: &Site, filter: &str, arguments: &[&str]) -> Process {
    let log = std::fs::File::create(site.sibling_path("log")).unwrap();
    let mut command = site.command(&[&["serve", "--listen", "127.0.0.1:0", "--log", filter], arguments].concat());
    command.stderr(log);
    Site::ready(command).await
}

fn lines(site: &Site) -> Vec<Value> {
    let text = std::fs::read_to_string(site.sibling_path("log")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("not JSON: {line}"))).collect()
}

/// Waits for the access line of a path.
async fn access_line(site: &Site, path: &str) -> Value {
    let deadline = Instant::now() + TIME_LIMIT;
    loop {
        let found = lines(site).into_iter().find(|line| line["path"] == path);
        if let Some(line) = found {
            return line;
        }
        assert!(Instant::now() < deadline, "no line for {path}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn access_line_has_fields_of_request(site: Site) {
    let server = serve(&site, "info", &["--log-json", "--trusted-proxies", "127.0.0.0/8"]).await;
    let work = Work::new().await;
    work.commit("a", "1").await;
    site.import("p", &work.path).await;
    let root = Client::new(&server.base, Some(TOKEN)).header("X-Forwarded-For", "203.0.113.9");
    let shown = root.get("/projects/root%2Fp?license=true").await.expect(200);
    let id = shown.headers["x-request-id"].to_str().unwrap().to_owned();
    let line = access_line(&site, "/api/v4/projects/root%2Fp").await;
    assert_eq!(line["target"], "holdfast::access");
    assert_eq!(line["message"], "request");
    assert_eq!(line["method"], "GET");
    assert_eq!(line["route"], "/api/v4/projects/{id}");
    assert_eq!(line["status"], 200);
    assert_eq!(line["user_id"], 1);
    assert_eq!(line["address"], "203.0.113.9");
    assert_eq!(line["request_id"], id);
    assert_eq!(line["bytes"], shown.body.len());
    assert!(line["duration_ms"].as_f64().is_some_and(|duration| duration > 0.0), "{line}");
    assert!(line.get("span").is_none() && line.get("spans").is_none(), "{line}");

    let anonymous = Client::new(&server.base, None);
    anonymous.get("/projects/root%2Fmissing?private_token=secret-query").await.expect(401);
    let line = access_line(&site, "/api/v4/projects/root%2Fmissing").await;
    assert_eq!((&line["status"], line.get("user_id")), (&401.into(), None));

    // The size of an archive is not known when its response begins.
    let archive = root.get("/projects/root%2Fp/repository/archive.tar").await.expect(200);
    let line = access_line(&site, "/api/v4/projects/root%2Fp/repository/archive.tar").await;
    assert_eq!(line["bytes"], archive.body.len());
    work.git(&["ls-remote", &server.address("p")]).await;
    assert_eq!(access_line(&site, "/root/p.git/info/refs").await["route"], "git");
    server.stop().await;

    let log = lines(&site);
    let messages: Vec<_> = log.iter().filter_map(|line| line["message"].as_str()).collect();
    let started = log.iter().find(|line| line["message"] == "started").expect("a start line");
    assert_eq!(started["process"], "server");
    assert!(messages.iter().any(|text| text.starts_with("stopping")), "{messages:?}");
    assert_eq!(messages.last(), Some(&"stopped"));
    let text = std::fs::read_to_string(site.sibling_path("log")).unwrap();
    assert!(!text.contains("secret-query"), "{text}");
}

/// Waits until a metric has a value. `name` includes the labels.
async fn metric_has(server: &Process, name: &str, value: usize) {
    let client = Client::new(&server.base, None);
    let deadline = Instant::now() + TIME_LIMIT;
    loop {
        let metrics = client.get("//-/metrics").await.expect(200).text();
        let shown = metrics.lines().find_map(|line| line.strip_prefix(name));
        if shown.is_some_and(|shown| shown.trim().parse() == Ok(value)) {
            return;
        }
        assert!(Instant::now() < deadline, "{name}: {shown:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn request_of_client_that_leaves_is_logged(site: Site) {
    let server = serve(&site, "info", &["--log-json"]).await;
    // The first request of a token records its use. The request below does not, and receives its body before it waits.
    Client::new(&server.base, Some(TOKEN)).get("/version").await.expect(200);
    let database = open(&site).await;
    database
        .transaction(async |transaction| {
            // The request waits for this transaction.
            settings::put(transaction, "default_projects_limit", "5").await?;
            let body = r#"{"default_projects_limit":7}"#;
            let mut connection = RawConnection::connect(&server.base).await;
            let request = format!(
                "PUT /api/v4/application/settings HTTP/1.1\r\nHost: h\r\nPRIVATE-TOKEN: {TOKEN}\r\n\
                 Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
            connection.send(request).await;
            metric_has(&server, "holdfast_received_bytes_total ", body.len()).await;
            drop(connection);
            let line = access_line(&site, "/api/v4/application/settings").await;
            assert_eq!((&line["status"], &line["bytes"], &line["method"]), (&499.into(), &0.into(), &"PUT".into()));
            let labels = r#"{operation="update_application_settings",method="PUT",status="499"}"#;
            metric_has(&server, &format!("holdfast_requests_total{labels} "), 1).await;
            Ok::<_, sea_orm::DbErr>(())
        })
        .await
        .unwrap();
    database.close().await.unwrap();
    server.stop().await;
    let log = lines(&site);
    let count = log.iter().filter(|line| line["path"] == "/api/v4/application/settings").count();
    assert_eq!(count, 1);
}

async fn log_of_requests_can_be_disabled(site: Site) {
    let server = serve(&site, "info,holdfast::access=off", &["--log-json"]).await;
    Client::new(&server.base, Some(TOKEN)).get("/version").await.expect(200);
    server.stop().await;
    let log = lines(&site);
    assert!(log.iter().any(|line| line["message"] == "started"), "{log:?}");
    assert!(log.iter().all(|line| line["target"] != "holdfast::access"), "{log:?}");
}

async fn server_on_all_addresses_without_base_url_logs_it_once(site: Site) {
    let mut command = site.command(&["serve", "--listen", "0.0.0.0:0", "--log-json"]);
    command.stderr(std::fs::File::create(site.sibling_path("log")).unwrap());
    let server = Site::ready(command).await;
    assert!(server.base.starts_with("http://localhost:"), "{}", server.base);
    let root = Client::new(&server.base, Some(TOKEN));
    let project = root.post("/projects", json!({ "name": "p" })).await.expect(201).json();
    assert_eq!(project["http_url_to_repo"], format!("{}/root/p.git", server.base));
    server.stop().await;
    let log = lines(&site);
    let logged = log.iter().filter(|line| line["message"].as_str().unwrap().starts_with("started without base_url"));
    assert_eq!(logged.count(), 1, "{log:?}");
}

async fn log_in_file_has_no_colors(site: Site) {
    let server = serve(&site, "info", &[]).await;
    Client::new(&server.base, Some(TOKEN)).get("/version").await.expect(200);
    server.stop().await;
    let text = std::fs::read_to_string(site.sibling_path("log")).unwrap();
    assert!(text.contains("started") && !text.contains('\u{1b}'), "{text}");
}

async fn failing_readiness_is_logged(site: Site) {
    let server = serve(&site, "info", &["--log-json"]).await;
    let repositories = site.data.join("repositories");
    std::fs::rename(&repositories, site.data.join("moved")).unwrap();
    let health = format!("{}/-/readiness", server.base);
    assert_eq!(reqwest::get(&health).await.unwrap().status(), 503);
    std::fs::rename(site.data.join("moved"), &repositories).unwrap();
    assert_eq!(reqwest::get(&health).await.unwrap().status(), 200);
    server.stop().await;
    let log = lines(&site);
    let warnings: Vec<_> = log.iter().filter(|line| line["level"] == "WARN").collect();
    let named = warnings.iter().any(|line| line["message"].as_str().unwrap().contains("directory of the repositories"));
    assert!(named, "{warnings:?}");
}

async fn invalid_log_filter_is_refused(site: Site) {
    let output = site.fails(&["serve", "--log", "holdfast=loud"]).await;
    assert!(output.contains("log: \"holdfast=loud\" is not a log filter"), "{output}");
}

async fn worker_has_health_endpoints(site: Site) {
    site.serve(&[]).await.stop().await;
    let output = site.fails(&["worker", "--listen", "127.0.0.1:0"]).await;
    assert!(output.contains("use --worker-listen"), "{output}");
    let mut command = site.command(&["worker", "--worker-listen", "127.0.0.1:0"]);
    let mut worker = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut printed = BufReader::new(worker.stdout.take().unwrap()).lines();
    let first = printed.next_line().await.unwrap().unwrap();
    assert!(first.starts_with("Holdfast ") && first.ends_with(" runs jobs"), "{first}");
    let health = printed.next_line().await.unwrap().unwrap();
    let health = health.strip_prefix("Health: ").unwrap();
    assert_eq!(reqwest::get(health).await.unwrap().status(), 200);
    let metrics = reqwest::get(health.replace("/health", "/metrics")).await.unwrap();
    assert_eq!(metrics.status(), 200);
    let other = reqwest::get(health.replace("/-/health", "/api/v4/version")).await.unwrap();
    assert_eq!(other.status(), 404);
    let pid = rustix::process::Pid::from_raw(i32::try_from(worker.id().unwrap()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(worker.wait().await.unwrap().code(), Some(0));
}

on_every_site![
    access_line_has_fields_of_request,
    request_of_client_that_leaves_is_logged,
    log_of_requests_can_be_disabled,
    server_on_all_addresses_without_base_url_logs_it_once,
    log_in_file_has_no_colors,
    failing_readiness_is_logged,
    invalid_log_filter_is_refused,
    worker_has_health_endpoints,
];
