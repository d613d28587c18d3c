//! Sends the requests of a part of the calls in a process whose instructions callgrind counts.

use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

use poem::{Endpoint, Response};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, fmt, registry};

use crate::Result;
use crate::api::{Api, request_of};
use crate::calls::{self, Call};
use crate::data::Instance;

/// Number of requests before the counted ones. They fill the caches of tokens, statements and Git results.
const WARM_UP: usize = 6;
/// Number of counted requests of each call.
pub const REQUESTS: usize = 20;
/// Number of the first new resource, above those of the data.
const FIRST_NUMBER: usize = 1_000;

/// Sends the requests of a part.
pub fn run(directory: &Path, part: usize) -> Result<()> {
    allocator::fix_thresholds();
    // The log of a server, with the line of each request.
    registry()
        .with(EnvFilter::new("info"))
        .with(fmt::layer().with_ansi(false).with_writer(std::io::sink))
        .init();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        // A thread that starts within the counted requests would be counted.
        .thread_keep_alive(Duration::from_secs(60 * 60))
        .build()?;
    runtime.block_on(async {
        let instance = Instance::open(directory).await?;
        for call in calls::part(part) {
            let sent = send_all(&instance.api(call.is_cached), &call).await;
            sent.map_err(|error| format!("{}: {error}", call.name))?;
        }
        instance.close().await
    })
}

async fn send_all<E>(api: &Api<E>, call: &Call) -> Result<()>
where
    E: Endpoint<Output = Response>,
{
    for number in 0..WARM_UP {
        api.send(request_of(call, FIRST_NUMBER + number)?).await?;
    }
    let numbers = (WARM_UP..).take(REQUESTS);
    let requests: Result<Vec<_>> = numbers
        .map(|number| request_of(call, FIRST_NUMBER + number))
        .collect();
    let requests = requests?;
    count_begins(REQUESTS);
    for request in requests {
        api.send(request).await?;
    }
    count_ends(REQUESTS);
    Ok(())
}

/// Sets the counters to zero: callgrind does this when the function is called.
#[inline(never)]
fn count_begins(requests: usize) -> usize {
    // The body differs from that of `count_ends`, so that the compiler does not merge the functions.
    black_box(requests + 1)
}

/// Writes the counters to a file: callgrind does this when the function is called.
#[inline(never)]
fn count_ends(requests: usize) -> usize {
    black_box(requests + 2)
}
