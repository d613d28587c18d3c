//! Collects the metrics for one response of `/-/metrics`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cache::CacheUsage;
use domain::kernel::Backend;
use domain::kernel::budget_report;
use domain::kernel::error::Error;
use domain::operations::disk_space::{DiskMonitor, DiskSpace, SpaceState};
use domain::operations::repository_sizes::{RepositorySizes, repository_sizes};
use domain::packages::usage::{StoredPackages, format_name, stored_packages};
use storage::clock::scheduling_time;
use storage::jobs::{self, JobStatistics};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::exposition::{Exposition, number};
use super::process;
use super::recorder::recorder;
use super::table::{
    BUDGET_LIMIT, BUDGET_REJECTIONS, BUDGET_USED, BUILD_INFO, CACHE_BYTES, CACHE_ENTRIES, CACHE_LIMIT,
    CONNECTIONS_IDLE, CONNECTIONS_LIMIT, CONNECTIONS_OPEN, DISK_FREE, DISK_LOW, DISK_SIZE, JOB_OLDEST, JOBS,
    LARGEST_REPOSITORY, PACKAGE_BYTES, PACKAGE_FILES, PACKAGES, READY, REPOSITORIES, REPOSITORY_BYTES,
    SCRAPE_ERRORS, SCRAPE_SECONDS,
};

/// Maximum time for all statements of a scrape. Prometheus waits ten seconds by default.
const DATABASE_TIMEOUT: Duration = Duration::from_secs(4);
/// Maximum time to check the directory of the repositories, after the monitor of the disks has answered.
const DIRECTORY_TIMEOUT: Duration = Duration::from_secs(2);
/// Time for which the statistics of jobs are used again. The statement reads the whole queue.
const JOBS_MAX_AGE: Duration = Duration::from_secs(5);
/// Time for which the sizes of repositories and packages are used again. The statements read all projects and packages.
const SIZES_MAX_AGE: Duration = Duration::from_secs(60);

/// Returns the use of the response cache.
pub type CacheUsageSource = Arc<dyn Fn() -> CacheUsage + Send + Sync>;

/// Collects the metrics of a process, for one client at a time. Clones share the results.
#[derive(Clone)]
pub struct Scraper(Arc<ScraperParts>);

struct ScraperParts {
    backend: Backend,
    disks: DiskMonitor,
    cache: Option<CacheUsageSource>,
    state: Mutex<ScrapeState>,
}

#[derive(Default)]
struct ScrapeState {
    /// When the latest scrape ended, and its text.
    latest: Option<(Instant, Arc<str>)>,
    jobs: Option<(Instant, Arc<[JobStatistics]>)>,
    sizes: Option<(Instant, RepositorySizes)>,
    packages: Option<(Instant, Arc<[StoredPackages]>)>,
}

/// Values that are read for a scrape; `None` if they could not be read.
#[derive(Default)]
struct ScrapeFigures {
    is_database_ready: bool,
    jobs: Option<Arc<[JobStatistics]>>,
    sizes: Option<RepositorySizes>,
    packages: Option<Arc<[StoredPackages]>>,
    space: Option<DiskSpace>,
    are_repositories_ready: bool,
}

impl Scraper {
    /// Creates a scraper. `cache` is `None` in a process without a response cache.
    #[must_use]
    pub fn new(backend: &Backend, disks: DiskMonitor, cache: Option<CacheUsageSource>) -> Self {
        Self(Arc::new(ScraperParts {
            backend: backend.clone(),
            disks,
            cache,
            state: Mutex::default(),
        }))
    }

    /// Returns the metrics in the text format of Prometheus, within five seconds also if the database or a disk does not
    /// respond. A client that waits for the scrape of another client gets the result of that scrape. `None` if the process
    /// does not record metrics.
    pub async fn scrape(&self) -> Option<Arc<str>> {
        let arrived = Instant::now();
        let mut state = self.0.state.lock().await;
        if let Some((ended, text)) = &state.latest
            && *ended > arrived
        {
            return Some(Arc::clone(text));
        }
        let started = Instant::now();
        let figures = self.0.collect(&mut state).await;
        let parts = Arc::clone(&self.0);
        let written = tokio::task::spawn_blocking(move || parts.write(&figures, started));
        let text: Arc<str> = written.await.ok().flatten()?.into();
        state.latest = Some((Instant::now(), Arc::clone(&text)));
        Some(text)
    }
}

/// Returns a value that is not older than `max_age`.
fn recent<T: Clone>(known: &Option<(Instant, T)>, max_age: Duration) -> Option<T> {
    let (read, value) = known.as_ref()?;
    (read.elapsed() < max_age).then(|| value.clone())
}

