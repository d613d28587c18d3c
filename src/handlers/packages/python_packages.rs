//! Python packages of projects and groups.

use domain::accounts::uploads::UploadedFile;
use domain::identity::access::{GroupAccess, ProjectAccess};
use domain::kernel::download::Download;
use domain::kernel::error::Result;
use domain::packages::client_lists::PackageScope;
use domain::packages::pypi::{self, PythonUpload};

use crate::api::routes::PythonPackagesApi;
use crate::app::App;
use crate::views::packages::simple_index::{package_files, package_list};
use contract::{
    DownloadGroupPythonPackageRequest, DownloadPythonPackageRequest, GetGroupPythonPackageRequest,
    GetPythonPackageRequest, Message, UploadPythonPackageRequest,
};

impl App {
    /// Returns the URL of the Python packages of a scope.
    fn python_index(&self, scope: &PackageScope<'_>) -> String {
        let base = &self.backend.instance.base_url;
        match scope {
            PackageScope::Project(access) => {
                format!("{base}/api/v4/projects/{}/packages/pypi", access.project.id)
            }
            PackageScope::Group { group_id, .. } => {
                format!("{base}/api/v4/groups/{group_id}/-/packages/pypi")
            }
            PackageScope::NamedProject { project_id, .. } => {
                format!("{base}/api/v4/projects/{project_id}/packages/pypi")
            }
        }
    }

    async fn python_packages(&self, scope: &PackageScope<'_>) -> Result<Download> {
        let names = pypi::names(&self.backend, scope).await?;
        Ok(package_list(&self.python_index(scope), names))
    }

    async fn python_package(&self, scope: &PackageScope<'_>, name: &str) -> Result<Download> {
        let package = pypi::get(&self.backend, scope, name).await?;
        Ok(package_files(&self.python_index(scope), package))
    }
}

impl PythonPackagesApi for App {
    async fn upload_python_package(
        &self,
        access: ProjectAccess,
        request: UploadPythonPackageRequest,
        file: UploadedFile,
    ) -> Result<Message> {
        let body = request.body;
        let upload = PythonUpload {
            name: body.name,
            version: body.version,
            requires_python: body.requires_python,
            md5: body.md5_digest,
            sha256: body.sha256_digest,
        };
        pypi::publish(&self.backend, &access, upload, file).await?;
        Ok(Message {
            message: "201 Created".to_owned(),
        })
    }

    async fn list_python_packages(&self, access: ProjectAccess) -> Result<Download> {
        self.python_packages(&PackageScope::Project(&access)).await
    }

    async fn get_python_package(
        &self,
        access: ProjectAccess,
        request: GetPythonPackageRequest,
    ) -> Result<Download> {
        self.python_package(&PackageScope::Project(&access), &request.package_name)
            .await
    }

    async fn download_python_package(
        &self,
        access: ProjectAccess,
        request: DownloadPythonPackageRequest,
    ) -> Result<Download> {
        let scope = PackageScope::Project(&access);
        pypi::open(&self.backend, &scope, &request.sha256, &request.file_name).await
    }

    async fn list_group_python_packages(&self, access: GroupAccess) -> Result<Download> {
        self.python_packages(&PackageScope::of_group(&access)).await
    }

    async fn get_group_python_package(
        &self,
        access: GroupAccess,
        request: GetGroupPythonPackageRequest,
    ) -> Result<Download> {
        self.python_package(&PackageScope::of_group(&access), &request.package_name)
            .await
    }

    async fn download_group_python_package(
        &self,
        access: GroupAccess,
        request: DownloadGroupPythonPackageRequest,
    ) -> Result<Download> {
        let scope = PackageScope::of_group(&access);
        pypi::open(&self.backend, &scope, &request.sha256, &request.file_name).await
    }
}
