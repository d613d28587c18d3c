//! Generic packages.

use domain::accounts::uploads::UploadedFile;
use domain::identity::access::ProjectAccess;
use domain::kernel::download::Download;
use domain::kernel::error::Result;
use domain::packages::generic::{self, GenericFile};
use serde_json::Value;

use crate::api::routes::GenericPackagesApi;
use crate::app::App;
use crate::views::enums::Convert;
use crate::views::packages::package as view;
use contract::{DownloadGenericPackageFileRequest, UploadGenericPackageFileRequest};

impl GenericPackagesApi for App {
    async fn download_generic_package_file(
        &self,
        access: ProjectAccess,
        request: DownloadGenericPackageFileRequest,
    ) -> Result<Download> {
        let file = GenericFile {
            package_name: request.package_name,
            version: request.package_version,
            file_name: request.file_name,
        };
        generic::open(&self.backend, &access, &file).await
    }

    async fn upload_generic_package_file(
        &self,
        access: ProjectAccess,
        request: UploadGenericPackageFileRequest,
        upload: UploadedFile,
    ) -> Result<Value> {
        let file = GenericFile {
            package_name: request.package_name,
            version: request.package_version,
            file_name: request.file_name,
        };
        let status = request.status.map(Convert::convert);
        let file = generic::publish(&self.backend, &access, file, status, upload).await?;
        Ok(view::publication(
            &self.backend.instance.base_url,
            file,
            request.select,
        ))
    }
}
