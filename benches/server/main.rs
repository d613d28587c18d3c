//! What the server does beside what it is made of: every reading endpoint beside the server's own `/-/liveness`, every
//! Git operation beside the `git` program on the same repository, in one run on one machine. The figures that count
//! are ratios, so they hold on any machine; absolute ones are shown for orientation.
//!
//! `just bench` runs it. It starts the release binary on loopback, on data below `target/bench-data`. `just bench lists`
//! measures lists on a large instance only, and `just bench generate` only makes that instance; both take the name of a
//! database, `sqlite` or `postgresql`, to leave the other one out. `just bench images` measures layers of images only.

mod commits;
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
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/bench-data");
    std::fs::create_dir_all(&directory)?;
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        // Cargo's own.
        .filter(|argument| argument != "--bench")
        .collect();
    let wanted: Vec<&str> = wanted.iter().map(String::as_str).collect();
    let mut report = Report::default();
    match wanted.as_slice() {
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
        ["images"] => runtime(false)?.block_on(images(&directory, &mut report))?,
        _ => return Err("what is wanted is nothing, `lists`, `images` or `generate`".into()),
    }
    report.end()
}

/// The client takes one thread; a server within this process takes what servers take.
fn runtime(with_server: bool) -> Result<tokio::runtime::Runtime> {
    let mut builder = match with_server {
        true => tokio::runtime::Builder::new_multi_thread(),
        false => tokio::runtime::Builder::new_current_thread(),
    };
    Ok(builder.enable_all().build()?)
}

/// Images alone, on an empty instance.
async fn images(directory: &Path, report: &mut Report) -> Result<()> {
    let server = Place::new(&directory.join("instance"))?.start().await?;
    images::measure(server.address, directory, report).await?;
    server.stop()
}

async fn measure(directory: &Path, report: &mut Report) -> Result<()> {
    let began = Instant::now();
    let history = history::repository(directory)?;
    let place = Place::new(&directory.join("instance"))?;
    let repository = place.fill(&history).await?;
    report::line(&format!("Prepared in {:.0} s.", began.elapsed().as_secs_f64()))?;

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

    reads::measure(server.address, &repository, report).await?;
    commits::measure(server.address, &repository, directory, report).await?;
    transfers::measure(server.address, &repository, directory, report)?;
    images::measure(server.address, directory, report).await?;
    server.come_to_rest().await?;
    rates::measure(server.address, report).await?;

    report.part("The process", "server", "")?;
    let after = server.resident()?;
    report.add(&Row::alone(
        "resident memory, after all",
        format!("{after:.0} MiB"),
        after,
        150.0,
    ))?;
    server.stop()?;
    report::line(&format!("Took {:.0} s.", began.elapsed().as_secs_f64()))
}
