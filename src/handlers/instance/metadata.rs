//! Metadata of the server.

use domain::identity::access::InstanceAccess;
use domain::kernel::error::Result;

use crate::api::routes::MetadataApi;
use crate::app::App;
use contract::Version;

impl MetadataApi for App {
    async fn get_version(&self, _: InstanceAccess) -> Result<Version> {
        Ok(Version {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            revision: env!("HOLDFAST_REVISION").to_owned(),
        })
    }
}
