//! Clusters of projects, without their tokens.

use domain::delivery::clusters::ClusterDetail;

use crate::views::accounts::users::creator;
use crate::views::enums::Convert;
use contract::{Cluster, ClusterKubernetes};

/// Returns a cluster.
#[must_use]
pub fn cluster(base: &str, row: ClusterDetail) -> Cluster {
    let ClusterDetail {
        cluster,
        platform,
        user,
    } = row;
    Cluster {
        id: cluster.id,
        name: cluster.name,
        created_at: cluster.created_at.into(),
        domain: cluster.domain,
        provider_type: "user".to_owned(),
        platform_type: "kubernetes".to_owned(),
        environment_scope: cluster.environment_scope,
        cluster_type: "project_type".to_owned(),
        enabled: cluster.enabled,
        managed: cluster.managed,
        user: creator(base, user),
        platform_kubernetes: ClusterKubernetes {
            api_url: platform.api_url,
            namespace: platform.namespace,
            authorization_type: platform.authorization_type.convert(),
            ca_cert: platform.ca_cert,
        },
    }
}
