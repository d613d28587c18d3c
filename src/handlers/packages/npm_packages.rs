//! npm packages of projects, groups and the instance.

use domain::accounts::uploads::UploadedFile;
use domain::identity::access::{GroupAccess, InstanceAccess, ProjectAccess};
use domain::kernel::download::Download;
use domain::kernel::error::Result;
use domain::kernel::urls::encode_segment;
use domain::packages::access::check_access;
use domain::packages::client_lists::PackageScope;
use domain::packages::npm;

use crate::api::routes::NpmPackagesApi;
use crate::app::App;
use crate::views::packages::npm::npm_package;
use contract::{
    DeleteNpmPackageTagRequest, DownloadGroupNpmPackageRequest, DownloadInstanceNpmPackageRequest,
    DownloadNpmPackageRequest, GetGroupNpmPackageRequest, GetInstanceNpmPackageRequest, GetNpmPackageRequest,
    ListGroupNpmPackageTagsRequest, ListInstanceNpmPackageTagsRequest, ListNpmPackageTagsRequest,
    NpmAdvisories, NpmPackage, NpmPackageTags, NpmPackageUploadResult, SetNpmPackageTagRequest,
    UploadNpmPackageRequest,
};

impl App {
    /// Returns a package. `registry` is the path of the registry below the API.
    async fn npm_package(&self, scope: &PackageScope<'_>, name: &str, registry: &str) -> Result<NpmPackage> {
        let detail = npm::get(&self.backend, scope, name).await?;
        let registry = format!("{}/api/v4/{registry}", self.backend.instance.base_url);
        Ok(npm_package(&registry, detail))
    }

    async fn npm_package_tags(&self, scope: &PackageScope<'_>, name: &str) -> Result<NpmPackageTags> {
        let tags = npm::tags::list(&self.backend, scope, name).await?;
        Ok(tags.into_iter().collect())
    }
}

impl NpmPackagesApi for App {
    async fn get_npm_package(
        &self,
        access: ProjectAccess,
        request: GetNpmPackageRequest,
    ) -> Result<NpmPackage> {
        let registry = format!("projects/{}/packages/npm", encode_segment(&request.id));
        self.npm_package(&PackageScope::Project(&access), &request.package_name, &registry)
            .await
    }

    async fn upload_npm_package(
        &self,
        access: ProjectAccess,
        request: UploadNpmPackageRequest,
        file: UploadedFile,
    ) -> Result<NpmPackageUploadResult> {
        let change = npm::receive(&self.backend, &access, &request.package_name, file).await?;
        Ok(NpmPackageUploadResult {
            name: change.name,
            versions: change.versions,
        })
    }

    async fn download_npm_package(
        &self,
        access: ProjectAccess,
        request: DownloadNpmPackageRequest,
    ) -> Result<Download> {
        let scope = PackageScope::Project(&access);
        npm::open(&self.backend, &scope, &request.package_name, &request.file_name).await
    }

    async fn list_npm_package_tags(
        &self,
        access: ProjectAccess,
        request: ListNpmPackageTagsRequest,
    ) -> Result<NpmPackageTags> {
        self.npm_package_tags(&PackageScope::Project(&access), &request.package_name)
            .await
    }

    async fn set_npm_package_tag(
        &self,
        access: ProjectAccess,
        request: SetNpmPackageTagRequest,
        file: UploadedFile,
    ) -> Result<()> {
        npm::tags::set(&self.backend, &access, &request.package_name, &request.tag, file).await
    }

    async fn delete_npm_package_tag(
        &self,
        access: ProjectAccess,
        request: DeleteNpmPackageTagRequest,
    ) -> Result<()> {
        npm::tags::delete(&self.backend, &access, &request.package_name, &request.tag).await
    }

    async fn check_npm_advisories(&self, access: ProjectAccess, _: UploadedFile) -> Result<NpmAdvisories> {
        check_access(&access)?;
        Ok(NpmAdvisories::default())
    }

    async fn check_npm_dependencies(&self, access: ProjectAccess, _: UploadedFile) -> Result<NpmAdvisories> {
        check_access(&access)?;
        Ok(NpmAdvisories::default())
    }

    async fn get_group_npm_package(
        &self,
        access: GroupAccess,
        request: GetGroupNpmPackageRequest,
    ) -> Result<NpmPackage> {
        let registry = format!("groups/{}/-/packages/npm", encode_segment(&request.id));
        self.npm_package(&PackageScope::of_group(&access), &request.package_name, &registry)
            .await
    }

    async fn download_group_npm_package(
        &self,
        access: GroupAccess,
        request: DownloadGroupNpmPackageRequest,
    ) -> Result<Download> {
        let scope = PackageScope::of_group(&access);
        npm::open(&self.backend, &scope, &request.package_name, &request.file_name).await
    }

    async fn list_group_npm_package_tags(
        &self,
        access: GroupAccess,
        request: ListGroupNpmPackageTagsRequest,
    ) -> Result<NpmPackageTags> {
        self.npm_package_tags(&PackageScope::of_group(&access), &request.package_name)
            .await
    }

    async fn check_group_npm_advisories(&self, _: GroupAccess, _: UploadedFile) -> Result<NpmAdvisories> {
        Ok(NpmAdvisories::default())
    }

    async fn check_group_npm_dependencies(&self, _: GroupAccess, _: UploadedFile) -> Result<NpmAdvisories> {
        Ok(NpmAdvisories::default())
    }

    async fn get_instance_npm_package(
        &self,
        access: InstanceAccess,
        request: GetInstanceNpmPackageRequest,
    ) -> Result<NpmPackage> {
        let name = request.package_name;
        let scope = npm::instance_scope(&self.backend, &access.caller, &name).await?;
        self.npm_package(&scope, &name, "packages/npm").await
    }

    async fn download_instance_npm_package(
        &self,
        access: InstanceAccess,
        request: DownloadInstanceNpmPackageRequest,
    ) -> Result<Download> {
        let name = request.package_name;
        let scope = npm::instance_scope(&self.backend, &access.caller, &name).await?;
        npm::open(&self.backend, &scope, &name, &request.file_name).await
    }

    async fn list_instance_npm_package_tags(
        &self,
        access: InstanceAccess,
        request: ListInstanceNpmPackageTagsRequest,
    ) -> Result<NpmPackageTags> {
        let name = request.package_name;
        let scope = npm::instance_scope(&self.backend, &access.caller, &name).await?;
        self.npm_package_tags(&scope, &name).await
    }

    async fn check_instance_npm_advisories(
        &self,
        _: InstanceAccess,
        _: UploadedFile,
    ) -> Result<NpmAdvisories> {
        Ok(NpmAdvisories::default())
    }

    async fn check_instance_npm_dependencies(
        &self,
        _: InstanceAccess,
        _: UploadedFile,
    ) -> Result<NpmAdvisories> {
        Ok(NpmAdvisories::default())
    }
}
