//! Deployments of projects.

use domain::delivery::deployments::{self, DeploymentFilter, NewDeployment};
use domain::identity::access::ProjectAccess;
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};

use crate::api::routes::DeploymentsApi;
use crate::app::App;
use crate::views::delivery::deployment::deployment;
use crate::views::enums::Convert;
use contract::{
    CreateDeploymentRequest, Deployment, DeploymentOrder, GetDeploymentRequest, ListDeploymentsRequest,
    SortDirection, UpdateDeploymentRequest,
};

fn order(order: Option<DeploymentOrder>) -> deployments::DeploymentOrder {
    match order {
        Some(DeploymentOrder::Id) | None => deployments::DeploymentOrder::Id,
        Some(DeploymentOrder::Iid) => deployments::DeploymentOrder::Iid,
        Some(DeploymentOrder::CreatedAt) => deployments::DeploymentOrder::CreatedAt,
        Some(DeploymentOrder::UpdatedAt) => deployments::DeploymentOrder::UpdatedAt,
        Some(DeploymentOrder::Ref) => deployments::DeploymentOrder::Ref,
    }
}

impl DeploymentsApi for App {
    async fn list_deployments(
        &self,
        access: ProjectAccess,
        request: ListDeploymentsRequest,
        page: PageRequest,
    ) -> Result<Page<Deployment>> {
        let filter = DeploymentFilter {
            environment: request.environment,
            status: request.status.map(Convert::convert),
            updated_after: request.updated_after.map(|time| time.to_utc()),
            updated_before: request.updated_before.map(|time| time.to_utc()),
            order: order(request.order_by),
            descending: matches!(request.sort, Some(SortDirection::Desc)),
        };
        let page = deployments::list(&self.backend, &access, filter, &page).await?;
        let path = self.path_of(&access);
        Ok(page.map(|row| deployment(self.at(&path), row)))
    }

    async fn create_deployment(
        &self,
        access: ProjectAccess,
        request: CreateDeploymentRequest,
    ) -> Result<Deployment> {
        let body = request.body;
        let new = NewDeployment {
            environment: body.environment,
            sha: body.sha,
            ref_name: body.r#ref,
            tag: body.tag,
            status: body.status.convert(),
            job_id: body.job_id,
        };
        let created = deployments::create(&self.backend, &access, new).await?;
        Ok(deployment(self.at(&self.path_of(&access)), created))
    }

    async fn get_deployment(
        &self,
        access: ProjectAccess,
        request: GetDeploymentRequest,
    ) -> Result<Deployment> {
        let found = deployments::get(&self.backend, &access, request.deployment_id).await?;
        Ok(deployment(self.at(&self.path_of(&access)), found))
    }

    async fn update_deployment(
        &self,
        access: ProjectAccess,
        request: UpdateDeploymentRequest,
    ) -> Result<Deployment> {
        let (id, status) = (request.deployment_id, request.body.status.convert());
        let changed = deployments::update(&self.backend, &access, id, status).await?;
        Ok(deployment(self.at(&self.path_of(&access)), changed))
    }
}
