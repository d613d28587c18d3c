//! Vulnerabilities of projects.

use domain::accounts::uploads::UploadedFile;
use domain::identity::access::{InstanceAccess, ProjectAccess};
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};
use domain::security::vulnerabilities::{self, VulnerabilityFilter, reports};

use crate::api::routes::VulnerabilitiesApi;
use crate::app::App;
use crate::views::enums::Convert;
use crate::views::security::vulnerability::{outcome, vulnerability};
use contract::{
    ConfirmVulnerabilityRequest, DismissVulnerabilityRequest, GetVulnerabilityRequest,
    ListProjectVulnerabilitiesRequest, ResolveVulnerabilityRequest, Vulnerability,
    VulnerabilityReportOutcome, VulnerabilityState,
};

impl App {
    async fn decide(
        &self,
        access: InstanceAccess,
        id: i64,
        state: VulnerabilityState,
    ) -> Result<Vulnerability> {
        let row = vulnerabilities::update_state(&self.backend, access, id, state.convert()).await?;
        Ok(vulnerability(row))
    }
}

impl VulnerabilitiesApi for App {
    async fn get_vulnerability(
        &self,
        access: InstanceAccess,
        request: GetVulnerabilityRequest,
    ) -> Result<Vulnerability> {
        let row = vulnerabilities::get(&self.backend, access, request.id).await?;
        Ok(vulnerability(row))
    }

    async fn confirm_vulnerability(
        &self,
        access: InstanceAccess,
        request: ConfirmVulnerabilityRequest,
    ) -> Result<Vulnerability> {
        self.decide(access, request.id, VulnerabilityState::Confirmed)
            .await
    }

    async fn resolve_vulnerability(
        &self,
        access: InstanceAccess,
        request: ResolveVulnerabilityRequest,
    ) -> Result<Vulnerability> {
        self.decide(access, request.id, VulnerabilityState::Resolved)
            .await
    }

    async fn dismiss_vulnerability(
        &self,
        access: InstanceAccess,
        request: DismissVulnerabilityRequest,
    ) -> Result<Vulnerability> {
        self.decide(access, request.id, VulnerabilityState::Closed).await
    }

    async fn list_project_vulnerabilities(
        &self,
        access: ProjectAccess,
        request: ListProjectVulnerabilitiesRequest,
        page: PageRequest,
    ) -> Result<Page<Vulnerability>> {
        let filter = VulnerabilityFilter {
            state: request.state.map(Convert::convert),
            severity: request.severity.map(Convert::convert),
            report_type: request.report_type.map(Convert::convert),
        };
        let page = vulnerabilities::list(&self.backend, &access, filter, &page).await?;
        Ok(page.map(vulnerability))
    }

    async fn create_vulnerability_report(
        &self,
        access: ProjectAccess,
        file: UploadedFile,
    ) -> Result<VulnerabilityReportOutcome> {
        let result = reports::ingest(&self.backend, &access, file).await?;
        Ok(outcome(result))
    }
}
