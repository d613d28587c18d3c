//! Benchmarks with references. Every read endpoint is compared with the server's own `/-/liveness`. Every Git
//! operation is compared with the `git` program on the same repository. Both run on the same machine in the
//! same run. The targets are ratios, so they apply to any machine; absolute figures are for orientation.
//!
//! `just bench` runs them. It starts the release binary on loopback with data below `target/bench-data`. `just
//! bench lists` measures only lists of a large instance, and `just bench generate` only creates that instance.
//! Both accept the name of a database, `sqlite` or `postgresql`, to skip the other one. `just bench images`
//! measures only image layers. `just bench postgres` compares eight calls on both databases: with cached responses,
//! without, and during writes. `just bench soak` runs a mixed load on both databases.

mod commits;
mod databases;
mod git;
mod history;
mod http;
mod images;
mod instance;
mod lists;
mod planning;
mod population;
mod random;
mod rates;
mod reads;
mod report;
mod soak;
mod transfers;

use std::path::Path;
use std::time::{Duration, Instant};

use instance::DataLocation;
use report::{Measurement, Report};

/// Result of all functions here.
type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Number of measured starts.
const STARTS: usize = 5;
/// Idle time of a server before its memory is measured.
const REST: Duration = Duration::from_secs(2);

fn main() -> Result<()> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/bench-data");
    std::fs::create_dir_all(&directory)?;
    let requested: Vec<String> = std::env::args()
        .skip(1)
        // Added by Cargo.
        .filter(|argument| argument != "--bench")
        .collect();
    let requested: Vec<&str> = requested.iter().map(String::as_str).collect();
    let mut report = Report::default();
    match requested.as_slice() {
        [] => {
            runtime(false)?.block_on(measure(&directory, &mut report))?;
            runtime(true)?.block_on(lists::measure(&directory, None, &mut report))?;
        }
        ["lists", database @ ..] => {
            let only = database.first().copied();
            runtime(true)?.block_on(lists::measure(&directory, only, &mut report))?;
        }
        ["generate", database @ ..] => {
            let only = database.first().copied();
            return runtime(true)?.block_on(lists::generate(&directory, only));
        }
        ["postgres"] => runtime(false)?.block_on(databases::measure(&directory, &mut report))?,
        ["soak", turns @ ..] => {
            let turns = turns.first().map(|turns| turns.parse()).transpose()?;
            runtime(false)?.block_on(soak::measure(&directory, turns, &mut report))?;
        }
        ["images"] => runtime(false)?.block_on(images(&directory, &mut report))?,
        _ => return Err("the argument can be `lists`, `postgres`, `soak`, `images` or `generate`".into()),
    }
    report.end()
}

/// Returns a runtime with one thread for the client, or with all threads if the server runs in this process.
fn runtime(with_server: bool) -> Result<tokio::runtime::Runtime> {
    let mut builder = match with_server {
        true => tokio::runtime::Builder::new_multi_thread(),
        false => tokio::runtime::Builder::new_current_thread(),
    };
    Ok(builder.enable_all().build()?)
}

/// Measures only images, on an empty instance.
async fn images(directory: &Path, report: &mut Report) -> Result<()> {
    let server = DataLocation::new(&directory.join("instance"))?.start().await?;
    images::measure(server.address, directory, report).await?;
    server.stop()
}

async fn measure(directory: &Path, report: &mut Report) -> Result<()> {
    let began = Instant::now();
    let history = history::repository(directory)?;
    let location = DataLocation::new(&directory.join("instance"))?;
    let repository = location.fill(&history).await?;
    report::line(&format!("Prepared in {:.0} s.", began.elapsed().as_secs_f64()))?;

    report.part("The process", "server", "")?;
    let mut starts = Vec::new();
    for _ in 0..STARTS {
        let server = location.start().await?;
        starts.push(server.start.as_secs_f64() * 1000.0);
        server.stop()?;
    }
    let start = report::median(&mut starts);
    report.add(&Measurement::without_reference(
        "start until ready",
        format!("{start:.0} ms"),
        start,
        300.0,
    ))?;
    let server = location.start().await?;
    tokio::time::sleep(REST).await;
    let idle = server.resident()?;
    report.add(&Measurement::without_reference(
        "resident memory, idle",
        format!("{idle:.0} MiB"),
        idle,
        60.0,
    ))?;

    reads::measure(server.address, &repository, report).await?;
    commits::measure(server.address, &repository, directory, report).await?;
    transfers::measure(server.address, &repository, directory, report)?;
    images::measure(server.address, directory, report).await?;
    server.come_to_rest().await?;
    rates::measure(server.address, report).await?;

    report.part("The process", "server", "")?;
    let after = server.resident()?;
    report.add(&Measurement::without_reference(
        "resident memory, after all",
        format!("{after:.0} MiB"),
        after,
        150.0,
    ))?;
    server.stop()?;
    report::line(&format!("Took {:.0} s.", began.elapsed().as_secs_f64()))
}
