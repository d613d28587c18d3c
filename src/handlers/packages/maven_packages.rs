//! Maven packages of projects, groups and the instance.

use domain::accounts::uploads::UploadedFile;
use domain::identity::access::{GroupAccess, InstanceAccess, ProjectAccess};
use domain::kernel::download::Download;
use domain::kernel::error::Result;
use domain::packages::client_lists::PackageScope;
use domain::packages::maven;

use crate::api::routes::MavenPackagesApi;
use crate::app::App;
use contract::{
    DownloadGroupMavenFileRequest, DownloadInstanceMavenFileRequest, DownloadMavenFileRequest,
    UploadMavenFileRequest,
};

impl MavenPackagesApi for App {
    async fn download_maven_file(
        &self,
        access: ProjectAccess,
        request: DownloadMavenFileRequest,
    ) -> Result<Download> {
        maven::open(
            &self.backend,
            &PackageScope::Project(&access),
            &request.maven_path,
        )
        .await
    }

    async fn upload_maven_file(
        &self,
        access: ProjectAccess,
        request: UploadMavenFileRequest,
        upload: UploadedFile,
    ) -> Result<()> {
        maven::publish(&self.backend, &access, &request.maven_path, upload).await
    }

    async fn download_group_maven_file(
        &self,
        access: GroupAccess,
        request: DownloadGroupMavenFileRequest,
    ) -> Result<Download> {
        maven::open(
            &self.backend,
            &PackageScope::of_group(&access),
            &request.maven_path,
        )
        .await
    }

    async fn download_instance_maven_file(
        &self,
        access: InstanceAccess,
        request: DownloadInstanceMavenFileRequest,
    ) -> Result<Download> {
        let path = &request.maven_path;
        let scope = maven::instance_scope(&self.backend, &access.caller, path).await?;
        maven::open(&self.backend, &scope, path).await
    }
}
