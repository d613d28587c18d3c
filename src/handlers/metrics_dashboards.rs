//! Dashboards of metrics that users starred.

use crate::api::contract::{
    MetricsDashboardsApi, StarDashboardRequest, StarredDashboard, UnstarDashboardsRequest,
    UnstarredDashboards,
};
use crate::app::App;
use crate::error::Result;
use crate::services::access::ProjectAccess;
use crate::services::metrics_dashboards as dashboards;
use crate::views::metrics_dashboard::starred_dashboard;

impl MetricsDashboardsApi for App {
    async fn star_dashboard(
        &self,
        access: ProjectAccess,
        request: StarDashboardRequest,
    ) -> Result<StarredDashboard> {
        let path = request.body.dashboard_path;
        let starred = dashboards::star(&self.backend, &access, &path).await?;
        Ok(starred_dashboard(starred))
    }

    async fn unstar_dashboards(
        &self,
        access: ProjectAccess,
        request: UnstarDashboardsRequest,
    ) -> Result<UnstarredDashboards> {
        let path = request.dashboard_path.as_deref();
        let removed = dashboards::unstar(&self.backend, &access, path).await?;
        Ok(UnstarredDashboards {
            deleted_rows: i64::try_from(removed).unwrap_or(i64::MAX),
        })
    }
}
