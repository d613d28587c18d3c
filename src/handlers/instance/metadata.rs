//! Metadata of the server.

use domain::identity::access::InstanceAccess;
use domain::kernel::Backend;
use domain::kernel::error::Result;
use domain::kernel::policy::InstancePlan;

use crate::api::routes::MetadataApi;
use crate::app::App;
use contract::{AgentServer, ServerMetadata, Version};

impl MetadataApi for App {
    async fn get_version(&self, _: InstanceAccess) -> Result<Version> {
        Ok(version(&self.backend))
    }

    async fn get_metadata(&self, _: InstanceAccess) -> Result<ServerMetadata> {
        let version = version(&self.backend);
        Ok(ServerMetadata {
            version: version.version,
            revision: version.revision,
            enterprise: version.enterprise,
            server_version: version.server_version,
            kas: AgentServer {
                enabled: false,
                external_url: None,
                version: None,
            },
        })
    }
}

fn version(backend: &Backend) -> Version {
    Version {
        version: backend.instance.reported_version.clone(),
        revision: env!("HOLDFAST_REVISION").to_owned(),
        enterprise: backend.instance.plan > InstancePlan::Free,
        server_version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}
