//! Replacement of a server while clients send requests. The test has the role of the service manager: it owns the socket.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::json;
use tokio::task::JoinHandle;

use crate::support::process::{Process, Site, TOKEN, on_every_site};
use crate::support::spaces::project;
use crate::support::{Client, DatabaseKind};

/// Number of replacements of a test.
const ROUNDS: usize = 4;
/// Number of clients that create issues, and number of clients that read, each on new and on open connections.
const CLIENTS: usize = 2;
/// Maximum time of a request, including the time in which no server runs. Debug builds start slowly on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Number of requests of each client that succeed between two replacements.
const REQUESTS: usize = 3;
/// Maximum time until a client notices that the server closed an open connection. A request in this time fails, too.
const NOTICE: Duration = Duration::from_secs(1);

/// Results of a client.
#[derive(Default)]
struct Report {
    /// Titles of the issues that the server acknowledged.
    acknowledged: Vec<String>,
    /// Number of successful requests.
    successes: usize,
    /// Requests without a response, or with an error.
    failures: Vec<Failure>,
}

/// A failed request.
struct Failure {
    start: Instant,
    end: Instant,
    cause: String,
    /// Whether the client sends requests on open connections.
    reuses_connections: bool,
}

/// Clients that send requests all the time, until they are stopped.
struct Clients {
    running: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<Report>>,
    /// Number of successful requests of each client.
    successes: Vec<Arc<AtomicUsize>>,
}

impl Clients {
    fn start(base: &str, project: i64) -> Self {
        let running = Arc::new(AtomicBool::new(true));
        let (mut tasks, mut successes) = (Vec::new(), Vec::new());
        for number in 0..CLIENTS {
            for reuses_connections in [true, false] {
                for writes in [true, false] {
                    let client = client(base, reuses_connections);
                    let prefix = format!("{number}-{reuses_connections}");
                    let running = Arc::clone(&running);
                    let counter = Arc::new(AtomicUsize::new(0));
                    successes.push(Arc::clone(&counter));
                    tasks.push(tokio::spawn(async move {
                        let mut report = Report::default();
                        let mut count = 0;
                        while running.load(Ordering::Relaxed) {
                            count += 1;
                            let title = format!("{prefix}-{count}");
                            counter.store(report.successes, Ordering::Relaxed);
                            if let Err((start, cause)) = report.send(&client, project, writes.then_some(title)).await {
                                let end = Instant::now();
                                report.failures.push(Failure { start, end, cause, reuses_connections });
                            }
                        }
                        report
                    }));
                }
            }
        }
        Self { running, tasks, successes }
    }

