//! Requests per second of eight calls on PostgreSQL, compared with SQLite: with cached responses, without, and with a
//! writer.
//!
//! Two servers with the same data take turns. `HOLDFAST_TEST_DATABASE_URL` names the PostgreSQL server.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use sea_orm::ConnectionTrait;
use serde_json::json;

use crate::Result;
use crate::history::{self, PAGE};
use crate::http::{Connection, Request, component};
use crate::instance::{DataLocation, PROJECT, TOKEN};
use crate::rates::{ROUNDS, rate};
use crate::report::{Measurement, Report, Target, median};

/// Number of concurrent connections.
const CONNECTIONS: usize = 32;
/// Name of the database, which is created again in each run.
const DATABASE: &str = "holdfast_bench_databases";
/// Numbers of projects, of issues in one project, and of notes on its first issue.
const PROJECTS: usize = 200;
const ISSUES: usize = 500;
const NOTES: usize = 100;
/// Time between two writes: 30 in a second.
const WRITE_INTERVAL: Duration = Duration::from_millis(33);
/// Minimum ratio of cached responses on PostgreSQL to those on SQLite.
const MIN_CACHED: f64 = 0.5;

/// Measures all calls and adds them to the report.
pub async fn measure(directory: &Path, report: &mut Report) -> Result<()> {
    let history = history::repository(directory)?;
    let sqlite = DataLocation::new(&directory.join("databases-sqlite"))?;
    let postgresql = DataLocation::new(&directory.join("databases-postgresql"))?
        .with_setting("HOLDFAST_DATABASE_URL", &create_database().await?);
    for location in [&sqlite, &postgresql] {
        location.import(&history).await?;
        let server = location.start().await?;
        fill(server.address).await?;
        server.come_to_rest().await?;
        server.stop()?;
    }
    for mode in [Mode::Cached, Mode::Uncached, Mode::WithWriter] {
        let size = match mode {
            Mode::Uncached => "0",
            Mode::Cached | Mode::WithWriter => "16777216",
        };
        let servers = [&sqlite, &postgresql]
            .map(|location| location.with_setting("HOLDFAST_RESPONSE_CACHE_BYTES", size));
        let [sqlite, postgresql] = &servers;
        let (sqlite, postgresql) = (sqlite.start().await?, postgresql.start().await?);
        report.part(mode.title(), "PostgreSQL", "SQLite")?;
        for (name, path) in calls() {
            report.add(&compare(mode, name, &path, sqlite.address, postgresql.address).await?)?;
        }
        sqlite.stop()?;
        postgresql.stop()?;
    }
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Cached,
    Uncached,
    WithWriter,
}

impl Mode {
    fn title(self) -> &'static str {
        match self {
            Self::Cached => "Requests per second, cached",
            Self::Uncached => "Requests per second, without cached responses",
            Self::WithWriter => "Requests per second, cached, with 30 notes per second in another project",
        }
    }
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

async fn compare(
    mode: Mode,
    name: &str,
    path: &str,
    sqlite: SocketAddr,
    postgresql: SocketAddr,
) -> Result<Measurement> {
    let request = Request::new("GET", path, Some(TOKEN));
    let mut rates = [Vec::new(), Vec::new()];
    let mut connections = [
        connect(sqlite, &request).await?,
        connect(postgresql, &request).await?,
    ];
    for _ in 0..ROUNDS {
        for ((address, open), rates) in [sqlite, postgresql]
            .into_iter()
            .zip(&mut connections)
            .zip(&mut rates)
        {
            let measured = match mode {
                Mode::Cached | Mode::Uncached => rate(open, &request).await?,
                Mode::WithWriter => tokio::select! {
                    measured = rate(open, &request) => measured?,
                    stopped = write(address) => return Err(stopped.err().unwrap_or_else(|| "the writer ended".into())),
                },
            };
            rates.push(measured);
        }
    }
    let [mut reference, mut rates] = rates;
    let (reference, measured) = (median(&mut reference), median(&mut rates));
    Ok(Measurement {
        measure: name.to_owned(),
        connections: CONNECTIONS,
        server: format!("{measured:.0}"),
        reference: format!("{reference:.0}"),
        figure: measured / reference,
        target: match mode {
            Mode::Cached => Target::AtLeast(MIN_CACHED),
            Mode::Uncached | Mode::WithWriter => Target::None,
        },
    })
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

/// Creates projects, issues with labels, and notes.
async fn fill(address: SocketAddr) -> Result<()> {
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
async fn create_database() -> Result<String> {
    let url = std::env::var("HOLDFAST_TEST_DATABASE_URL").unwrap_or_default();
    let (server, _) = url
        .rsplit_once('/')
        .ok_or("HOLDFAST_TEST_DATABASE_URL has to be the URL of a PostgreSQL server")?;
    let connection = sea_orm::Database::connect(&url).await?;
    for statement in ["DROP DATABASE IF EXISTS", "CREATE DATABASE"] {
        connection
            .execute_unprepared(&format!("{statement} {DATABASE}"))
            .await?;
    }
    connection.close().await?;
    Ok(format!("{server}/{DATABASE}"))
}