impl ScraperParts {
    async fn collect(&self, state: &mut ScrapeState) -> ScrapeFigures {
        let mut figures = ScrapeFigures::default();
        let (space, done) = tokio::join!(
            self.disk_figures(),
            timeout(DATABASE_TIMEOUT, self.database_figures(state, &mut figures))
        );
        if let Ok(Err(error)) = done {
            tracing::debug!(%error, "failed to read the metrics of the database");
        }
        (figures.space, figures.are_repositories_ready) = space;
        figures
    }

    async fn database_figures(
        &self,
        state: &mut ScrapeState,
        figures: &mut ScrapeFigures,
    ) -> Result<(), Error> {
        let database = &self.backend.database;
        // Only reads: the writer of SQLite may be busy for seconds.
        database.read().ping().await?;
        figures.is_database_ready = true;
        let jobs = match recent(&state.jobs, JOBS_MAX_AGE) {
            Some(jobs) => jobs,
            None => {
                let jobs: Arc<[JobStatistics]> =
                    jobs::statistics(database.read(), scheduling_time()).await?.into();
                state.jobs = Some((Instant::now(), Arc::clone(&jobs)));
                jobs
            }
        };
        figures.jobs = Some(jobs);
        let sizes = match recent(&state.sizes, SIZES_MAX_AGE) {
            Some(sizes) => sizes,
            None => {
                let sizes = repository_sizes(&self.backend).await?;
                state.sizes = Some((Instant::now(), sizes));
                sizes
            }
        };
        figures.sizes = Some(sizes);
        let packages = match recent(&state.packages, SIZES_MAX_AGE) {
            Some(packages) => packages,
            None => {
                let packages: Arc<[StoredPackages]> = stored_packages(&self.backend).await?.into();
                state.packages = Some((Instant::now(), Arc::clone(&packages)));
                packages
            }
        };
        figures.packages = Some(packages);
        Ok(())
    }

    /// Returns the space of the disks, and whether the repositories can be accessed.
    async fn disk_figures(&self) -> (Option<DiskSpace>, bool) {
        let Ok(space) = self.disks.space().await else {
            // A check of the directory could block a further thread.
            return (None, false);
        };
        let ready = timeout(DIRECTORY_TIMEOUT, self.backend.repositories.is_writable()).await;
        (Some(space), ready.unwrap_or(false))
    }

    /// Returns the text. Blocks the thread for milliseconds.
    fn write(&self, figures: &ScrapeFigures, started: Instant) -> Option<String> {
        let recorder = recorder()?;
        let mut exposition = Exposition::default();
        self.add_budgets(&mut exposition);
        self.add_pools(&mut exposition);
        if let Some(cache) = &self.cache {
            let usage = cache();
            exposition.value(&CACHE_ENTRIES, Some(number(usage.entries)));
            exposition.value(&CACHE_BYTES, Some(number(usage.bytes)));
            exposition.value(&CACHE_LIMIT, Some(number(usage.max_bytes)));
        }
        add_jobs(&mut exposition, figures.jobs.as_deref().unwrap_or_default());
        let sizes = figures.sizes;
        let size = |size: fn(&RepositorySizes) -> i64| {
            sizes.as_ref().map(|sizes| number(size(sizes).unsigned_abs()))
        };
        exposition.value(&REPOSITORIES, size(|sizes| sizes.repositories));
        exposition.value(&REPOSITORY_BYTES, size(|sizes| sizes.total_bytes));
        exposition.value(&LARGEST_REPOSITORY, size(|sizes| sizes.largest_bytes));
        add_packages(&mut exposition, figures.packages.as_deref().unwrap_or_default());
        self.add_disk(&mut exposition, figures);
        exposition.add(&BUILD_INFO, [(&[env!("CARGO_PKG_VERSION")][..], 1.0)]);
        let has_process = process::add(&mut exposition);
        let missing = |is_missing: bool| f64::from(u8::from(is_missing));
        exposition.add(
            &SCRAPE_ERRORS,
            [
                (&["database"][..], missing(figures.packages.is_none())),
                (&["disk"][..], missing(figures.space.is_none())),
                (&["process"][..], missing(!has_process)),
            ],
        );
        let mut text = recorder.render();
        exposition.value(&SCRAPE_SECONDS, Some(started.elapsed().as_secs_f64()));
        text.push_str(&exposition.into_text());
        Some(text)
    }

