//! Concurrent writers that record what the server acknowledged.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::regressions::concurrent_writers::{http, sound_copy};
use crate::support::Client;
use crate::support::git::{Work, output_text};
use crate::support::process::{Process, Site, TOKEN};

/// Time after which a request counts as hanging: more than any limit of the server.
const PATIENCE: Duration = Duration::from_secs(100);
/// Time within which the server recovers.
const RECOVERY: Duration = Duration::from_secs(60);
/// Pause of a writer after an error.
const PAUSE: Duration = Duration::from_millis(20);

/// A request without success.
#[derive(Debug)]
pub struct Failure {
    /// Status of the response; 0 if there was none.
    pub status: u16,
    /// Message of the response, or the output of Git.
    pub message: String,
    /// Time until the response.
    pub took: Duration,
}

/// Acknowledged writes, and failures.
#[derive(Debug, Default)]
pub struct Written {
    /// Titles of issues.
    pub issues: Vec<String>,
    /// Names of files that were committed through the API, on `main`.
    pub files: Vec<String>,
    /// The last pushed commit of the branch `pushed`.
    pub tip: Option<String>,
    /// All failures.
    pub failures: Vec<Failure>,
}

impl Written {
    /// Adds later writes.
    pub fn extend(&mut self, later: Self) {
        self.issues.extend(later.issues);
        self.files.extend(later.files);
        self.tip = later.tip.or(self.tip.take());
        self.failures.extend(later.failures);
    }

    /// Checks that the server has all acknowledged writes, and that its repository is sound.
    pub async fn check(&self, server: &Process) {
        let titles = issue_titles(server).await;
        for title in &self.issues {
            assert!(titles.contains(title), "the acknowledged issue {title} is lost");
        }
        let (_guard, clone) = sound_copy(server).await;
        let files = clone.git(&["ls-tree", "--name-only", "main"]).await;
        for file in &self.files {
            assert!(files.lines().any(|line| line == file), "the acknowledged commit of {file} is lost");
        }
        if let Some(tip) = &self.tip {
            clone.git(&["merge-base", "--is-ancestor", tip, "pushed"]).await;
        }
    }

    /// Checks that each failure has one of these statuses and a message, and that none took longer than a limit. A failed
    /// push has the status 0.
    pub fn check_failures(&self, statuses: &[u16], limit: Duration) {
        for failure in &self.failures {
            let is_clear = failure.message.starts_with(&failure.status.to_string()) && failure.message.len() > 6;
            let is_push = failure.status == 0 && failure.message.contains("git push");
            assert!(is_push || (is_clear && statuses.contains(&failure.status)), "{failure:?}");
            assert!(failure.took < limit, "{failure:?}");
        }
    }
}

/// Returns the titles of all issues of the project.
async fn issue_titles(server: &Process) -> Vec<String> {
    let client = Client::new(&server.base, Some(TOKEN));
    let mut titles = Vec::new();
    for page in 1.. {
        let path = format!("/projects/root%2Fp/issues?scope=all&per_page=100&page={page}");
        let found = client.get(&path).await.expect(200).pluck("title");
        titles.extend(found.iter().filter_map(Value::as_str).map(str::to_owned));
        if found.len() < 100 {
            break;
        }
    }
    titles
}

/// Creates the project of the load.
pub async fn create_project(site: &Site) -> Work {
    let work = Work::new().await;
    site.import("p", &work.path).await;
    work
}

/// Writers of issues, commits and pushes, until they are stopped.
pub struct Load {
    stopping: Arc<AtomicBool>,
    acknowledged: Arc<AtomicUsize>,
    failed: Arc<AtomicUsize>,
    writers: JoinSet<Written>,
}

impl Load {
    /// Starts the writers. `name` is unique among the loads of a project; `work` is a working copy of it.
    pub fn start(server: &Process, work: &Work, name: &str) -> Self {
        let mut load = Self {
            stopping: Arc::default(),
            acknowledged: Arc::default(),
            failed: Arc::default(),
            writers: JoinSet::new(),
        };
        let (base, address) = (server.base.clone(), server.address("p"));
        let writer = || Writer {
            base: base.clone(),
            name: name.to_owned(),
            stopping: Arc::clone(&load.stopping),
            acknowledged: Arc::clone(&load.acknowledged),
            failed: Arc::clone(&load.failed),
        };
        load.writers.spawn(writer().create_issues());
        load.writers.spawn(writer().commit());
        load.writers.spawn(writer().push(address, work.below("")));
        load
    }

