//! A mixed load like that of a team, for minutes: requests, shallow clones and pushes at a fixed rate.
//!
//! Each request has a time at which it is due, whether or not earlier ones were answered, and its latency counts from that
//! time. The latency of a clone or push is the time of the program. The two databases take turns, so that other load on the machine affects both.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde_json::json;

use crate::Result;
use crate::databases::locations;
use crate::git::{self, Repository};
use crate::http::{Connection, Request, component};
use crate::instance::{DataLocation, Server, TOKEN};
use crate::random::Random;
use crate::report::{Measurement, Report, Target, line, milliseconds};

/// Numbers of projects, and of commits and issues in each.
const PROJECTS: usize = 40;
const COMMITS: usize = 20;
const ISSUES: usize = 20;
/// Time between two requests: 200 in a second.
const REQUEST_INTERVAL: Duration = Duration::from_millis(5);
/// One request of this many is a write: 4 in a second.
const REQUESTS_PER_WRITE: usize = 50;
/// Time between two shallow clones, and between two pushes.
const CLONE_INTERVAL: Duration = Duration::from_millis(333);
const PUSH_INTERVAL: Duration = Duration::from_secs(1);
/// Duration of a turn, and number of turns of each database without an argument.
const TURN: Duration = Duration::from_secs(20);
const TURNS: usize = 6;
/// Maximum idle time of a connection, because the server closes idle ones.
const MAX_IDLE: Duration = Duration::from_secs(5);
/// Maximum ratio of the 99th percentile on PostgreSQL to that on SQLite.
const MAX_RATIO: f64 = 2.0;
/// Maximum ratio of the memory at the end to that after half of the turns.
const MAX_GROWTH: f64 = 1.1;

/// Names of the calls that read, and of those that write.
const READS: [&str; 12] = [
    "current user",
    "project",
    "projects, page of 20",
    "issues, page of 20",
    "issues with a label",
    "issue",
    "notes of an issue",
    "commits, page of 20",
    "commit",
    "tree",
    "raw file",
    "branches",
];
const WRITES: [&str; 4] = [
    "create an issue",
    "create a note",
    "update an issue",
    "create a commit",
];
const CLONE: &str = "shallow clone";
const PUSH: &str = "push";

/// Latencies by the name of the call.
type Latencies = BTreeMap<&'static str, Vec<Duration>>;
/// The name and the latency of a call that has ended.
type Call<'a> = Pin<Box<dyn Future<Output = Result<(&'static str, Duration)>> + 'a>>;

/// Measures both databases, and adds the 99th percentile of each call and the memory to the report.
pub async fn measure(directory: &Path, turns: Option<usize>, report: &mut Report) -> Result<()> {
    let turns = turns.unwrap_or(TURNS).max(2);
    let locations = locations(directory, "soak").await?;
    let mut loads = Vec::new();
    for location in &locations {
        loads.push(Load::start(location, &directory.join("soak-work")).await?);
    }
    for turn in 1..=turns {
        for load in &mut loads {
            load.run(TURN).await?;
            load.memory.push(load.server.resident()?);
        }
        line(&format!("Turn {turn} of {turns} ended."))?;
    }
    let [sqlite, postgresql] = loads.as_mut_slice() else {
        return Err("there are two databases".into());
    };
    report.part(
        "Latency under mixed load, 99th percentile",
        "PostgreSQL",
        "SQLite",
    )?;
    for (name, latencies) in &mut postgresql.latencies {
        let reference = sqlite
            .latencies
            .get_mut(name)
            .ok_or("a call ran on one database only")?;
        let (measured, reference) = (percentile(latencies), percentile(reference));
        report.add(&Measurement {
            measure: (*name).to_owned(),
            connections: 0,
            server: milliseconds(measured),
            reference: milliseconds(reference),
            figure: measured.as_secs_f64() / reference.as_secs_f64().max(f64::EPSILON),
            target: Target::AtMost(MAX_RATIO),
        })?;
    }
    report.part("Resident memory under mixed load", "at the end", "at half time")?;
    for (database, load) in [("SQLite", &loads[0]), ("PostgreSQL", &loads[1])] {
        let half = load.memory.get(turns / 2 - 1).copied().unwrap_or_default();
        let end = load.memory.last().copied().unwrap_or_default();
        report.add(&Measurement {
            measure: database.to_owned(),
            connections: 0,
            server: format!("{end:.0} MiB"),
            reference: format!("{half:.0} MiB"),
            figure: end / half,
            target: Target::AtMost(MAX_GROWTH),
        })?;
    }
    loads.into_iter().try_for_each(|load| load.server.stop())
}

