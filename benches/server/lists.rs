//! Lists of a large instance on SQLite, and on PostgreSQL if `HOLDFAST_TEST_DATABASE_URL` is set.
//!
//! The server runs in this process, so that statements can be counted. Its caches are invalidated before each
//! request, so every figure includes the database queries.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use domain::kernel::Backend;
use domain::operations::first_start::GivenCredentials;
use domain::secrets::Secret;
use holdfast::config::ConfigOptions;
use holdfast::server;
use sea_orm::ConnectionTrait;
use storage::database::StatementObserver;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::Result;
use crate::http::{Connection, Request};
use crate::instance::TOKEN;
use crate::planning;
use crate::population::{self, MEMBER, NEWCOMER};
use crate::report::{self, Measurement, Report, Target};

/// Number of requests for each list.
const ROUNDS: usize = 15;
/// Duration from which a list is requested only once, so that a slow list does not delay the others.
const SLOW: Duration = Duration::from_secs(2);
/// The page that is compared with the first, of 100 rows each.
const FAR: usize = 400;
/// Maximum ratio of the first page of projects for other users to that for administrators.
const MAX_RATIO_FOR_OTHERS: f64 = 10.0;
/// Maximum ratio of a far page by keyset to the first page.
const MAX_RATIO_FOR_FAR: f64 = 1.2;
/// Maximum number of statements for a list.
const MAX_STATEMENTS: f64 = 15.0;
/// Maximum ratio of the first page of issues with any filter to that without one.
const MAX_RATIO_FOR_FILTERS: f64 = 10.0;
/// Name of the PostgreSQL database.
const DATABASE: &str = "holdfast_bench_lists_2";

/// Measures all lists, on one database or on all, and adds them to the report.
pub async fn measure(directory: &Path, only: Option<&str>, report: &mut Report) -> Result<()> {
    for (database, url) in databases(only).await? {
        let instance = Instance::start(&directory.join(format!("lists-{database}")), url).await?;
        report.part_with(
            &format!("Lists of a large instance without caches, on {database}"),
            "stmts",
            "list",
            "reference",
        )?;
        instance.measure(report).await?;
        instance.stop().await?;
    }
    Ok(())
}

/// Fills the instance on one database or on all, unless it was filled before.
pub async fn generate(directory: &Path, only: Option<&str>) -> Result<()> {
    for (database, url) in databases(only).await? {
        let began = Instant::now();
        Instance::start(&directory.join(format!("lists-{database}")), url)
            .await?
            .stop()
            .await?;
        report::line(&format!("{database}: {:.0} s", began.elapsed().as_secs_f64()))?;
    }
    Ok(())
}

/// Returns the databases by name, with the URL of each except the embedded one; or only the selected one.
async fn databases(only: Option<&str>) -> Result<Vec<(&'static str, Option<String>)>> {
    let mut databases = vec![("SQLite", None)];
    let url = std::env::var("HOLDFAST_TEST_DATABASE_URL").unwrap_or_default();
    if let Some((server, _)) = url.rsplit_once('/') {
        let connection = sea_orm::Database::connect(&url).await?;
        // It fails only if the database already exists.
        let made = connection
            .execute_unprepared(&format!("CREATE DATABASE {DATABASE}"))
            .await;
        if made.is_ok() {
            report::line(&format!("Created the database {DATABASE}."))?;
        }
        connection.close().await?;
        databases.push(("PostgreSQL", Some(format!("{server}/{DATABASE}"))));
    }
    if let Some(only) = only {
        databases.retain(|(name, _)| name.eq_ignore_ascii_case(only));
        if databases.is_empty() {
            return Err(format!("unknown or unavailable database {only}").into());
        }
    }
    Ok(databases)
}

/// A server on a large instance.
struct Instance {
    address: SocketAddr,
    backend: Backend,
    statements: Arc<AtomicUsize>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<std::result::Result<(), server::Error>>,
}

/// A list and its reference for comparison.
struct List {
    name: String,
    request: Request,
    reference: Request,
    target: Target,
    /// Whether it is a filtered variant of the same list.
    filtered: bool,
}

