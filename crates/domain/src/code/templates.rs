//! Templates for new files of projects. They are built in, part of the repository of the project, or provided
//! by its groups, which store them in a project of the group.

use std::collections::HashSet;

use chrono::Datelike;
use git::{EntryKind, Oid, PageWindow, Repository, RepositoryId};
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QueryOrder};
use storage::entities::access::{code_readable_projects, visible_projects};
use storage::entities::{namespace_ancestors, namespaces, now, projects};

use crate::code::repository_access;
use crate::identity::access::ProjectAccess;
pub use crate::integrations::templates::licenses::LicenseTemplate;
use crate::integrations::templates::licenses::{self, LicenseTerms};
use crate::integrations::templates::{CI_FILES, DOCKERFILES, GITIGNORES, TemplateFile};
use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::policy::InstancePlan;

/// Maximum number of folder entries that are read.
const MAX_FOLDER_ENTRIES: usize = 1_000;
/// Maximum size of a template, in bytes.
const MAX_TEMPLATE_BYTES: u64 = 1 << 20;
/// File mode of a symbolic link, whose content is a path.
const SYMLINK_MODE: u32 = 0o120_000;

/// Kinds of templates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TemplateKind {
    /// Dockerfiles.
    Dockerfiles,
    /// Files with Git ignore patterns.
    Gitignores,
    /// CI/CD configurations.
    CiFiles,
    /// Licenses.
    Licenses,
    /// Descriptions of issues.
    Issues,
    /// Descriptions of merge requests.
    MergeRequests,
}

/// Key and name of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateSummary {
    /// The key.
    pub key: String,
    /// The name.
    pub name: String,
}

/// A template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Template {
    /// A file.
    File {
        /// The name.
        name: String,
        /// The full text.
        content: String,
    },
    /// A license.
    License(LicenseTemplate),
}

/// Values for the placeholders of a license.
#[derive(Debug, Clone, Default)]
pub struct LicenseFields {
    /// The name of the project.
    pub project: Option<String>,
    /// The name of the copyright holder; the caller by default.
    pub full_name: Option<String>,
}

/// A template file in a repository.
struct RepositoryTemplate {
    key: String,
    repository: Repository,
    blob: Oid,
}

/// Folders of a repository in descending precedence, and the extension of their files.
type TemplateFolders = (&'static [&'static str], &'static str);

impl TemplateKind {
    fn files(self) -> &'static [TemplateFile] {
        match self {
            Self::Dockerfiles => DOCKERFILES,
            Self::Gitignores => GITIGNORES,
            Self::CiFiles => CI_FILES,
            Self::Licenses | Self::Issues | Self::MergeRequests => &[],
        }
    }

    /// Returns the folders of a project's own templates.
    fn of_project(self) -> Option<TemplateFolders> {
        match self {
            Self::Issues => Some((&[".service/issue_templates", ".gitlab/issue_templates"], ".md")),
            Self::MergeRequests => Some((
                &[
                    ".service/merge_request_templates",
                    ".gitlab/merge_request_templates",
                ],
                ".md",
            )),
            _ => None,
        }
    }

    /// Returns the folders of the templates that a project provides for its group.
    fn of_group(self) -> Option<TemplateFolders> {
        match self {
            Self::Dockerfiles => Some((&["Dockerfile"], ".dockerfile")),
            Self::Gitignores => Some((&["gitignore"], ".gitignore")),
            Self::CiFiles => Some((&["service-ci", "gitlab-ci"], ".yml")),
            Self::Licenses => Some((&["LICENSE"], ".txt")),
            Self::Issues | Self::MergeRequests => None,
        }
    }
}

/// Lists the templates of a project: its own, those of its groups from the nearest one up, and the built-in
/// ones. Each key occurs once.
///
/// # Errors
/// Returns an error if a database query or a Git operation fails.
pub async fn list(
    backend: &Backend,
    access: &ProjectAccess,
    kind: TemplateKind,
    page: &PageRequest,
) -> Result<Page<TemplateSummary>> {
    let templates = repository_templates(backend, access, kind).await?;
    let of_repositories = templates.into_iter().map(|file| TemplateSummary {
        name: file.key.clone(),
        key: file.key,
    });
    let mut keys = HashSet::new();
    let all = of_repositories.chain(built_in_summaries(kind));
    let unique = all.filter(|entry| keys.insert(entry.key.clone())).collect();
    Ok(Page::from_all(page, unique))
}

