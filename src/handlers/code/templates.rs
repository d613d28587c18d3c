//! File templates of the instance and of projects.

use domain::code::templates::{self, Kind, Said};
use domain::identity::access::{InstanceAccess, ProjectAccess};
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};

use crate::api::routes::TemplatesApi;
use crate::app::App;
use crate::views::code::template::{entry, license, template};
use contract::{
    GetCiTemplateRequest, GetDockerfileTemplateRequest, GetGitignoreTemplateRequest,
    GetLicenseTemplateRequest, GetProjectTemplateRequest, LicenseTemplate, ListLicenseTemplatesRequest,
    ListProjectTemplatesRequest, Template, TemplateEntry, TemplateType,
};

fn kind(named: TemplateType) -> Kind {
    match named {
        TemplateType::Dockerfiles => Kind::Dockerfiles,
        TemplateType::Gitignores => Kind::Gitignores,
        TemplateType::ServiceCiYmls | TemplateType::GitlabCiYmls => Kind::CiFiles,
        TemplateType::Licenses => Kind::Licenses,
        TemplateType::Issues => Kind::Issues,
        TemplateType::MergeRequests => Kind::MergeRequests,
    }
}

fn files(kind: Kind, page: &PageRequest) -> Page<TemplateEntry> {
    templates::list_built_in(kind, page).map(entry)
}

fn file(access: &InstanceAccess, kind: Kind, key: &str) -> Result<Template> {
    let found = templates::built_in(&access.caller, kind, key, &Said::default())?;
    Ok(template(found))
}

impl TemplatesApi for App {
    async fn list_project_templates(
        &self,
        access: ProjectAccess,
        request: ListProjectTemplatesRequest,
        page: PageRequest,
    ) -> Result<Page<TemplateEntry>> {
        let kind = kind(request.r#type);
        let page = templates::list(&self.backend, &access, kind, &page).await?;
        Ok(page.map(entry))
    }

    async fn get_project_template(
        &self,
        access: ProjectAccess,
        request: GetProjectTemplateRequest,
    ) -> Result<Template> {
        let said = Said {
            project: request.project,
            full_name: request.fullname,
        };
        let kind = kind(request.r#type);
        let found = templates::find(&self.backend, &access, kind, &request.key, &said).await?;
        Ok(template(found))
    }

    async fn list_dockerfile_templates(
        &self,
        _: InstanceAccess,
        page: PageRequest,
    ) -> Result<Page<TemplateEntry>> {
        Ok(files(Kind::Dockerfiles, &page))
    }

    async fn get_dockerfile_template(
        &self,
        access: InstanceAccess,
        request: GetDockerfileTemplateRequest,
    ) -> Result<Template> {
        file(&access, Kind::Dockerfiles, &request.key)
    }

    async fn list_gitignore_templates(
        &self,
        _: InstanceAccess,
        page: PageRequest,
    ) -> Result<Page<TemplateEntry>> {
        Ok(files(Kind::Gitignores, &page))
    }

    async fn get_gitignore_template(
        &self,
        access: InstanceAccess,
        request: GetGitignoreTemplateRequest,
    ) -> Result<Template> {
        file(&access, Kind::Gitignores, &request.key)
    }

    async fn list_ci_templates(&self, _: InstanceAccess, page: PageRequest) -> Result<Page<TemplateEntry>> {
        Ok(files(Kind::CiFiles, &page))
    }

    async fn get_ci_template(
        &self,
        access: InstanceAccess,
        request: GetCiTemplateRequest,
    ) -> Result<Template> {
        file(&access, Kind::CiFiles, &request.key)
    }

    async fn list_license_templates(
        &self,
        _: InstanceAccess,
        request: ListLicenseTemplatesRequest,
        page: PageRequest,
    ) -> Result<Page<LicenseTemplate>> {
        Ok(templates::list_licenses(request.popular, &page).map(license))
    }

    async fn get_license_template(
        &self,
        access: InstanceAccess,
        request: GetLicenseTemplateRequest,
    ) -> Result<Template> {
        let said = Said {
            project: request.project,
            full_name: request.fullname,
        };
        let found = templates::built_in(&access.caller, Kind::Licenses, &request.key, &said)?;
        Ok(template(found))
    }
}
