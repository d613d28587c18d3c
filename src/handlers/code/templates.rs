//! File templates of the instance and of projects.

use domain::code::templates::{self, LicenseFields, TemplateKind};
use domain::identity::access::{InstanceAccess, ProjectAccess};
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};

use crate::api::routes::TemplatesApi;
use crate::app::App;
use crate::views::code::template::{self as view, entry, license};
use contract::{
    GetCiTemplateRequest, GetDockerfileTemplateRequest, GetGitignoreTemplateRequest,
    GetLicenseTemplateRequest, GetProjectTemplateRequest, LicenseTemplate, ListLicenseTemplatesRequest,
    ListProjectTemplatesRequest, Template, TemplateEntry, TemplateType,
};

fn kind(template_type: TemplateType) -> TemplateKind {
    match template_type {
        TemplateType::Dockerfiles => TemplateKind::Dockerfiles,
        TemplateType::Gitignores => TemplateKind::Gitignores,
        TemplateType::ServiceCiYmls | TemplateType::GitlabCiYmls => TemplateKind::CiFiles,
        TemplateType::Licenses => TemplateKind::Licenses,
        TemplateType::Issues => TemplateKind::Issues,
        TemplateType::MergeRequests => TemplateKind::MergeRequests,
    }
}

fn files(kind: TemplateKind, page: &PageRequest) -> Page<TemplateEntry> {
    templates::list_built_in(kind, page).map(entry)
}

fn file(access: &InstanceAccess, kind: TemplateKind, key: &str) -> Result<Template> {
    let template = templates::get_built_in(&access.caller, kind, key, &LicenseFields::default())?;
    Ok(view::template(template))
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
        let fields = LicenseFields {
            project: request.project,
            full_name: request.fullname,
        };
        let kind = kind(request.r#type);
        let template = templates::get(&self.backend, &access, kind, &request.key, &fields).await?;
        Ok(view::template(template))
    }

    async fn list_dockerfile_templates(
        &self,
        _: InstanceAccess,
        page: PageRequest,
    ) -> Result<Page<TemplateEntry>> {
        Ok(files(TemplateKind::Dockerfiles, &page))
    }

    async fn get_dockerfile_template(
        &self,
        access: InstanceAccess,
        request: GetDockerfileTemplateRequest,
    ) -> Result<Template> {
        file(&access, TemplateKind::Dockerfiles, &request.key)
    }

    async fn list_gitignore_templates(
        &self,
        _: InstanceAccess,
        page: PageRequest,
    ) -> Result<Page<TemplateEntry>> {
        Ok(files(TemplateKind::Gitignores, &page))
    }

    async fn get_gitignore_template(
        &self,
        access: InstanceAccess,
        request: GetGitignoreTemplateRequest,
    ) -> Result<Template> {
        file(&access, TemplateKind::Gitignores, &request.key)
    }

    async fn list_ci_templates(&self, _: InstanceAccess, page: PageRequest) -> Result<Page<TemplateEntry>> {
        Ok(files(TemplateKind::CiFiles, &page))
    }

    async fn get_ci_template(
        &self,
        access: InstanceAccess,
        request: GetCiTemplateRequest,
    ) -> Result<Template> {
        file(&access, TemplateKind::CiFiles, &request.key)
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
        let fields = LicenseFields {
            project: request.project,
            full_name: request.fullname,
        };
        let template =
            templates::get_built_in(&access.caller, TemplateKind::Licenses, &request.key, &fields)?;
        Ok(view::template(template))
    }
}