    /// Waits until several requests of each client succeeded.
    async fn progress(&self) {
        let counts = || self.successes.iter().map(|count| count.load(Ordering::Relaxed));
        let before: Vec<usize> = counts().collect();
        let deadline = Instant::now() + PATIENCE;
        while counts().zip(&before).any(|(count, before)| count < before + REQUESTS) {
            assert!(
                Instant::now() < deadline,
                "requests do not succeed: {before:?}, {:?}",
                counts().collect::<Vec<_>>()
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Stops the clients and returns the results of all of them.
    async fn stop(self) -> Report {
        self.running.store(false, Ordering::Relaxed);
        let mut all = Report::default();
        for task in self.tasks {
            let report = task.await.expect("a client");
            assert!(report.successes >= ROUNDS * REQUESTS, "a client sent {} requests", report.successes);
            all.acknowledged.extend(report.acknowledged);
            all.successes += report.successes;
            all.failures.extend(report.failures);
        }
        all
    }
}

impl Report {
    /// Sends one request: creates an issue with a title, or reads the project. Returns the start and the cause of a failure.
    async fn send(
        &mut self,
        client: &impl Fn(Method, &str) -> RequestBuilder,
        project: i64,
        title: Option<String>,
    ) -> Result<(), (Instant, String)> {
        let start = Instant::now();
        let request = match &title {
            Some(title) => {
                client(Method::POST, &format!("/projects/{project}/issues")).json(&json!({ "title": title }))
            }
            None => client(Method::GET, &format!("/projects/{project}")),
        };
        let expected = if title.is_some() { StatusCode::CREATED } else { StatusCode::OK };
        let outcome = async {
            let response = request.send().await?;
            let status = response.status();
            response.bytes().await?;
            Ok::<_, reqwest::Error>(status)
        };
        match outcome.await {
            Ok(status) if status == expected => {
                self.successes += 1;
                self.acknowledged.extend(title);
                Ok(())
            }
            Ok(status) => Err((start, status.to_string())),
            Err(error) => Err((start, format!("{error:?}"))),
        }
    }
}

/// Returns a function that creates requests.
fn client(base: &str, reuses_connections: bool) -> impl Fn(Method, &str) -> RequestBuilder + use<> {
    let idle = if reuses_connections { usize::MAX } else { 0 };
    let http = crate::support::client::http().pool_max_idle_per_host(idle).timeout(PATIENCE).build();
    let (http, base) = (http.expect("a client"), base.to_owned());
    move |method, path| http.request(method, format!("{base}/api/v4{path}")).header("Private-Token", TOKEN)
}

fn socket() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").expect("a socket")
}

async fn serve(site: &Site, socket: &TcpListener) -> Process {
    Site::ready(site.command_with_socket(&["serve"], socket)).await
}

/// Starts a server with a project, and clients.
async fn start(site: &Site, socket: &TcpListener) -> (Process, Clients, i64) {
    let server = serve(site, socket).await;
    let id = project(&Client::new(&server.base, Some(TOKEN)), "work", json!({})).await;
    let clients = Clients::start(&server.base, id);
    clients.progress().await;
    (server, clients, id)
}

/// Checks that each acknowledged issue exists once.
async fn check_issues(server: &Process, project: i64, acknowledged: &[String]) {
    let root = Client::new(&server.base, Some(TOKEN));
    let mut titles = Vec::new();
    for page in 1.. {
        let list = root.get(&format!("/projects/{project}/issues?per_page=100&page={page}")).await.expect(200);
        let found = list.pluck("title");
        if found.is_empty() {
            break;
        }
        titles.extend(found.into_iter().map(|title| title.as_str().expect("a title").to_owned()));
    }
    titles.sort_unstable();
    for title in acknowledged {
        assert!(titles.binary_search(title).is_ok(), "the acknowledged issue {title} is missing");
    }
    let count = titles.len();
    titles.dedup();
    assert_eq!(titles.len(), count, "an issue was created twice");
}

/// On PostgreSQL the new server starts before the old one stops. On SQLite, one process uses the data directory at a time,
/// and requests wait in the socket.
async fn no_request_fails_while_server_is_replaced(site: Site) {
    let socket = socket();
    let (mut server, clients, project) = start(&site, &socket).await;
    for _ in 0..ROUNDS {
        server = match site.kind {
            DatabaseKind::Sqlite => {
                server.stop().await;
                serve(&site, &socket).await
            }
            DatabaseKind::Postgresql(_) => {
                let next = serve(&site, &socket).await;
                server.stop().await;
                next
            }
        };
        clients.progress().await;
    }
    let report = clients.stop().await;
    let causes: Vec<&str> = report.failures.iter().map(|failure| failure.cause.as_str()).collect();
    assert_eq!(causes, [""; 0]);
    check_issues(&server, project, &report.acknowledged).await;
    server.stop().await;
    site.succeeds(&["doctor"]).await;
}

/// Only requests that the killed server was processing fail. The next server accepts all others.
async fn killed_server_loses_only_requests_in_progress(site: Site) {
    let socket = socket();
    let (mut server, clients, project) = start(&site, &socket).await;
    let mut kills = Vec::new();
    for _ in 0..ROUNDS {
        let before = Instant::now();
        server.kill().await;
        kills.push((before, Instant::now()));
        server = serve(&site, &socket).await;
        clients.progress().await;
    }
    let report = clients.stop().await;
    // A request in progress started before the kill and ended after it.
    for failure in &report.failures {
        let delay = if failure.reuses_connections { NOTICE } else { Duration::ZERO };
        let is_interrupted =
            kills.iter().any(|(before, after)| failure.start <= *after + delay && failure.end >= *before);
        assert!(is_interrupted, "a request failed that no kill interrupted: {}", failure.cause);
    }
    let limit = 4 * CLIENTS * ROUNDS;
    assert!(report.failures.len() <= limit, "{} requests failed", report.failures.len());
    check_issues(&server, project, &report.acknowledged).await;
    server.stop().await;
    site.succeeds(&["doctor"]).await;
}

on_every_site![no_request_fails_while_server_is_replaced, killed_server_loses_only_requests_in_progress];
