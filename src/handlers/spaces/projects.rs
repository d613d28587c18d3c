//! Projects: create, get, list, update, archive and delete.

use domain::accounts::avatars;
use domain::accounts::uploads::UploadedFile;
use domain::code::code_analysis;
use domain::identity::access::{InstanceAccess, ProjectAccess, UserAccess};
use domain::kernel::caller::Caller;
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};
use domain::kernel::patch::Patch;
use domain::lifecycle::{deletion, transfer};
use domain::secrets::Secret;
use domain::spaces::projects::{self, ExpirationPolicyChange, NewProject, ProjectGroupFilter, ProjectUpdate};
use storage::entities::AccessLevel;

use crate::api::routes::ProjectsApi;
use crate::app::App;
use crate::handlers::patch::IntoPatch;
use crate::views;
use crate::views::enums::Convert;
use crate::views::spaces::group::project_group;
use crate::views::spaces::project::{self, languages, project, project_import};
use contract::MaybeUndefined;
use contract::timestamp::Timestamp;
use contract::{
    ContainerExpirationPolicyInput, CreateProjectForUserRequest, CreateProjectRequest, DeleteProjectRequest,
    GetProjectRequest, Languages, ListProjectGroupsRequest, ListProjectsRequest, ListUserProjectsRequest,
    Message, NewProjectAttributes, Project, ProjectFilter, ProjectGroup, ProjectImport, ProjectOrder,
    ProjectSettings, ProjectViewOptions, SortDirection, TransferProjectRequest, UpdateProjectRequest,
};

/// Returns the project in a body.
fn new_project(
    name: Option<String>,
    attributes: NewProjectAttributes,
    settings: ProjectSettings,
) -> NewProject {
    NewProject {
        name,
        path: attributes.path,
        namespace_id: attributes.namespace_id,
        visibility: attributes.visibility.map(Convert::convert),
        default_branch: attributes.default_branch,
        with_readme: attributes.initialize_with_readme,
        import_url: attributes.import_url.map(Secret::new),
        settings: project_settings(attributes.description.into_patch(), settings),
    }
}

/// Returns the settings in a body.
fn project_settings(description: Patch<String>, settings: ProjectSettings) -> projects::ProjectSettings {
    projects::ProjectSettings {
        description,
        tag_list: settings.tag_list.into_patch(),
        topics: settings.topics.into_patch(),
        issues_enabled: settings.issues_enabled,
        merge_requests_enabled: settings.merge_requests_enabled,
        wiki_enabled: settings.wiki_enabled,
        jobs_enabled: settings.jobs_enabled,
        snippets_enabled: settings.snippets_enabled,
        container_registry_enabled: settings.container_registry_enabled,
        packages_enabled: settings.packages_enabled,
        issues_access_level: settings.issues_access_level.map(Convert::convert),
        repository_access_level: settings.repository_access_level.map(Convert::convert),
        merge_requests_access_level: settings.merge_requests_access_level.map(Convert::convert),
        forking_access_level: settings.forking_access_level.map(Convert::convert),
        wiki_access_level: settings.wiki_access_level.map(Convert::convert),
        builds_access_level: settings.builds_access_level.map(Convert::convert),
        snippets_access_level: settings.snippets_access_level.map(Convert::convert),
        container_registry_access_level: settings.container_registry_access_level.map(Convert::convert),
        package_registry_access_level: settings.package_registry_access_level.map(Convert::convert),
        releases_access_level: settings.releases_access_level.map(Convert::convert),
        environments_access_level: settings.environments_access_level.map(Convert::convert),
        feature_flags_access_level: settings.feature_flags_access_level.map(Convert::convert),
        infrastructure_access_level: settings.infrastructure_access_level.map(Convert::convert),
        monitor_access_level: settings.monitor_access_level.map(Convert::convert),
        security_and_compliance_access_level: settings
            .security_and_compliance_access_level
            .map(Convert::convert),
        container_expiration_policy: settings
            .container_expiration_policy_attributes
            .map(expiration_policy_change),
        merge_method: settings.merge_method.map(Convert::convert),
        squash_option: settings.squash_option.map(Convert::convert),
        request_access_enabled: settings.request_access_enabled,
        lfs_enabled: settings.lfs_enabled,
        service_desk_enabled: settings.service_desk_enabled,
        emails_enabled: settings.emails_enabled,
        resolve_outdated_diff_discussions: settings.resolve_outdated_diff_discussions,
        shared_runners_enabled: settings.shared_runners_enabled,
        public_jobs: settings.public_jobs,
        ci_default_git_depth: settings.ci_default_git_depth.into_patch(),
        ci_config_path: settings.ci_config_path.into_patch(),
        build_timeout: settings.build_timeout,
        only_allow_merge_if_pipeline_succeeds: settings.only_allow_merge_if_pipeline_succeeds,
        only_allow_merge_if_all_discussions_are_resolved: settings
            .only_allow_merge_if_all_discussions_are_resolved,
        only_allow_merge_if_all_status_checks_passed: settings.only_allow_merge_if_all_status_checks_passed,
        remove_source_branch_after_merge: settings.remove_source_branch_after_merge,
        autoclose_referenced_issues: settings.autoclose_referenced_issues,
        suggestion_commit_message: settings.suggestion_commit_message.into_patch(),
        auto_devops_enabled: settings.auto_devops_enabled,
        auto_devops_deploy_strategy: settings.auto_devops_deploy_strategy.map(Convert::convert),
        approvals_before_merge: settings.approvals_before_merge,
        mirror: settings.mirror,
        mirror_trigger_builds: settings.mirror_trigger_builds,
        only_mirror_protected_branches: settings.only_mirror_protected_branches,
        mirror_overwrites_diverged_branches: settings.mirror_overwrites_diverged_branches,
        external_authorization_classification_label: settings
            .external_authorization_classification_label
            .into_patch(),
        repository_storage: settings.repository_storage,
    }
}

