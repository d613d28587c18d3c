//! Metadata of the server.

use crate::api::contract::{MetadataApi, Version};
use crate::app::App;
use crate::error::Result;
use crate::services::access::InstanceAccess;

impl MetadataApi for App {
    async fn get_version(&self, _: InstanceAccess) -> Result<Version> {
        Ok(Version {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            revision: env!("HOLDFAST_REVISION").to_owned(),
        })
    }
}
