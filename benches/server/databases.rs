//! Requests per second of eight calls on PostgreSQL, compared with SQLite: with cached responses, without, and with a
//! writer; and compared with another binary.
//!
//! Two servers with the same data take turns. `HOLDFAST_TEST_DATABASE_URL` names the PostgreSQL server.
//! `HOLDFAST_BENCH_BASELINE` is the path of the other binary.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sea_orm::ConnectionTrait;
use serde_json::json;

use crate::Result;
use crate::git::Repository;
use crate::history::{self, PAGE};
use crate::http::{Connection, Request, component};
use crate::instance::{DataLocation, PROJECT, Server, TOKEN};
use crate::rates::{ROUNDS, rate, rate_with};
use crate::report::{Measurement, Report, Target, median};

/// Number of concurrent connections.
const CONNECTIONS: usize = 32;
/// Prefix of the names of the databases, which are created again in each run.
const DATABASE_PREFIX: &str = "holdfast_bench_";
/// Size of the cached responses, in bytes.
const CACHE_SIZE: &str = "16777216";
/// Numbers of projects, of issues in one project, and of notes on its first issue.
const PROJECTS: usize = 200;
const ISSUES: usize = 500;
const NOTES: usize = 100;
/// Time between two writes: 30 in a second.
const WRITE_INTERVAL: Duration = Duration::from_millis(33);
/// Minimum ratio of cached responses on PostgreSQL to those on SQLite.
const MIN_CACHED: f64 = 0.5;
/// Minimum ratio of the rate with writes to the rate without.
const MIN_WITH_WRITES: f64 = 0.5;

/// Measures all calls and adds them to the report.
pub async fn measure(directory: &Path, report: &mut Report) -> Result<()> {
    let history = history::repository(directory)?;
    let [sqlite, postgresql] = locations(directory, "databases").await?;
    for location in [&sqlite, &postgresql] {
        fill(location, &history).await?;
    }
    for (title, cache_size) in [
        ("Requests per second, cached", CACHE_SIZE),
        ("Requests per second, without cached responses", "0"),
    ] {
        report.part(title, "PostgreSQL", "SQLite")?;
        let target = match cache_size {
            CACHE_SIZE => Target::AtLeast(MIN_CACHED),
            _ => Target::None,
        };
        let sqlite = start(&sqlite, cache_size).await?;
        let postgresql = start(&postgresql, cache_size).await?;
        for (name, path) in calls() {
            let rates = take_turns(&[postgresql.address, sqlite.address], &path, Addresses::Equal).await?;
            report.add(&row(name, rates, target))?;
        }
        sqlite.stop()?;
        postgresql.stop()?;
    }
    for (database, location) in [("SQLite", &sqlite), ("PostgreSQL", &postgresql)] {
        let title = format!("Requests per second on {database}, with 30 notes per second in another project");
        report.part(&title, "with writes", "without")?;
        let server = start(location, CACHE_SIZE).await?;
        for (name, path) in calls() {
            let rates = with_and_without_writes(server.address, &path).await?;
            report.add(&row(name, rates, Target::AtLeast(MIN_WITH_WRITES)))?;
        }
        server.stop()?;
    }
    match std::env::var_os("HOLDFAST_BENCH_BASELINE") {
        Some(binary) => {
            compare_with(
                Path::new(&binary),
                directory,
                &history,
                [&sqlite, &postgresql],
                report,
            )
            .await
        }
        None => Ok(()),
    }
}

/// Compares computed responses with those of another binary, which has its own data.
async fn compare_with(
    binary: &Path,
    directory: &Path,
    history: &Repository,
    own: [&DataLocation; 2],
    report: &mut Report,
) -> Result<()> {
    let baselines = locations(directory, "baseline").await?;
    let pairs = own.into_iter().zip(baselines);
    for (database, (own, baseline)) in ["SQLite", "PostgreSQL"].into_iter().zip(pairs) {
        let baseline = baseline.with_binary(binary);
        fill(&baseline, history).await?;
        let title = format!("Requests per second on {database}, each with another address");
        report.part(&title, "this binary", "the other one")?;
        let (own, baseline) = (own.start().await?, baseline.start().await?);
        for (name, path) in calls() {
            let rates = take_turns(&[own.address, baseline.address], &path, Addresses::Different).await?;
            report.add(&row(name, rates, Target::None))?;
        }
        own.stop()?;
        baseline.stop()?;
    }
    Ok(())
}

/// Returns new data locations on SQLite and on PostgreSQL.
pub async fn locations(directory: &Path, name: &str) -> Result<[DataLocation; 2]> {
    let postgresql = DataLocation::new(&directory.join(format!("{name}-postgresql")))?;
    Ok([
        DataLocation::new(&directory.join(format!("{name}-sqlite")))?,
        postgresql.with_setting("HOLDFAST_DATABASE_URL", &create_database(name).await?),
    ])
}

async fn start(location: &DataLocation, cache_size: &str) -> Result<Server> {
    location
        .with_setting("HOLDFAST_RESPONSE_CACHE_BYTES", cache_size)
        .start()
        .await
}

