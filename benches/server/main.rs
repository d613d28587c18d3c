//! What the server does beside what it is made of: every reading endpoint beside the server's own `/-/liveness`, every
//! Git operation beside the `git` program on the same repository, in one run on one machine. The figures that count
//! are ratios, so they hold on any machine; absolute ones are shown for orientation.
//!
//! `just bench` runs it. It starts the release binary on loopback, on data below `target/bench-data`.

mod commits;
mod git;
mod history;
mod http;
mod instance;
mod random;
mod rates;
mod reads;
mod report;
mod transfers;

use std::path::Path;
use std::time::{Duration, Instant};

use instance::Place;
use report::{Report, Row};

/// What anything here comes to.
type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// How often the start is measured.
const STARTS: usize = 5;
/// How long an idle server rests before its memory is looked at.
const REST: Duration = Duration::from_secs(2);

fn main() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(measure(
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("target/bench-data")
            .as_path(),
    ))
}

async fn measure(directory: &Path) -> Result<()> {
    std::fs::create_dir_all(directory)?;
    let began = Instant::now();
    let history = history::repository(directory)?;
    let place = Place::new(&directory.join("instance"))?;
    let repository = place.fill(&history).await?;
    report::line(&format!("Prepared in {:.0} s.", began.elapsed().as_secs_f64()))?;

    let mut report = Report::default();
    report.part("The process", "server", "")?;
    let mut starts = Vec::new();
    for _ in 0..STARTS {
        let server = place.start().await?;
        starts.push(server.start.as_secs_f64() * 1000.0);
        server.stop()?;
    }
    let start = report::median(&mut starts);
    report.add(&Row::alone(
        "start until ready",
        format!("{start:.0} ms"),
        start,
        300.0,
    ))?;
    let server = place.start().await?;
    tokio::time::sleep(REST).await;
    let idle = server.resident()?;
    report.add(&Row::alone(
        "resident memory, idle",
        format!("{idle:.0} MiB"),
        idle,
        60.0,
    ))?;

    reads::measure(server.address, &repository, &mut report).await?;
    commits::measure(server.address, &repository, directory, &mut report).await?;
    transfers::measure(server.address, &repository, directory, &mut report)?;
    rates::measure(server.address, &mut report).await?;

    report.part("The process", "server", "")?;
    let after = server.resident()?;
    report.add(&Row::alone(
        "resident memory, after all",
        format!("{after:.0} MiB"),
        after,
        150.0,
    ))?;
    server.stop()?;
    report.end()?;
    report::line(&format!("Took {:.0} s.", began.elapsed().as_secs_f64()))
}
