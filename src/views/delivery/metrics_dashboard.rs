//! Metrics dashboards.

use storage::entities::metrics_annotations;
use storage::entities::starred_dashboards::Model;

use contract::{MetricsAnnotation, StarredDashboard};

/// Returns a starred dashboard.
#[must_use]
pub fn starred_dashboard(row: Model) -> StarredDashboard {
    StarredDashboard {
        id: row.id,
        dashboard_path: row.dashboard_path,
        user_id: row.user_id,
        project_id: row.project_id,
    }
}

/// Returns an annotation of a dashboard.
#[must_use]
pub fn annotation(row: metrics_annotations::Model) -> MetricsAnnotation {
    MetricsAnnotation {
        id: row.id,
        starting_at: row.starting_at.into(),
        ending_at: row.ending_at.map(Into::into),
        dashboard_path: row.dashboard_path,
        description: row.description,
        environment_id: row.environment_id,
        cluster_id: row.cluster_id,
    }
}
