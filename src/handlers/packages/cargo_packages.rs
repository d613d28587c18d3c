//! Crates of projects.

use domain::accounts::uploads::UploadedFile;
use domain::identity::access::ProjectAccess;
use domain::kernel::download::Download;
use domain::kernel::error::Result;
use domain::packages::cargo;

use crate::api::routes::CargoPackagesApi;
use crate::app::App;
use contract::{
    CargoConfig, CrateUploadResult, CrateUploadWarnings, CrateYankResult, DownloadCrateRequest,
    GetCrateRequest, UnyankCrateRequest, YankCrateRequest,
};

impl CargoPackagesApi for App {
    async fn get_cargo_config(&self, access: ProjectAccess) -> Result<CargoConfig> {
        let base = &self.backend.instance.base_url;
        let api = format!("{base}/api/v4/projects/{}/packages/cargo", access.project.id);
        Ok(CargoConfig {
            dl: format!("{api}/api/v1/crates"),
            auth_required: cargo::requires_credentials(&access)?,
            api,
        })
    }

    async fn get_crate(&self, access: ProjectAccess, request: GetCrateRequest) -> Result<Download> {
        cargo::index_file(&self.backend, &access, &request.index_path).await
    }

    async fn upload_crate(&self, access: ProjectAccess, file: UploadedFile) -> Result<CrateUploadResult> {
        cargo::publish(&self.backend, &access, file).await?;
        let warnings = CrateUploadWarnings {
            invalid_categories: Vec::new(),
            invalid_badges: Vec::new(),
            other: Vec::new(),
        };
        Ok(CrateUploadResult { warnings })
    }

    async fn download_crate(&self, access: ProjectAccess, request: DownloadCrateRequest) -> Result<Download> {
        cargo::open(
            &self.backend,
            &access,
            &request.crate_name,
            &request.crate_version,
        )
        .await
    }

    async fn yank_crate(&self, access: ProjectAccess, request: YankCrateRequest) -> Result<CrateYankResult> {
        let (name, version) = (request.crate_name, request.crate_version);
        cargo::set_yanked(&self.backend, &access, &name, &version, true).await?;
        Ok(CrateYankResult { ok: true })
    }

    async fn unyank_crate(
        &self,
        access: ProjectAccess,
        request: UnyankCrateRequest,
    ) -> Result<CrateYankResult> {
        let (name, version) = (request.crate_name, request.crate_version);
        cargo::set_yanked(&self.backend, &access, &name, &version, false).await?;
        Ok(CrateYankResult { ok: true })
    }
}
