//! `/-/health`, `/-/liveness`, `/-/readiness` and `/-/metrics`.

use std::sync::OnceLock;

use domain::kernel::Backend;
use domain::operations::disk_space::{DiskSpace, SpaceState};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use poem::http::StatusCode;
use poem::web::Data;
use poem::{Endpoint, EndpointExt, Response, Route, get, handler};
use serde_json::json;
use storage::error_chain;

use crate::api::error_response::json_response;
use crate::web::budget_metrics;

/// The endpoint of a process that only runs jobs: these routes at their usual paths.
pub fn endpoint(backend: &Backend) -> impl Endpoint<Output = Response> + use<> {
    Route::new().nest("/-", routes(backend)).map_to_response()
}

/// The routes below `/-`.
pub fn routes(backend: &Backend) -> impl Endpoint<Output = Response> + use<> {
    Route::new()
        .at("/health", get(readiness))
        .at("/liveness", get(liveness))
        .at("/readiness", get(readiness))
        .at("/metrics", get(metrics))
        .data(backend.clone())
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
async fn readiness(Data(backend): Data<&Backend>) -> Response {
    let pinged = backend.database.ping().await;
    if let Err(error) = &pinged {
        tracing::warn!(cause = %error_chain(error), "not ready: the database does not respond");
    }
    let database = pinged.is_ok();
    let repositories = backend.repositories.is_reachable().await;
    if !repositories {
        tracing::warn!("not ready: the directory of the repositories cannot be accessed");
    }
    let space = disk_state(backend).await;
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
async fn disk_state(backend: &Backend) -> Option<SpaceState> {
    let low_bytes = backend.instance.low_disk_bytes;
    match DiskSpace::of_instance(backend).await {
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

/// Returns the recorder of this process, installed on first use.
pub fn recorder() -> Option<&'static PrometheusHandle> {
    static HANDLE: OnceLock<Option<PrometheusHandle>> = OnceLock::new();
    HANDLE
        .get_or_init(|| {
            let handle = PrometheusBuilder::new().install_recorder().ok();
            budget_metrics::describe();
            handle
        })
        .as_ref()
}

/// Returns metrics in the Prometheus format.
#[handler]
async fn metrics(Data(backend): Data<&Backend>) -> Response {
    match recorder() {
        Some(handle) => {
            budget_metrics::set(backend);
            if let Ok(space) = DiskSpace::of_instance(backend).await {
                budget_metrics::set_disk_space(space);
            }
            Response::builder()
                .content_type("text/plain; version=0.0.4")
                .body(handle.render())
        }
        None => Response::builder()
            .status(StatusCode::SERVICE_UNAVAILABLE)
            .finish(),
    }
}
