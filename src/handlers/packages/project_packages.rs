//! Packages of projects and groups.

use domain::identity::access::{GroupAccess, ProjectAccess};
use domain::kernel::download::Download;
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};
use domain::packages::listing::{self, PackageFilter};
use domain::packages::{cleanup, deletion, downloads};
use storage::entities::packages::PackageType;

use crate::api::routes::PackagesApi;
use crate::app::App;
use crate::views::enums::Convert;
use crate::views::packages::package as view;
use contract::{
    DeletePackageFileRequest, DeletePackageRequest, DownloadPackageFileRequest, GetPackageRequest,
    ListGroupPackagesRequest, ListPackageFilesRequest, ListPackagesRequest, Package, PackageCleanupPolicy,
    PackageFile, PackageOrder, PackageTypeFilter, SetPackageCleanupPolicyRequest, SortDirection,
};

fn order(order: Option<PackageOrder>) -> listing::PackageOrder {
    match order {
        Some(PackageOrder::CreatedAt) | None => listing::PackageOrder::CreatedAt,
        Some(PackageOrder::Name) => listing::PackageOrder::Name,
        Some(PackageOrder::Version) => listing::PackageOrder::Version,
        Some(PackageOrder::Type) => listing::PackageOrder::Type,
    }
}

/// Returns the formats of the packages in a filtered list; none for a format that the server does not support.
fn package_types(filter: PackageTypeFilter) -> Vec<PackageType> {
    match filter {
        PackageTypeFilter::Generic => vec![PackageType::Generic],
        PackageTypeFilter::Npm => vec![PackageType::Npm],
        PackageTypeFilter::Pypi => vec![PackageType::Pypi],
        PackageTypeFilter::Cargo => vec![PackageType::Cargo],
        PackageTypeFilter::Maven => vec![PackageType::Maven],
        PackageTypeFilter::Composer
        | PackageTypeFilter::Conan
        | PackageTypeFilter::Debian
        | PackageTypeFilter::Golang
        | PackageTypeFilter::Helm
        | PackageTypeFilter::MlModel
        | PackageTypeFilter::Nuget
        | PackageTypeFilter::Rpm
        | PackageTypeFilter::Rubygems
        | PackageTypeFilter::TerraformModule => Vec::new(),
    }
}

impl PackagesApi for App {
    async fn list_packages(
        &self,
        access: ProjectAccess,
        request: ListPackagesRequest,
        page: PageRequest,
    ) -> Result<Page<Package>> {
        let filter = PackageFilter {
            order: order(request.order_by),
            descending: matches!(request.sort, Some(SortDirection::Desc)),
            package_types: request.package_type.map(package_types),
            name: request.package_name,
            version: request.package_version,
            include_versionless: request.include_versionless,
            status: request.status.map(Convert::convert),
        };
        let page = listing::list(&self.backend, &access, &filter, &page).await?;
        let base = &self.backend.instance.base_url;
        Ok(page.map(|detail| view::package(base, detail)))
    }

    async fn list_group_packages(
        &self,
        access: GroupAccess,
        request: ListGroupPackagesRequest,
        page: PageRequest,
    ) -> Result<Page<Package>> {
        let filter = PackageFilter {
            order: order(request.order_by),
            descending: matches!(request.sort, Some(SortDirection::Desc)),
            package_types: request.package_type.map(package_types),
            name: request.package_name,
            version: request.package_version,
            include_versionless: request.include_versionless,
            status: request.status.map(Convert::convert),
        };
        let exclude_subgroups = request.exclude_subgroups;
        let page = listing::list_of_group(&self.backend, &access, &filter, exclude_subgroups, &page).await?;
        let base = &self.backend.instance.base_url;
        Ok(page.map(|detail| view::package_of_group(base, detail)))
    }

    async fn get_package(&self, access: ProjectAccess, request: GetPackageRequest) -> Result<Package> {
        let (detail, versions) = listing::get(&self.backend, &access, request.package_id).await?;
        let base = &self.backend.instance.base_url;
        Ok(view::package_with_versions(base, detail, versions))
    }

    async fn delete_package(&self, access: ProjectAccess, request: DeletePackageRequest) -> Result<()> {
        let time = request.if_unmodified_since.as_deref();
        deletion::delete_package(&self.backend, &access, request.package_id, time).await
    }

    async fn list_package_files(
        &self,
        access: ProjectAccess,
        request: ListPackageFilesRequest,
        page: PageRequest,
    ) -> Result<Page<PackageFile>> {
        let page = listing::list_files(&self.backend, &access, request.package_id, &page).await?;
        Ok(page.map(view::file))
    }

    async fn delete_package_file(
        &self,
        access: ProjectAccess,
        request: DeletePackageFileRequest,
    ) -> Result<()> {
        let time = request.if_unmodified_since.as_deref();
        let (package_id, file_id) = (request.package_id, request.package_file_id);
        deletion::delete_file(&self.backend, &access, package_id, file_id, time).await
    }

    async fn download_package_file(
        &self,
        access: ProjectAccess,
        request: DownloadPackageFileRequest,
    ) -> Result<Download> {
        let (package_id, file_id) = (request.package_id, request.package_file_id);
        downloads::open_by_id(&self.backend, &access, package_id, file_id).await
    }

    async fn get_package_cleanup_policy(&self, access: ProjectAccess) -> Result<PackageCleanupPolicy> {
        cleanup::get(&self.backend, &access)
            .await
            .map(view::cleanup_policy)
    }

    async fn set_package_cleanup_policy(
        &self,
        access: ProjectAccess,
        request: SetPackageCleanupPolicyRequest,
    ) -> Result<PackageCleanupPolicy> {
        let kept = request.body.keep_n_duplicated_package_files.convert();
        cleanup::set(&self.backend, &access, kept)
            .await
            .map(view::cleanup_policy)
    }
}