fn calls() -> [(&'static str, String); 8] {
    let project = format!("/api/v4/projects/{PROJECT}");
    let file = format!("{project}/repository/files/{}", component(PAGE));
    [
        ("current user", "/api/v4/user".to_owned()),
        ("raw file", format!("{file}/raw?ref=main")),
        ("file as JSON", format!("{file}?ref=main")),
        (
            "commits, page of 20",
            format!("{project}/repository/commits?ref_name=main"),
        ),
        ("commit with stats", format!("{project}/repository/commits/main")),
        (
            "issues, page of 20, two filters",
            "/api/v4/projects/root%2Fplans/issues?state=opened&labels=bug".to_owned(),
        ),
        (
            "notes, page of 30",
            "/api/v4/projects/root%2Fplans/issues/1/notes?per_page=30".to_owned(),
        ),
        ("projects, page of 20", "/api/v4/projects".to_owned()),
    ]
}

/// Whether all requests of a turn have the same address. Responses to different ones are computed.
#[derive(Clone, Copy)]
enum Addresses {
    Equal,
    Different,
}

/// Returns the median rates of the servers, which take turns.
async fn take_turns(servers: &[SocketAddr; 2], path: &str, addresses: Addresses) -> Result<[f64; 2]> {
    let request = Request::new("GET", path, Some(TOKEN));
    let mut connections = [
        connect(servers[0], &request).await?,
        connect(servers[1], &request).await?,
    ];
    let mut rates = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (open, rates) in connections.iter_mut().zip(&mut rates) {
            rates.push(match addresses {
                Addresses::Equal => rate(open, &request).await?,
                Addresses::Different => rate_of_different(open, path).await?,
            });
        }
    }
    Ok(rates.map(|mut rates| median(&mut rates)))
}

/// Returns the median rates with and without a writer.
async fn with_and_without_writes(server: SocketAddr, path: &str) -> Result<[f64; 2]> {
    let request = Request::new("GET", path, Some(TOKEN));
    let mut open = connect(server, &request).await?;
    let mut rates = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        let [with, without] = &mut rates;
        with.push(tokio::select! {
            measured = rate(&mut open, &request) => measured?,
            stopped = write(server) => return Err(stopped.err().unwrap_or_else(|| "the writer ended".into())),
        });
        without.push(rate(&mut open, &request).await?);
    }
    Ok(rates.map(|mut rates| median(&mut rates)))
}

/// As [`rate`], with a parameter that the server ignores, and that has another value in each request.
async fn rate_of_different(connections: &mut [Connection], path: &str) -> Result<f64> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let separator = if path.contains('?') { '&' } else { '?' };
    rate_with(connections, || {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Request::new("GET", &format!("{path}{separator}unused={number}"), Some(TOKEN))
    })
    .await
}

fn row(name: &str, [measured, reference]: [f64; 2], target: Target) -> Measurement {
    Measurement {
        measure: name.to_owned(),
        connections: CONNECTIONS,
        server: format!("{measured:.0}"),
        reference: format!("{reference:.0}"),
        figure: measured / reference,
        target,
    }
}

/// Opens all connections, and sends the request on each of them.
async fn connect(address: SocketAddr, request: &Request) -> Result<Vec<Connection>> {
    let mut open = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut connection = Connection::open(address).await?;
        connection.succeed(request).await?;
        open.push(connection);
    }
    Ok(open)
}

/// Writes notes until it is canceled.
async fn write(address: SocketAddr) -> Result<()> {
    let mut connection = Connection::open(address).await?;
    let note = Request::post(
        "/api/v4/projects/root%2Fother/issues/1/notes",
        TOKEN,
        &json!({ "body": "Another note" }),
    );
    let mut turns = tokio::time::interval(WRITE_INTERVAL);
    loop {
        turns.tick().await;
        connection.succeed(&note).await?;
    }
}

/// Imports the history, and creates projects, issues with labels, and notes.
async fn fill(location: &DataLocation, history: &Repository) -> Result<()> {
    location.import(history).await?;
    let server = location.start().await?;
    create_rows(server.address).await?;
    server.come_to_rest().await?;
    server.stop()
}

async fn create_rows(address: SocketAddr) -> Result<()> {
    let mut connection = Connection::open(address).await?;
    let mut create = async |path: String, body| {
        let request = Request::post(&format!("/api/v4/{path}"), TOKEN, &body);
        connection.succeed(&request).await
    };
    for name in ["plans", "other"] {
        create(
            "projects".to_owned(),
            json!({ "name": name, "visibility": "public" }),
        )
        .await?;
    }
    for project in 0..PROJECTS {
        let body =
            json!({ "name": format!("Project {project}"), "visibility": "public", "tag_list": "many,small" });
        create("projects".to_owned(), body).await?;
    }
    for issue in 0..ISSUES {
        let labels = if issue % 2 == 0 { "bug,backend" } else { "feature" };
        let body = json!({ "title": format!("Issue {issue}"), "labels": labels, "assignee_ids": [1] });
        create("projects/root%2Fplans/issues".to_owned(), body).await?;
    }
    for note in 0..NOTES {
        let body = json!({ "body": format!("Note {note}") });
        create("projects/root%2Fplans/issues/1/notes".to_owned(), body).await?;
    }
    create(
        "projects/root%2Fother/issues".to_owned(),
        json!({ "title": "Busy" }),
    )
    .await?;
    Ok(())
}

/// Creates an empty database, and returns its URL.
async fn create_database(name: &str) -> Result<String> {
    let url = std::env::var("HOLDFAST_TEST_DATABASE_URL").unwrap_or_default();
    let (server, _) = url
        .rsplit_once('/')
        .ok_or("HOLDFAST_TEST_DATABASE_URL has to be the URL of a PostgreSQL server")?;
    let database = format!("{DATABASE_PREFIX}{name}");
    let connection = sea_orm::Database::connect(&url).await?;
    for statement in ["DROP DATABASE IF EXISTS", "CREATE DATABASE"] {
        connection
            .execute_unprepared(&format!("{statement} {database}"))
            .await?;
    }
    connection.close().await?;
    Ok(format!("{server}/{database}"))
}