/// A server with its data, its clients and what was measured.
struct Load {
    server: Server,
    clients: Clients,
    git: GitClient,
    random: Random,
    /// Number of requests so far. The names of new files contain it, so it continues in the next turn.
    requests: usize,
    latencies: Latencies,
    /// Resident memory after each turn, in mebibytes.
    memory: Vec<f64>,
}

impl Load {
    async fn start(location: &DataLocation, work: &Path) -> Result<Self> {
        let server = location.start().await?;
        let clients = Clients {
            address: server.address,
            idle: RefCell::default(),
        };
        fill(&clients).await?;
        let git = GitClient::new(server.address, work)?;
        Ok(Self {
            server,
            clients,
            git,
            random: Random::new(1),
            requests: 0,
            latencies: Latencies::new(),
            memory: Vec::new(),
        })
    }

    /// Offers the load for a time, and waits until all calls have ended.
    async fn run(&mut self, time: Duration) -> Result<()> {
        let Self {
            clients,
            git,
            random,
            requests: number,
            latencies,
            ..
        } = self;
        let mut calls: FuturesUnordered<Call> = FuturesUnordered::new();
        let until = Instant::now() + time;
        let mut due_requests = tokio::time::interval(REQUEST_INTERVAL);
        let mut clones = tokio::time::interval(CLONE_INTERVAL);
        let mut pushes = tokio::time::interval(PUSH_INTERVAL);
        while Instant::now() < until {
            tokio::select! {
                due = due_requests.tick() => {
                    *number += 1;
                    let (name, request) = request(*number, random);
                    calls.push(Box::pin(clients.send(name, request, due.into_std())));
                }
                _ = clones.tick() => calls.push(Box::pin(git.clone_shallow(random.below(PROJECTS)))),
                _ = pushes.tick() => calls.push(Box::pin(git.push())),
                Some(ended) = calls.next() => {
                    let (name, latency) = ended?;
                    latencies.entry(name).or_default().push(latency);
                }
            }
        }
        while let Some(ended) = calls.next().await {
            let (name, latency) = ended?;
            latencies.entry(name).or_default().push(latency);
        }
        Ok(())
    }
}

/// Returns the request with this number.
fn request(number: usize, random: &mut Random) -> (&'static str, Request) {
    let (project, issue) = (random.below(PROJECTS), 1 + random.below(ISSUES));
    let project = format!(
        "/api/v4/projects/{}",
        component(&format!("root/project-{project}"))
    );
    if number.is_multiple_of(REQUESTS_PER_WRITE) {
        let kind = number / REQUESTS_PER_WRITE % WRITES.len();
        let write = |method: &str, path: String, body| Request::with_json(method, &path, TOKEN, &body);
        let request = match kind {
            0 => write(
                "POST",
                format!("{project}/issues"),
                json!({ "title": format!("Issue {number}"), "labels": "bug" }),
            ),
            1 => write(
                "POST",
                format!("{project}/issues/{issue}/notes"),
                json!({ "body": format!("Note {number}") }),
            ),
            2 => write(
                "PUT",
                format!("{project}/issues/{issue}"),
                json!({ "description": format!("Text {number}") }),
            ),
            _ => write(
                "POST",
                format!("{project}/repository/commits"),
                commit(&format!("changed/file-{number}")),
            ),
        };
        return (WRITES[kind], request);
    }
    let kind = number % READS.len();
    let path = match kind {
        0 => "/api/v4/user".to_owned(),
        1 => project,
        2 => "/api/v4/projects".to_owned(),
        3 => format!("{project}/issues"),
        4 => format!("{project}/issues?labels=bug&state=opened"),
        5 => format!("{project}/issues/{issue}"),
        6 => format!("{project}/issues/{issue}/notes"),
        7 => format!("{project}/repository/commits"),
        8 => format!("{project}/repository/commits/main"),
        9 => format!("{project}/repository/tree?path=src"),
        10 => format!(
            "{project}/repository/files/{}/raw?ref=main",
            component("src/file-1")
        ),
        _ => format!("{project}/repository/branches"),
    };
    (READS[kind], Request::new("GET", &path, Some(TOKEN)))
}

/// Returns the body of a commit that creates a file.
fn commit(path: &str) -> serde_json::Value {
    json!({
        "branch": "main", "commit_message": format!("Add {path}"),
        "actions": [{ "action": "create", "file_path": path, "content": "A line of text\n".repeat(40) }],
    })
}