/// Returns the changes of an expiration policy in a body.
fn expiration_policy_change(body: ContainerExpirationPolicyInput) -> ExpirationPolicyChange {
    let name_regex_delete = match body.name_regex_delete {
        MaybeUndefined::Undefined => body.name_regex,
        sent => sent,
    };
    ExpirationPolicyChange {
        cadence: body.cadence.map(Convert::convert),
        enabled: body.enabled,
        keep_n: body.keep_n.into_patch(),
        older_than: body.older_than.into_patch().map(Convert::convert),
        name_regex_delete: name_regex_delete.into_patch(),
        name_regex_keep: body.name_regex_keep.into_patch(),
    }
}

/// Returns the filter of a list.
pub(crate) fn project_filter(filter: ProjectFilter) -> projects::ProjectFilter {
    projects::ProjectFilter {
        archived: filter.archived,
        visibility: filter.visibility.map(Convert::convert),
        search: filter.search,
        owned: filter.owned,
        membership: filter.membership,
        starred: filter.starred,
        topics: filter.topic.unwrap_or_default(),
        with_issues_enabled: filter.with_issues_enabled,
        with_merge_requests_enabled: filter.with_merge_requests_enabled,
        with_programming_language: filter.with_programming_language,
        min_access_level: filter.min_access_level,
        id_after: filter.id_after,
        id_before: filter.id_before,
        custom_attributes: filter.custom_attributes.unwrap_or_default().into_iter().collect(),
        order: order(filter.order_by),
        ascending: filter.sort == Some(SortDirection::Asc),
        ..projects::ProjectFilter::default()
    }
}

/// Returns the additional attributes of the projects in a list.
pub(crate) fn view_options(options: &ProjectViewOptions) -> project::ProjectViewOptions {
    project::ProjectViewOptions {
        simple: options.simple,
        statistics: options.statistics,
        custom_attributes: options.with_custom_attributes,
        ..project::ProjectViewOptions::default()
    }
}

pub(crate) fn order(order: Option<ProjectOrder>) -> projects::ProjectOrder {
    match order {
        None | Some(ProjectOrder::CreatedAt) => projects::ProjectOrder::CreatedAt,
        Some(ProjectOrder::Id) => projects::ProjectOrder::Id,
        Some(ProjectOrder::Name) => projects::ProjectOrder::Name,
        Some(ProjectOrder::Path) => projects::ProjectOrder::Path,
        Some(ProjectOrder::UpdatedAt) => projects::ProjectOrder::UpdatedAt,
        Some(ProjectOrder::LastActivityAt) => projects::ProjectOrder::LastActivityAt,
    }
}

impl App {
    pub(crate) async fn projects(
        &self,
        caller: &Caller,
        filter: projects::ProjectFilter,
        page: PageRequest,
        parts: project::ProjectViewOptions,
    ) -> Result<Page<Project>> {
        let mut page = projects::list(&self.backend, caller, &filter, &page).await?;
        if parts.custom_attributes {
            projects::add_custom_attributes(&self.backend, caller, &mut page.items).await?;
        }
        if parts.statistics && !parts.simple {
            projects::load_packages_sizes(&self.backend, &mut page.items).await?;
        }
        Ok(page.map(|row| project(&self.backend.instance, &row, parts)))
    }

    /// Returns a project after an update, with secrets if `secrets` is set.
    pub(crate) async fn changed(&self, access: ProjectAccess, secrets: bool) -> Result<Project> {
        let row = projects::get(&self.backend, access, secrets).await?;
        Ok(project(
            &self.backend.instance,
            &row,
            project::ProjectViewOptions::default(),
        ))
    }
}

impl ProjectsApi for App {
    async fn list_projects(
        &self,
        access: InstanceAccess,
        request: ListProjectsRequest,
        page: PageRequest,
    ) -> Result<Page<Project>> {
        let parts = view_options(&request.project_view_options);
        let filter = projects::ProjectFilter {
            search_namespaces: request.search_namespaces,
            checksum_failed: request.wiki_checksum_failed || request.repository_checksum_failed,
            last_activity_after: request.last_activity_after.map(Timestamp::to_utc),
            last_activity_before: request.last_activity_before.map(Timestamp::to_utc),
            ..project_filter(request.project_filter)
        };
        self.projects(&access.caller, filter, page, parts).await
    }