impl Instance {
    async fn start(directory: &Path, url: Option<String>) -> Result<Self> {
        let options = ConfigOptions {
            listen: Some(SocketAddr::from(([127, 0, 0, 1], 0))),
            data_dir: Some(directory.to_owned()),
            database_url: url,
            no_worker: Some(true),
            ..ConfigOptions::default()
        };
        let statements = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&statements);
        let observer: StatementObserver = Arc::new(move |_, _| {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        let chosen = GivenCredentials {
            token: Some(Secret::new(TOKEN.to_owned())),
            password: None,
        };
        let bound = server::bind(options.settings()?, chosen, Some(observer)).await?;
        let (address, backend) = (bound.address, bound.backend.clone());
        population::fill(&backend).await?;
        planning::fill(&backend).await?;
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(bound.serve(async {
            // A dropped sender has the same meaning.
            let _ = stopped.await;
        }));
        Ok(Self {
            address,
            backend,
            statements,
            stop,
            task,
        })
    }

    async fn stop(self) -> Result<()> {
        // The server may have ended by itself; the task returns the reason.
        let _ = self.stop.send(());
        Ok(self.task.await??)
    }

    async fn measure(&self, report: &mut Report) -> Result<()> {
        let mut connection = Connection::open(self.address).await?;
        let mut most = 0_usize;
        let mut filtered = Vec::new();
        for list in lists(&mut connection).await? {
            let (mut times, mut references) = (Vec::new(), Vec::new());
            let (first, mut statements) = self.ask_once(&mut connection, &list.request).await?;
            if first > SLOW {
                times.push(first);
                references.push(self.ask(&mut connection, &list.reference).await?.0);
            }
            while times.len() < ROUNDS && first <= SLOW {
                references.push(self.ask(&mut connection, &list.reference).await?.0);
                let (time, taken) = self.ask(&mut connection, &list.request).await?;
                times.push(time);
                statements = statements.min(taken);
            }
            most = most.max(statements);
            if list.filtered {
                filtered.push(report::median(&mut times));
            }
            let row = Measurement::times(&list.name, &mut times, &mut references, 0.0);
            report.add(&Measurement {
                connections: statements,
                target: list.target,
                ..row
            })?;
        }
        let slowest = filtered.iter().max().copied().unwrap_or_default();
        let fastest = filtered.iter().min().copied().unwrap_or_default();
        report.add(&Measurement::times(
            "the slowest filter of issues to the fastest that finds something",
            &mut [slowest],
            &mut [fastest],
            MAX_RATIO_FOR_FILTERS,
        ))?;
        let shown = format!("{most}");
        report.add(&Measurement::without_reference(
            "statements of the costliest list",
            shown,
            most as f64,
            MAX_STATEMENTS,
        ))
    }

    /// Returns the duration of the first request for a list and the number of its statements. If the server does not
    /// complete a slow list, the duration is the time until then, and the reason is printed.
    async fn ask_once(&self, connection: &mut Connection, request: &Request) -> Result<(Duration, usize)> {
        let before = self.statements.load(Ordering::Relaxed);
        let started = Instant::now();
        match self.ask(connection, request).await {
            Err(error) if started.elapsed() > SLOW => {
                report::line(&format!("no response after {:.0?}: {error}", started.elapsed()))?;
                // The response could still arrive on the old connection.
                *connection = Connection::open(self.address).await?;
                Ok((
                    started.elapsed(),
                    self.statements.load(Ordering::Relaxed) - before,
                ))
            }
            result => result,
        }
    }

    /// Returns the duration of a request and the number of its statements.
    async fn ask(&self, connection: &mut Connection, request: &Request) -> Result<(Duration, usize)> {
        self.backend.database.invalidate();
        let before = self.statements.load(Ordering::Relaxed);
        let time = connection.succeed(request).await?;
        Ok((time, self.statements.load(Ordering::Relaxed) - before))
    }
}

/// The callers.
const CALLERS: [(&str, Option<&str>); 3] = [
    ("admin", Some(TOKEN)),
    ("member of 300 groups", Some(MEMBER.1)),
    ("anonymous", None),
];

/// Returns all measured requests.
async fn lists(connection: &mut Connection) -> Result<Vec<List>> {
    let get = |path: &str, token: Option<&str>| Request::new("GET", &format!("/api/v4{path}"), token);
    let first = get("/projects", Some(TOKEN));
    let mut lists = Vec::new();
    for (who, token) in CALLERS {
        lists.push(List {
            name: format!("projects, {who}"),
            request: get("/projects", token),
            reference: first.clone(),
            target: Target::AtMost(MAX_RATIO_FOR_OTHERS),
            filtered: false,
        });
    }
    for (who, token) in CALLERS {
        let by_offset = "/projects?order_by=id&per_page=100";
        let by_key = format!("{by_offset}&pagination=keyset");
        lists.push(List {
            name: format!("page {FAR} by offset, {who}"),
            request: get(&format!("{by_offset}&page={FAR}"), token),
            reference: get(by_offset, token),
            target: Target::None,
            filtered: false,
        });
        let before = get(&format!("{by_offset}&page={}", FAR - 1), token);
        let before = connection.json(&before).await?;
        let last = before.as_array().and_then(|rows| rows.last());
        let last = last.and_then(|row| row["id"].as_i64());
        let last = last.ok_or("there are too few projects for so many pages")?;
        lists.push(List {
            name: format!("page {FAR} by keyset, {who}"),
            request: get(&format!("{by_key}&id_before={last}"), token),
            reference: get(&by_key, token),
            target: Target::AtMost(MAX_RATIO_FOR_FAR),
            filtered: false,
        });
    }
    let mine = get("/projects?membership=true&per_page=1", Some(MEMBER.1));
    let mine = connection.json(&mine).await?;
    let mine = mine[0]["id"]
        .as_i64()
        .ok_or("the member is a member of nothing")?;
    let (member, newcomer, admin) = (Some(MEMBER.1), Some(NEWCOMER.1), Some(TOKEN));
    for (path, token) in [
        ("/projects?order_by=last_activity_at", member),
        ("/projects?order_by=name&sort=asc", member),
        ("/projects?search=crimson-falcon", admin),
        ("/projects?search=crimson-falcon", member),
        ("/projects?search=nowhere", member),
        ("/projects?search=crimson-falcon", None),
        ("/projects?membership=true", member),
        ("/projects?membership=true", newcomer),
        ("/projects?owned=true", member),
        ("/projects?owned=true", newcomer),
        ("/projects?min_access_level=40", member),
        ("/projects?min_access_level=40", newcomer),
        ("/projects?starred=true", member),
        ("/projects?starred=true", newcomer),
        ("/groups", admin),
        ("/groups", member),
        ("/groups?all_available=true", member),
        ("/groups", newcomer),
        ("/groups", None),
        ("/groups?search=falcon", member),
        ("/groups/group-0/projects", admin),
        ("/groups/group-0/projects?include_subgroups=true", admin),
        ("/groups/group-0/subgroups", admin),
        ("/groups/group-0/descendant_groups", admin),
        ("/groups/group-0/members/all", admin),
        ("/namespaces", member),
        ("/namespaces?search=falcon", admin),
        ("/users", admin),
        ("/users?search=falcon", admin),
        ("/users?search=falcon", member),
        ("/users/user-00000/projects", admin),
        ("/users/user-00000/projects", None),
        ("/users/1/memberships", admin),
        (&format!("/projects/{mine}/members/all"), member),
        (&format!("/projects/{mine}/forks"), member),
        (&format!("/projects/{mine}/starrers"), member),
    ] {
        let who = match token {
            None => "anonymous",
            Some(TOKEN) => "admin",
            Some(token) if token == MEMBER.1 => "member",
            Some(_) => "newcomer",
        };
        lists.push(List {
            name: format!("{path}, {who}"),
            request: get(path, token),
            reference: first.clone(),
            target: Target::None,
            filtered: false,
        });
    }
    for path in planning::LISTS {
        lists.push(List {
            name: format!("{path}, member"),
            request: get(path, member),
            reference: get(planning::LISTS[0], member),
            target: Target::AtMost(MAX_RATIO_FOR_FILTERS),
            // A search without results is no measure for one with results.
            filtered: !path.contains("search=nowhere"),
        });
    }
    Ok(lists)
}