/// Creates the projects with their commits and issues.
async fn fill(clients: &Clients) -> Result<()> {
    let create = async |path: String, body| {
        let request = Request::post(&format!("/api/v4/projects{path}"), TOKEN, &body);
        clients.send("", request, Instant::now()).await
    };
    for project in 0..PROJECTS {
        let name = format!("project-{project}");
        create(
            String::new(),
            json!({ "name": name, "visibility": "public", "default_branch": "main" }),
        )
        .await?;
        let path = format!("/{}", component(&format!("root/{name}")));
        for file in 0..COMMITS {
            create(
                format!("{path}/repository/commits"),
                commit(&format!("src/file-{file}")),
            )
            .await?;
        }
        for issue in 0..ISSUES {
            let labels = if issue % 2 == 0 { "bug" } else { "feature" };
            create(
                format!("{path}/issues"),
                json!({ "title": format!("Issue {issue}"), "labels": labels }),
            )
            .await?;
        }
    }
    Ok(())
}

/// Connections, each of which is used by one request at a time.
struct Clients {
    address: SocketAddr,
    /// Idle connections, with the time of their last use.
    idle: RefCell<Vec<(Instant, Connection)>>,
}

impl Clients {
    /// Sends a request on an idle connection, or on a new one, and returns the time since it was due.
    async fn send(
        &self,
        name: &'static str,
        request: Request,
        due: Instant,
    ) -> Result<(&'static str, Duration)> {
        let idle = self.idle.borrow_mut().pop();
        let mut connection = match idle {
            Some((used, connection)) if used.elapsed() < MAX_IDLE => connection,
            _ => Connection::open(self.address).await?,
        };
        connection.succeed(&request).await?;
        let latency = due.elapsed();
        self.idle.borrow_mut().push((Instant::now(), connection));
        Ok((name, latency))
    }
}

/// Clones and pushes with `git`.
struct GitClient {
    remote: String,
    work: PathBuf,
    /// The repository that is pushed, and the commit and tree on which pushed commits are based.
    repository: Repository,
    parent: String,
    tree: String,
    /// Number of operations so far.
    operations: Cell<usize>,
}

impl GitClient {
    fn new(address: SocketAddr, work: &Path) -> Result<Self> {
        let work = work.join(address.port().to_string());
        git::remove(&work)?;
        std::fs::create_dir_all(&work)?;
        let remote = format!("http://root:{TOKEN}@{address}/root");
        let path = work.join("pushed.git");
        let mut clone = git::command(&["clone", "-q", "--bare"]);
        clone.arg(format!("{remote}/project-0.git")).arg(&path);
        git::run(clone, b"")?;
        let repository = Repository { path };
        Ok(Self {
            remote,
            work,
            parent: repository.line(&["rev-parse", "main"])?,
            tree: repository.line(&["rev-parse", "main^{tree}"])?,
            repository,
            operations: Cell::default(),
        })
    }

    fn next_number(&self) -> usize {
        self.operations.set(self.operations.get() + 1);
        self.operations.get()
    }

    async fn clone_shallow(&self, project: usize) -> Result<(&'static str, Duration)> {
        let target = self.work.join(format!("clone-{}", self.next_number()));
        let mut command = git::command(&["clone", "-q", "--bare", "--depth", "1"]);
        command
            .arg(format!("{}/project-{project}.git", self.remote))
            .arg(&target);
        let cloned = blocking(move || {
            let (_, time) = git::run(command, b"")?;
            git::remove(&target)?;
            Ok(time)
        });
        Ok((CLONE, cloned.await?))
    }

    /// Pushes a new commit to its own branch.
    async fn push(&self) -> Result<(&'static str, Duration)> {
        let number = self.next_number();
        let (repository, url) = (self.repository.clone(), format!("{}/project-0.git", self.remote));
        let (tree, parent) = (self.tree.clone(), self.parent.clone());
        let pushed = blocking(move || {
            let message = format!("Change {number}");
            let id = repository.line(&["commit-tree", &tree, "-p", &parent, "-m", &message])?;
            repository.time(&["push", "-q", &url, &format!("{id}:refs/heads/pushed-{number}")])
        });
        Ok((PUSH, pushed.await?))
    }
}

/// Runs programs without blocking the other calls.
async fn blocking(work: impl FnOnce() -> Result<Duration> + Send + 'static) -> Result<Duration> {
    let ended = tokio::task::spawn_blocking(|| work().map_err(|error| error.to_string()));
    Ok(ended.await??)
}

fn percentile(latencies: &mut [Duration]) -> Duration {
    latencies.sort();
    latencies
        .get(latencies.len() * 99 / 100)
        .copied()
        .unwrap_or_default()
}