    async fn list_user_projects(
        &self,
        access: UserAccess,
        request: ListUserProjectsRequest,
        page: PageRequest,
    ) -> Result<Page<Project>> {
        let parts = view_options(&request.project_view_options);
        let filter = projects::ProjectFilter {
            of_user: Some(access.user.id),
            ..project_filter(request.project_filter)
        };
        self.projects(&access.caller, filter, page, parts).await
    }

    async fn create_project(&self, access: InstanceAccess, request: CreateProjectRequest) -> Result<Project> {
        let body = request.body;
        let new = new_project(body.name, body.new_project_attributes, body.project_settings);
        let created = projects::create(&self.backend, &access.caller, new).await?;
        self.changed(created, true).await
    }

    async fn create_project_for_user(
        &self,
        access: UserAccess,
        request: CreateProjectForUserRequest,
    ) -> Result<Project> {
        let body = request.body;
        let new = new_project(
            Some(body.name),
            body.new_project_attributes,
            body.project_settings,
        );
        let created = projects::create_for_user(&self.backend, &access, new).await?;
        self.changed(created, true).await
    }

    async fn get_project_import(&self, access: ProjectAccess) -> Result<ProjectImport> {
        let row = projects::get(&self.backend, access, false).await?;
        Ok(project_import(&row))
    }

    async fn get_project(&self, access: ProjectAccess, request: GetProjectRequest) -> Result<Project> {
        let license = match request.license {
            true => code_analysis::license(&self.backend, &access).await?,
            false => None,
        };
        let caller = access.caller.clone();
        let mut row = projects::get(&self.backend, access, true).await?;
        row.license = license;
        if request.statistics {
            projects::load_commit_count(&self.backend, &mut row).await?;
            projects::load_packages_sizes(&self.backend, std::slice::from_mut(&mut row)).await?;
        }
        if request.with_custom_attributes {
            projects::add_custom_attributes(&self.backend, &caller, std::slice::from_mut(&mut row)).await?;
        }
        let parts = project::ProjectViewOptions {
            simple: false,
            statistics: request.statistics,
            license: request.license,
            custom_attributes: request.with_custom_attributes,
        };
        Ok(project(&self.backend.instance, &row, parts))
    }

    async fn update_project(
        &self,
        access: ProjectAccess,
        request: UpdateProjectRequest,
        picture: Option<UploadedFile>,
    ) -> Result<Project> {
        let body = request.body;
        // An empty text in place of the file removes the avatar.
        let pictured = picture.is_some() || body.avatar.is_some();
        // Validated first, because a request with an invalid image changes nothing.
        let picture = avatars::validate(picture).await?;
        let change = ProjectUpdate {
            settings: project_settings(body.description.into_patch(), body.project_settings),
            name: body.name,
            path: body.path,
            visibility: body.visibility.map(Convert::convert),
            default_branch: body.default_branch,
            mirror_user_id: body.mirror_user_id,
        };
        let changed = if pictured && change == ProjectUpdate::default() {
            access
        } else {
            projects::update(&self.backend, access, change).await?
        };
        let changed = match pictured {
            true => avatars::set(&self.backend, changed, picture).await?,
            false => changed,
        };
        self.changed(changed, true).await
    }

    async fn delete_project(&self, access: ProjectAccess, request: DeleteProjectRequest) -> Result<Message> {
        deletion::projects::delete(&self.backend, &access, request.if_unmodified_since.as_deref()).await?;
        Ok(views::accepted())
    }

    async fn list_project_groups(
        &self,
        access: ProjectAccess,
        request: ListProjectGroupsRequest,
        page: PageRequest,
    ) -> Result<Page<ProjectGroup>> {
        let filter = ProjectGroupFilter {
            search: request.search,
            skip: request.skip_groups.unwrap_or_default(),
            with_shared: request.with_shared,
            least_share: request.shared_min_access_level.and_then(AccessLevel::from_number),
        };
        let found = projects::list_groups(&self.backend, &access, &filter, &page).await?;
        Ok(found.map(|row| project_group(&self.backend.instance, row)))
    }

    async fn get_project_languages(&self, access: ProjectAccess) -> Result<Languages> {
        let shares = code_analysis::languages(&self.backend, &access).await?;
        Ok(languages(shares))
    }

    async fn restore_project(&self, access: ProjectAccess) -> Result<Project> {
        let restored = deletion::projects::restore(&self.backend, access).await?;
        self.changed(restored, false).await
    }

    async fn archive_project(&self, access: ProjectAccess) -> Result<Project> {
        let changed = projects::set_archived(&self.backend, access, true).await?;
        self.changed(changed, false).await
    }

    async fn transfer_project(
        &self,
        access: ProjectAccess,
        request: TransferProjectRequest,
    ) -> Result<Project> {
        let moved = transfer::projects::transfer_to(&self.backend, access, &request.body.namespace).await?;
        self.changed(moved, true).await
    }

    async fn unarchive_project(&self, access: ProjectAccess) -> Result<Project> {
        let changed = projects::set_archived(&self.backend, access, false).await?;
        self.changed(changed, false).await
    }
}