    /// Adds the limits and the use of the budgets, and sets the counters of rejections.
    fn add_budgets(&self, exposition: &mut Exposition) {
        let budgets = budget_report::report(&self.backend);
        let used = budgets
            .iter()
            .filter_map(|budget| Some(([budget.name], number(budget.used?))))
            .collect::<Vec<_>>();
        exposition.add(
            &BUDGET_USED,
            used.iter().map(|(labels, value)| (&labels[..], *value)),
        );
        let mut limits = Vec::new();
        for budget in &budgets {
            for limit in &budget.limits {
                let (name, scope) = (budget.name, limit.scope.name());
                limits.push(([name, scope], number(limit.limit)));
                let rejections =
                    metrics::counter!(BUDGET_REJECTIONS.name, "budget" => name, "scope" => scope);
                match limit.refused {
                    Some(refused) => rejections.absolute(refused),
                    // Counted where it happens; shown from the start.
                    None => rejections.increment(0),
                }
            }
        }
        exposition.add(
            &BUDGET_LIMIT,
            limits.iter().map(|(labels, value)| (&labels[..], *value)),
        );
    }

    fn add_pools(&self, exposition: &mut Exposition) {
        let pools = self.backend.database.pool_usage();
        let labels: Vec<[&str; 1]> = pools.iter().map(|pool| [pool.name]).collect();
        let of_each = |value: fn(&storage::database::PoolUsage) -> u64| {
            let values = pools.iter().map(value).map(number);
            labels
                .iter()
                .map(|labels| &labels[..])
                .zip(values)
                .collect::<Vec<_>>()
        };
        exposition.add(&CONNECTIONS_OPEN, of_each(|pool| pool.open));
        exposition.add(&CONNECTIONS_IDLE, of_each(|pool| pool.idle));
        exposition.add(&CONNECTIONS_LIMIT, of_each(|pool| pool.limit));
    }

    /// Adds the space of the disk and the result of the readiness checks.
    fn add_disk(&self, exposition: &mut Exposition, figures: &ScrapeFigures) {
        let low_bytes = self.backend.instance.low_disk_bytes;
        let space = figures.space;
        exposition.value(&DISK_FREE, space.map(|space| number(space.free)));
        exposition.value(&DISK_SIZE, space.map(|space| number(space.total)));
        exposition.value(&DISK_LOW, Some(number(low_bytes)));
        let has_space = space.is_some_and(|space| space.state(low_bytes) != SpaceState::Exhausted);
        let checks = [
            ("database", figures.is_database_ready),
            ("repositories", figures.are_repositories_ready),
            ("disk", has_space),
        ];
        let checks = checks.map(|(name, is_ready)| ([name], f64::from(u8::from(is_ready))));
        exposition.add(&READY, checks.iter().map(|(labels, value)| (&labels[..], *value)));
    }
}

fn add_jobs(exposition: &mut Exposition, jobs: &[JobStatistics]) {
    let states = |jobs: &JobStatistics| {
        [
            ("waiting", jobs.waiting),
            ("scheduled", jobs.scheduled),
            ("running", jobs.running),
            ("failed", jobs.failed),
        ]
    };
    let counts: Vec<_> = jobs
        .iter()
        .flat_map(|jobs| states(jobs).map(|(state, count)| ([jobs.kind.as_str(), state], number(count))))
        .collect();
    exposition.add(&JOBS, counts.iter().map(|(labels, value)| (&labels[..], *value)));
    let now = scheduling_time();
    let ages: Vec<_> = jobs
        .iter()
        .map(|jobs| {
            let age = jobs.oldest_due.and_then(|due| (now - due).to_std().ok());
            ([jobs.kind.as_str()], age.unwrap_or_default().as_secs_f64())
        })
        .collect();
    exposition.add(
        &JOB_OLDEST,
        ages.iter().map(|(labels, value)| (&labels[..], *value)),
    );
}

fn add_packages(exposition: &mut Exposition, stored: &[StoredPackages]) {
    type Number = fn(&StoredPackages) -> i64;
    let numbers: [(_, Number); 3] = [
        (&PACKAGES, |stored| stored.packages),
        (&PACKAGE_FILES, |stored| stored.files),
        (&PACKAGE_BYTES, |stored| stored.total_bytes),
    ];
    for (metric, value) in numbers {
        let values: Vec<_> = stored
            .iter()
            .map(|stored| {
                let value = number(value(stored).unsigned_abs());
                ([format_name(stored.package_type)], value)
            })
            .collect();
        exposition.add(metric, values.iter().map(|(labels, value)| (&labels[..], *value)));
    }
}
