//! Starred metrics dashboards.

use domain::delivery::metrics_dashboards as dashboards;
use domain::delivery::metrics_dashboards::{DashboardSubject, NewAnnotation};
use domain::identity::access::{InstanceAccess, ProjectAccess};
use domain::kernel::error::Result;

use crate::api::routes::MetricsDashboardsApi;
use crate::app::App;
use crate::views::delivery::metrics_dashboard::{annotation, starred_dashboard};
use contract::timestamp::Timestamp;
use contract::{
    AnnotateClusterRequest, AnnotateEnvironmentRequest, MetricsAnnotation, MetricsAnnotationCreate,
    StarDashboardRequest, StarredDashboard, UnstarDashboardsRequest, UnstarredDashboards,
};

impl App {
    async fn annotate(
        &self,
        access: InstanceAccess,
        subject: DashboardSubject,
        body: MetricsAnnotationCreate,
    ) -> Result<MetricsAnnotation> {
        let new = NewAnnotation {
            dashboard_path: body.dashboard_path,
            description: body.description,
            starting_at: body.starting_at.to_utc(),
            ending_at: body.ending_at.map(Timestamp::to_utc),
        };
        let created = dashboards::create(&self.backend, access, subject, new).await?;
        Ok(annotation(created))
    }
}

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

    async fn annotate_environment(
        &self,
        access: InstanceAccess,
        request: AnnotateEnvironmentRequest,
    ) -> Result<MetricsAnnotation> {
        self.annotate(access, DashboardSubject::Environment(request.id), request.body)
            .await
    }

    async fn annotate_cluster(
        &self,
        access: InstanceAccess,
        request: AnnotateClusterRequest,
    ) -> Result<MetricsAnnotation> {
        self.annotate(access, DashboardSubject::Cluster(request.id), request.body)
            .await
    }
}
