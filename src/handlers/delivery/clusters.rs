//! Clusters of projects.

use domain::delivery::clusters::{self, NewCluster};
use domain::identity::access::ProjectAccess;
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};

use crate::api::routes::ClustersApi;
use crate::app::App;
use crate::views::delivery::cluster::cluster;
use crate::views::enums::Convert;
use contract::{Cluster, CreateClusterRequest, DeleteClusterRequest, GetClusterRequest};

impl ClustersApi for App {
    async fn list_clusters(&self, access: ProjectAccess, page: PageRequest) -> Result<Page<Cluster>> {
        let page = clusters::list(&self.backend, &access, &page).await?;
        Ok(page.map(|row| cluster(&self.backend.instance.base_url, row)))
    }

    async fn create_cluster(&self, access: ProjectAccess, request: CreateClusterRequest) -> Result<Cluster> {
        let body = request.body;
        let platform = body.platform_kubernetes_attributes;
        let new = NewCluster {
            name: body.name,
            domain: body.domain,
            environment_scope: body.environment_scope,
            enabled: body.enabled,
            managed: body.managed,
            api_url: platform.api_url,
            token: platform.token.into(),
            ca_cert: platform.ca_cert,
            namespace: platform.namespace,
            authorization: platform.authorization_type.map(Convert::convert),
        };
        let created = clusters::create(&self.backend, &access, new).await?;
        Ok(cluster(&self.backend.instance.base_url, created))
    }

    async fn get_cluster(&self, access: ProjectAccess, request: GetClusterRequest) -> Result<Cluster> {
        let found = clusters::get(&self.backend, &access, request.cluster_id).await?;
        Ok(cluster(&self.backend.instance.base_url, found))
    }

    async fn delete_cluster(&self, access: ProjectAccess, request: DeleteClusterRequest) -> Result<()> {
        let (id, since) = (request.cluster_id, request.if_unmodified_since);
        clusters::delete(&self.backend, &access, id, since.as_deref()).await
    }
}
