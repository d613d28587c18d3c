//! Exports and imports of groups.

use domain::accounts::uploads::UploadedFile;
use domain::identity::access::{GroupAccess, InstanceAccess};
use domain::kernel::download::Download;
use domain::kernel::error::Result;
use domain::transfers::exports;
use domain::transfers::imports::{self, NewImport};

use crate::api::routes::GroupTransfersApi;
use crate::app::App;
use crate::views;
use crate::views::transfers::group_import::group_import;
use contract::{DownloadGroupExportRequest, GroupImport, ImportGroupRequest, Message};

impl GroupTransfersApi for App {
    async fn export_group(&self, access: GroupAccess) -> Result<Message> {
        exports::enqueue(&self.backend, &access).await?;
        Ok(views::accepted())
    }

    async fn download_group_export(
        &self,
        access: GroupAccess,
        _: DownloadGroupExportRequest,
    ) -> Result<Download> {
        exports::download(&self.backend, &access).await
    }

    async fn import_group(
        &self,
        access: InstanceAccess,
        request: ImportGroupRequest,
        archive: UploadedFile,
    ) -> Result<Message> {
        let new = NewImport {
            name: request.body.name,
            path: request.body.path,
            parent_id: request.body.parent_id,
        };
        imports::create(&self.backend, &access.caller, new, archive).await?;
        Ok(views::accepted())
    }

    async fn get_group_import(&self, access: GroupAccess) -> Result<GroupImport> {
        let status = imports::status(&self.backend, &access).await?;
        Ok(group_import(status))
    }
}
