//! `/-/health`, `/-/liveness`, `/-/readiness` and `/-/metrics`.

use std::time::Duration;

use domain::kernel::Backend;
use domain::operations::disk_space::{DiskMonitor, SpaceState};
use poem::http::StatusCode;
use poem::web::Data;
use poem::{Endpoint, EndpointExt, Response, Route, get, handler};
use serde_json::json;
use storage::error_chain;

use crate::api::error_response::json_response;
use crate::observability::scrape::{CacheUsageSource, Scraper};

/// Maximum time to wait for the database. A load balancer treats a later response as a failure.
const PING_TIMEOUT: Duration = Duration::from_secs(5);

/// The endpoint of a process that only runs jobs: these routes at their usual paths.
pub fn endpoint(backend: &Backend) -> impl Endpoint<Output = Response> + use<> {
    Route::new().nest("/-", routes(backend, None)).map_to_response()
}

/// The routes below `/-`. `cache` returns the use of the response cache, if the process has one.
pub fn routes(
    backend: &Backend,
    cache: Option<CacheUsageSource>,
) -> impl Endpoint<Output = Response> + use<> {
    let disks = DiskMonitor::of_instance(backend);
    let scraper = Scraper::new(backend, disks.clone(), cache);
    Route::new()
        .at("/health", get(readiness))
        .at("/liveness", get(liveness))
        .at("/readiness", get(readiness))
        .at("/metrics", get(metrics))
        .data(backend.clone())
        .data(disks)
        .data(scraper)
        .map_to_response()
}

/// Reports that the process runs.
#[handler]
fn liveness() -> Response {
    json_response(StatusCode::OK, &json!({ "status": "ok" }))
}

/// Reports whether the database responds, the repositories are accessible, and the disk has space. With little space left, the
/// process is still ready.
#[handler]
async fn readiness(Data(backend): Data<&Backend>, Data(disks): Data<&DiskMonitor>) -> Response {
    let pinged = tokio::time::timeout(PING_TIMEOUT, backend.database.ping()).await;
    match &pinged {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            tracing::warn!(cause = %error_chain(error), "not ready: the database does not respond");
        }
        Err(_) => {
            let seconds = PING_TIMEOUT.as_secs();
            tracing::warn!(seconds, "not ready: the database does not respond in time");
        }
    }
    let database = matches!(pinged, Ok(Ok(())));
    let repositories = backend.repositories.is_writable().await;
    if !repositories {
        tracing::warn!("not ready: the directory of the repositories cannot be read and written");
    }
    let space = disk_state(backend, disks).await;
    let shown = |ok: bool| if ok { "ok" } else { "failed" };
    let disk = match space {
        Some(SpaceState::Sufficient) => "ok",
        Some(SpaceState::Low) => "low",
        Some(SpaceState::Exhausted) => "full",
        None => "failed",
    };
    let has_space = matches!(space, Some(SpaceState::Sufficient | SpaceState::Low));
    let (status, overall) = match database && repositories && has_space {
        true => (StatusCode::OK, "ok"),
        false => (StatusCode::SERVICE_UNAVAILABLE, "failed"),
    };
    let body = json!({
        "status": overall,
        "checks": { "database": shown(database), "repositories": shown(repositories), "disk": disk },
    });
    json_response(status, &body)
}

/// Returns the state of the disk with the least space, and logs if it is low. `None` if it cannot be read.
async fn disk_state(backend: &Backend, disks: &DiskMonitor) -> Option<SpaceState> {
    let low_bytes = backend.instance.low_disk_bytes;
    match disks.space().await {
        Ok(space) => {
            let state = space.state(low_bytes);
            if state != SpaceState::Sufficient {
                tracing::warn!(free_bytes = space.free, low_bytes, "little disk space is left");
            }
            Some(state)
        }
        Err(error) => {
            tracing::warn!(%error, "not ready: the disk space cannot be read");
            None
        }
    }
}

/// Returns metrics in the Prometheus format.
#[handler]
async fn metrics(Data(scraper): Data<&Scraper>) -> Response {
    match scraper.scrape().await {
        Some(text) => Response::builder()
            .content_type("text/plain; version=0.0.4")
            .body(text.to_string()),
        None => Response::builder()
            .status(StatusCode::SERVICE_UNAVAILABLE)
            .finish(),
    }
}