/// Returns a template of a project.
///
/// # Errors
/// Returns `NotFound` if no template has the key.
pub async fn get(
    backend: &Backend,
    access: &ProjectAccess,
    kind: TemplateKind,
    key: &str,
    fields: &LicenseFields,
) -> Result<Template> {
    let templates = repository_templates(backend, access, kind).await?;
    let Some(file) = templates.into_iter().find(|file| file.key == key) else {
        return get_built_in(&access.caller, kind, key, fields);
    };
    let blob = file.repository.blob(file.blob, MAX_TEMPLATE_BYTES).await?;
    let content = String::from_utf8_lossy(&blob.data).into_owned();
    let name = file.key;
    Ok(match kind {
        TemplateKind::Licenses => Template::License(LicenseTemplate {
            key: name.clone(),
            name,
            content: fill_in(&content, &access.caller, fields),
            ..LicenseTemplate::default()
        }),
        _ => Template::File { name, content },
    })
}

/// Lists the built-in file templates.
#[must_use]
pub fn list_built_in(kind: TemplateKind, page: &PageRequest) -> Page<TemplateSummary> {
    Page::from_all(page, built_in_summaries(kind).collect())
}

/// Lists the built-in license templates.
#[must_use]
pub fn list_licenses(popular: bool, page: &PageRequest) -> Page<LicenseTemplate> {
    let licenses = licenses::all()
        .iter()
        .filter(|license| license.popular || !popular);
    Page::from_all(page, licenses.collect()).map(LicenseTemplate::clone)
}

/// Returns a built-in template. Keys of licenses ignore case.
///
/// # Errors
/// Returns `NotFound` if no template has the key.
pub fn get_built_in(
    caller: &Caller,
    kind: TemplateKind,
    key: &str,
    fields: &LicenseFields,
) -> Result<Template> {
    let template = match kind {
        TemplateKind::Licenses => {
            let mut all = licenses::all().iter();
            let license = all.find(|license| license.key.eq_ignore_ascii_case(key));
            license.map(|license| {
                Template::License(LicenseTemplate {
                    content: fill_in(&license.content, caller, fields),
                    ..license.clone()
                })
            })
        }
        _ => {
            let file = kind.files().iter().find(|file| file.key == key);
            file.map(|file| Template::File {
                name: file.key.to_owned(),
                content: file.content.to_owned(),
            })
        }
    };
    template.ok_or_else(|| Error::not_found("Template"))
}

/// Returns the built-in templates.
fn built_in_summaries(kind: TemplateKind) -> impl Iterator<Item = TemplateSummary> {
    let files = kind.files().iter().map(|file| TemplateSummary {
        key: file.key.to_owned(),
        name: file.key.to_owned(),
    });
    let licenses = match kind {
        TemplateKind::Licenses => licenses::all(),
        _ => &[],
    };
    files.chain(licenses.iter().map(|license| TemplateSummary {
        key: license.key.clone(),
        name: license.name.clone(),
    }))
}

fn not_blank(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.trim().is_empty())
}

/// Fills in the placeholders of a license with the current year and the caller's name.
fn fill_in(text: &str, caller: &Caller, fields: &LicenseFields) -> String {
    let caller_name = caller.as_user().map(|user| user.name.as_str());
    let terms = LicenseTerms {
        year: now().year(),
        project: not_blank(fields.project.as_deref()),
        full_name: not_blank(fields.full_name.as_deref()).or(caller_name),
    };
    licenses::fill_in(text, terms)
}

