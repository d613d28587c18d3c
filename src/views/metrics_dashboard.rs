//! Dashboards of metrics.

use crate::api::contract::StarredDashboard;
use crate::entities::starred_dashboards::Model;

/// A starred dashboard.
#[must_use]
pub fn starred_dashboard(row: Model) -> StarredDashboard {
    StarredDashboard {
        id: row.id,
        dashboard_path: row.dashboard_path,
        user_id: row.user_id,
        project_id: row.project_id,
    }
}
