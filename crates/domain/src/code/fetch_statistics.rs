//! Numbers of fetches of projects over HTTP. Fetches are counted in memory and recorded together, so that a fetch waits for
//! no write. A server that is killed loses the fetches of a few seconds.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use chrono::{Days, NaiveDate};
use futures_util::{Stream, TryStreamExt};
use parsers::pack_start::{PackSearch, SearchResult};
use storage::entities::{now, project_fetches};

use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};

/// Time after the first fetch until the counts are recorded.
const RECORD_AFTER: Duration = Duration::from_secs(5);

/// Number of days for which fetches are returned and stored, including today.
const DAYS: u64 = 30;

/// Fetches of a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchStatistics {
    /// Number of fetches on all days.
    pub total: i64,
    /// Number of fetches by day, newest day first. Days without fetches are omitted.
    pub days: Vec<(NaiveDate, i64)>,
}

/// Returns the fetches of a project in the last 30 days, without those of the last seconds, which are not recorded yet.
///
/// # Errors
/// Returns `Forbidden` if the code is not visible to the caller, and an error if a database query fails.
pub async fn get(backend: &Backend, access: &ProjectAccess) -> Result<FetchStatistics> {
    if !access.can_read_code() {
        return Err(Error::forbidden());
    }
    let found = project_fetches::since(backend.database.read(), access.project.id, first_day()).await?;
    let days: Vec<(NaiveDate, i64)> = found.into_iter().map(|row| (row.day, row.count)).collect();
    Ok(FetchStatistics {
        total: days.iter().map(|(_, count)| count).sum(),
        days,
    })
}

fn first_day() -> NaiveDate {
    let today = now().date_naive();
    today.checked_sub_days(Days::new(DAYS - 1)).unwrap_or(today)
}

/// Counts the response of a fetch as soon as it contains a pack. A response without a pack transfers no objects.
pub fn counted<S>(
    backend: &Backend,
    project_id: i64,
    response: S,
) -> impl Stream<Item = io::Result<Bytes>> + Send + use<S>
where
    S: Stream<Item = io::Result<Bytes>> + Send,
{
    let mut searched = Some((backend.clone(), PackSearch::default()));
    response.inspect_ok(move |chunk| {
        let Some((backend, search)) = &mut searched else {
            return;
        };
        match search.feed(chunk) {
            SearchResult::Continues => return,
            SearchResult::Found => count(backend, project_id),
            SearchResult::Absent => {}
        }
        searched = None;
    })
}

/// Counts a fetch.
fn count(backend: &Backend, project_id: i64) {
    if !backend.fetches.add(project_id, now().date_naive()) {
        return;
    }
    let backend = backend.clone();
    tokio::spawn(async move {
        tokio::time::sleep(RECORD_AFTER).await;
        let counts = backend.fetches.take(true);
        if let Err(error) = write(&backend, counts).await {
            tracing::warn!(%error, "failed to record the numbers of fetches");
        }
    });
}

/// Records all fetches that this server has counted.
///
/// # Errors
/// Returns an error if a database query fails. The numbers are recorded later then.
pub async fn record(backend: &Backend) -> Result<()> {
    write(backend, backend.fetches.take(false)).await
}

async fn write(backend: &Backend, counts: Vec<((i64, NaiveDate), i64)>) -> Result<()> {
    if counts.is_empty() {
        return Ok(());
    }
    let written = backend
        .database
        .transaction(async |transaction| Ok(project_fetches::add(transaction, &counts).await?))
        .await;
    if written.is_err() {
        // The next fetch schedules another attempt.
        backend.fetches.restore(counts);
    }
    written
}

/// Deletes the numbers of days that are not returned any more. Returns the number of deleted rows.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn sweep(backend: &Backend) -> Result<u64> {
    Ok(project_fetches::delete_before(backend.database.write(), first_day()).await?)
}