/// Returns the templates of a project from repositories that the caller can read, in descending precedence.
async fn repository_templates(
    backend: &Backend,
    access: &ProjectAccess,
    kind: TemplateKind,
) -> Result<Vec<RepositoryTemplate>> {
    let mut templates = Vec::new();
    if let Some(folders) = kind.of_project().filter(|_| access.can_read_code()) {
        templates.extend(files_in(backend, &access.project, folders).await?);
    }
    if let Some(folders) = kind.of_group() {
        for project in projects_of_groups(backend, access).await? {
            templates.extend(files_in(backend, &project, folders).await?);
        }
    }
    Ok(templates)
}

/// Returns the files in the folders of a project's default branch, by name. Links and files that are too
/// large are skipped.
async fn files_in(
    backend: &Backend,
    project: &projects::Model,
    (folders, extension): TemplateFolders,
) -> Result<Vec<RepositoryTemplate>> {
    let id = RepositoryId::of_project(project.id);
    let repository = backend.repositories.repository(&id);
    let Some(commit) = repository_access::default_branch_head(&repository, project).await? else {
        return Ok(Vec::new());
    };
    let window = PageWindow {
        offset: 0,
        limit: MAX_FOLDER_ENTRIES,
    };
    let (mut keys, mut blobs) = (Vec::new(), Vec::new());
    for folder in folders {
        let entries = repository.tree(commit, folder, false, window).await?.entries;
        for entry in entries {
            let key = entry.name().strip_suffix(extension).unwrap_or_default();
            if !key.is_empty() && entry.kind == EntryKind::Blob && entry.mode != SYMLINK_MODE {
                keys.push(key.to_owned());
                blobs.push(entry.id);
            }
        }
    }
    let sizes = repository.blob_sizes(blobs.clone()).await?;
    let files = keys.into_iter().zip(blobs).zip(sizes);
    let files = files.filter(|(_, size)| *size <= MAX_TEMPLATE_BYTES);
    let templates = files.map(|((key, blob), _)| RepositoryTemplate {
        key,
        repository: repository.clone(),
        blob,
    });
    Ok(templates.collect())
}

/// Returns the template projects of the groups of a project, from the nearest group up. Skips projects that
/// the plan does not cover, the caller cannot read or have left their group.
async fn projects_of_groups(backend: &Backend, access: &ProjectAccess) -> Result<Vec<projects::Model>> {
    use namespace_ancestors::Column as Ancestor;

    if backend.instance.plan < InstancePlan::Premium {
        return Ok(Vec::new());
    }
    let db = backend.database.read();
    let ancestors = namespace_ancestors::Entity::find()
        .find_also_related(namespaces::Entity)
        .filter(Ancestor::NamespaceId.eq(access.namespace.id))
        .filter(namespaces::Column::FileTemplateProjectId.is_not_null())
        .order_by_asc(Ancestor::Depth)
        .all(db)
        .await?;
    let template_projects: Vec<(i64, i64)> = ancestors
        .into_iter()
        .filter_map(|(_, group)| group)
        .filter_map(|group| Some((group.id, group.file_template_project_id?)))
        .collect();
    if template_projects.is_empty() {
        return Ok(Vec::new());
    }
    let (viewer, today) = (access.caller.viewer(), now().date_naive());
    let readable = projects::not_deleted()
        .filter(projects::Column::Id.is_in(template_projects.iter().map(|(_, project)| *project)))
        .filter(visible_projects(viewer, today))
        .filter(code_readable_projects(viewer, today))
        .all(db)
        .await?;
    let group_namespaces = namespace_ancestors::Entity::find()
        .filter(Ancestor::NamespaceId.is_in(readable.iter().map(|project| project.namespace_id)))
        .filter(Ancestor::AncestorId.is_in(template_projects.iter().map(|(group, _)| *group)))
        .all(db)
        .await?;
    let projects = template_projects.into_iter().filter_map(|(group, project)| {
        let project = readable.iter().find(|readable| readable.id == project)?;
        let in_group = group_namespaces
            .iter()
            .any(|row| row.ancestor_id == group && row.namespace_id == project.namespace_id);
        in_group.then(|| project.clone())
    });
    Ok(projects.collect())
}