    /// Waits until the server has acknowledged further writes of any kind.
    pub async fn progress(&self, writes: usize) {
        wait_for(&self.acknowledged, writes, "the server acknowledges no writes").await;
    }

    /// Waits until further writes of any kind have failed.
    pub async fn fail(&self, writes: usize) {
        wait_for(&self.failed, writes, "no writes fail").await;
    }

    /// Ends the writers after their current requests, and returns what they have written.
    pub async fn stop(mut self) -> Written {
        self.stopping.store(true, Ordering::Relaxed);
        let mut written = Written::default();
        while let Some(done) = self.writers.join_next().await {
            written.extend(done.expect("a writer"));
        }
        written
    }
}

/// Waits until a counter has grown by this number.
async fn wait_for(counter: &AtomicUsize, growth: usize, problem: &str) {
    let expected = counter.load(Ordering::Relaxed) + growth;
    let began = Instant::now();
    while counter.load(Ordering::Relaxed) < expected {
        assert!(began.elapsed() < RECOVERY, "{problem}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// One writer.
struct Writer {
    base: String,
    name: String,
    stopping: Arc<AtomicBool>,
    acknowledged: Arc<AtomicUsize>,
    failed: Arc<AtomicUsize>,
}

impl Writer {
    /// Returns the names of the writes until the load stops.
    fn names(&self) -> impl Iterator<Item = String> {
        let (stopping, name) = (Arc::clone(&self.stopping), self.name.clone());
        (0..).take_while(move |_| !stopping.load(Ordering::Relaxed)).map(move |number| format!("{name}-{number}"))
    }

    async fn create_issues(self) -> Written {
        let mut written = Written::default();
        let http = http();
        for title in self.names() {
            match self.post(&http, "issues", json!({ "title": title })).await {
                Ok(()) => written.issues.push(title),
                Err(failure) => written.failures.push(failure),
            }
        }
        written
    }

    async fn commit(self) -> Written {
        let mut written = Written::default();
        let http = http();
        for file in self.names() {
            let body = json!({
                "branch": "main", "commit_message": file, "stats": false,
                "actions": [{ "action": "create", "file_path": file, "content": "x" }],
            });
            match self.post(&http, "repository/commits", body).await {
                Ok(()) => written.files.push(file),
                Err(failure) => written.failures.push(failure),
            }
        }
        written
    }

    async fn push(self, address: String, work: Work) -> Written {
        let mut written = Written::default();
        for name in self.names() {
            let tip = work.commit("pushed", &name).await;
            let began = Instant::now();
            let arguments = ["push", "--quiet", &address, "HEAD:refs/heads/pushed"];
            let pushed = tokio::time::timeout(PATIENCE, work.run(&arguments)).await.expect("a push that ends");
            if pushed.status.success() {
                written.tip = Some(tip);
                self.acknowledged.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            let message = format!("git push: {}", output_text(&pushed));
            written.failures.push(Failure { status: 0, message, took: began.elapsed() });
            self.failed.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(PAUSE).await;
        }
        written
    }

    /// Sends a request to the project.
    async fn post(&self, http: &reqwest::Client, path: &str, body: Value) -> Result<(), Failure> {
        let url = format!("{}/api/v4/projects/root%2Fp/{path}", self.base);
        let began = Instant::now();
        let request = http.post(url).header("Private-Token", TOKEN).json(&body).timeout(PATIENCE);
        let failure = match request.send().await {
            Ok(response) if response.status() == 201 => {
                self.acknowledged.fetch_add(1, Ordering::Relaxed);
                return Ok(());
            }
            Ok(response) => {
                let status = response.status().as_u16();
                let body: Value = response.json().await.unwrap_or_default();
                let message = body["message"].as_str().unwrap_or_default().to_owned();
                Failure { status, message, took: began.elapsed() }
            }
            Err(error) => {
                assert!(!error.is_timeout(), "a request hangs: {error}");
                Failure { status: 0, message: error.to_string(), took: began.elapsed() }
            }
        };
        self.failed.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(PAUSE).await;
        Err(failure)
    }
}
