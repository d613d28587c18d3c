//! Traces that a server sends to a collector.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use crate::support::Client;
use crate::support::http_request::receive;
use crate::support::process::{Process, Site, TOKEN, on_every_site};
use crate::support::webhook_receiver::unused_address;

/// How long to wait for a span.
const TIME_LIMIT: Duration = Duration::from_secs(60);
/// Trace ID of a caller.
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
/// Span ID of a caller.
const PARENT: &str = "b7ad6b7169203331";

/// What a collector received.
#[derive(Default)]
struct Collected {
    spans: Vec<Span>,
    services: Vec<String>,
    heads: Vec<(String, HashMap<String, String>)>,
    bytes: Vec<u8>,
}

/// A collector on the loopback address.
struct Collector {
    url: String,
    collected: Arc<Mutex<Collected>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Collector {
    /// Starts a collector. If `responds` is false, it never answers.
    async fn start(responds: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let collected = Arc::new(Mutex::new(Collected::default()));
        let shared = Arc::clone(&collected);
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            loop {
                let (mut stream, _) = listener.accept().await.expect("a connection");
                let shared = Arc::clone(&shared);
                connections.spawn(async move {
                    let Some(request) = receive(&mut stream).await else { return };
                    shared.lock().expect("the spans").add(request.line, request.headers, &request.body);
                    if !responds {
                        std::future::pending::<()>().await;
                    }
                    let response = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
                    let _ = stream.write_all(response).await;
                });
            }
        });
        Self { url, collected, task }
    }

    /// Waits until `find` returns a value.
    async fn wait<T>(&self, find: impl Fn(&Collected) -> Option<T>) -> T {
        let found = async {
            loop {
                if let Some(found) = find(&self.collected.lock().expect("the spans")) {
                    return found;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let found = tokio::time::timeout(TIME_LIMIT, found).await;
        found.unwrap_or_else(|_| panic!("{:#?}", self.collected.lock().expect("the spans").spans))
    }
}

impl Collected {
    fn add(&mut self, line: String, headers: HashMap<String, String>, body: &[u8]) {
        let request = ExportTraceServiceRequest::decode(body).expect("a request of OTLP");
        for resource in request.resource_spans {
            let attributes = resource.resource.map(|resource| resource.attributes).unwrap_or_default();
            let names = attributes.into_iter().filter(|attribute| attribute.key == "service.name");
            self.services.extend(names.filter_map(|name| match name.value?.value? {
                Value::StringValue(name) => Some(name),
                _ => None,
            }));
            self.spans.extend(resource.scope_spans.into_iter().flat_map(|scope| scope.spans));
        }
        self.heads.push((line, headers));
        self.bytes.extend_from_slice(body);
    }

    fn of_trace(&self, trace: &str) -> Vec<Span> {
        self.spans.iter().filter(|span| hex::encode(&span.trace_id) == trace).cloned().collect()
    }
}

/// Returns an attribute as a text.
fn attribute(span: &Span, key: &str) -> Option<String> {
    let found = span.attributes.iter().find(|attribute| attribute.key == key)?;
    match found.value.clone()?.value? {
        Value::StringValue(text) => Some(text),
        Value::IntValue(number) => Some(number.to_string()),
        other => Some(format!("{other:?}")),
    }
}

async fn serve(site: &Site, url: &str, arguments: &[&str]) -> Process {
    site.serve(&[&["--trace-endpoint", url], arguments].concat()).await
}

fn traced(client: &Client, flags: &str) -> Client {
    client.clone().header("traceparent", &format!("00-{TRACE}-{PARENT}-{flags}"))
}

async fn request_has_spans_of_its_database_and_git_children(site: Site) {
    let collector = Collector::start(true).await;
    let headers = site.sibling_path("headers");
    std::fs::write(&headers, "Authorization=Bearer secret-of-the-collector\n").expect("a file");
    let headers = headers.to_str().expect("UTF-8");
    let arguments = ["--trace-headers-file", headers, "--trace-service-name", "code"];
    let server = serve(&site, &collector.url, &arguments).await;
    let root = Client::new(&server.base, Some(TOKEN));
    root.post("/projects", json!({"name": "p", "initialize_with_readme": true})).await.expect(201);
    let path = "/projects/root%2Fp/repository/archive.tar?sha=main";
    let archive = traced(&root, "01").get(path).await.expect(200);
    let find = |collected: &Collected| {
        let spans = collected.of_trace(TRACE);
        let request = spans.iter().find(|span| hex::encode(&span.parent_span_id) == PARENT)?.clone();
        let child = |name: &str| {
            let is_child = |span: &&Span| span.parent_span_id == request.span_id && span.name == name;
            spans.iter().find(is_child).cloned()
        };
        Some((child("SELECT")?, child("archive")?, request.clone()))
    };
    let (statement, git, request) = collector.wait(find).await;
    assert_eq!(request.name, "get_archive_by_format");
    let shown = |key| attribute(&request, key);
    assert_eq!(shown("http.request.method").as_deref(), Some("GET"));
    assert_eq!(shown("http.response.status_code").as_deref(), Some("200"));
    assert!(shown("http.route").is_some_and(|route| route.contains("/repository/archive")), "{request:?}");
    assert_eq!(shown("request_id").as_deref(), Some(archive.header("x-request-id")));
    assert_eq!(attribute(&statement, "db.operation.name").as_deref(), Some("SELECT"));
    assert!(statement.start_time_unix_nano >= request.start_time_unix_nano, "{statement:?}");
    assert_eq!(attribute(&git, "git.kind").as_deref(), Some("archive"));
    assert_eq!(attribute(&git, "git.result").as_deref(), Some("success"));
    assert_eq!(attribute(&git, "git.exit_code").as_deref(), Some("0"));
    let is_job = |span: &&Span| attribute(span, "job.result").is_some();
    let job = collector.wait(|collected| collected.spans.iter().find(is_job).cloned()).await;
    assert!(job.parent_span_id.is_empty() && !job.name.is_empty(), "{job:?}");
    server.stop().await;

    let collected = collector.collected.lock().expect("the spans");
    assert!(collected.services.iter().all(|name| name == "code") && !collected.services.is_empty());
    for (line, headers) in &collected.heads {
        assert_eq!(line, "POST /v1/traces");
        assert_eq!(headers["authorization"], "Bearer secret-of-the-collector");
        assert_eq!(headers["content-type"], "application/x-protobuf");
    }
    let text = String::from_utf8_lossy(&collected.bytes);
    for secret in [TOKEN, "root/p", "FROM", "secret-of-the-collector"] {
        assert!(!text.contains(secret), "{secret} is in a trace");
    }
}

async fn sampling_selects_traces(site: Site) {
    let collector = Collector::start(true).await;
    let server = serve(&site, &collector.url, &["--trace-sampling-ratio", "0"]).await;
    let root = Client::new(&server.base, Some(TOKEN));
    // The caller decides.
    traced(&root, "01").get("/version").await.expect(200);
    root.get("/projects").await.expect(200);
    traced(&root, "00").get("/user").await.expect(200);
    server.stop().await;
    let collected = collector.collected.lock().expect("the spans");
    let spans = collected.spans.iter().filter(|span| span.parent_span_id.is_empty()).count();
    assert_eq!(spans, 0, "{:#?}", collected.spans);
    let requests = collected.of_trace(TRACE).into_iter().filter(|span| hex::encode(&span.parent_span_id) == PARENT);
    assert_eq!(requests.map(|span| span.name).collect::<Vec<_>>(), ["get_version"]);
}

async fn traces_are_off_by_default(site: Site) {
    let collector = Collector::start(true).await;
    let mut command = site.command(&["serve", "--listen", "127.0.0.1:0"]);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url);
    let server = Site::ready(command).await;
    traced(&Client::new(&server.base, Some(TOKEN)), "01").get("/version").await.expect(200);
    server.stop().await;
    assert!(collector.collected.lock().expect("the spans").heads.is_empty());
}

/// Starts a server that logs into a file, sends requests, and stops it. Returns its log.
async fn log_with_collector(site: &Site, url: &str) -> String {
    let path = site.sibling_path("log");
    let mut command = site.command(&["serve", "--listen", "127.0.0.1:0", "--trace-endpoint", url]);
    command.stderr(std::fs::File::create(&path).expect("a log"));
    let server = Site::ready(command).await;
    let root = Client::new(&server.base, Some(TOKEN));
    for _ in 0..20 {
        root.get("/version").await.expect(200);
    }
    server.terminate();
    let status = tokio::time::timeout(TIME_LIMIT, server.wait()).await.expect("the end of the server");
    assert_eq!(status.code(), Some(0), "{status}");
    std::fs::read_to_string(&path).expect("a log")
}

async fn unreachable_collector_fails_no_request_and_not_the_stop(site: Site) {
    let log = log_with_collector(&site, &unused_address().await).await;
    let errors = log.lines().filter(|line| line.contains("failed to send traces to the collector")).count();
    assert_eq!(errors, 1, "{log}");
    let silent = Collector::start(false).await;
    let log = log_with_collector(&site, &silent.url).await;
    assert!(log.contains("failed to send"), "{log}");
    assert!(!silent.collected.lock().expect("the spans").spans.is_empty());
}

on_every_site![
    request_has_spans_of_its_database_and_git_children,
    sampling_selects_traces,
    traces_are_off_by_default,
    unreachable_collector_fails_no_request_and_not_the_stop,
];
