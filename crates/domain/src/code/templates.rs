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
const MOST: usize = 1_000;
/// Maximum size of a template, in bytes.
const LONGEST: u64 = 1 << 20;
/// File mode of a symbolic link, whose content is a path.
const LINK: u32 = 0o120_000;

/// Types of templates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
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

/// An entry of a list of templates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
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
pub struct Said {
    /// The name of the project.
    pub project: Option<String>,
    /// The name of the copyright holder; the caller by default.
    pub full_name: Option<String>,
}

/// A template file in a repository.
struct Kept {
    key: String,
    repository: Repository,
    blob: Oid,
}

/// Folders of a repository in descending precedence, and the extension of their files.
type Place = (&'static [&'static str], &'static str);

impl Kind {
    fn files(self) -> &'static [TemplateFile] {
        match self {
            Self::Dockerfiles => DOCKERFILES,
            Self::Gitignores => GITIGNORES,
            Self::CiFiles => CI_FILES,
            Self::Licenses | Self::Issues | Self::MergeRequests => &[],
        }
    }

    /// Returns the folders of a project's own templates.
    fn of_project(self) -> Option<Place> {
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
    fn of_group(self) -> Option<Place> {
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
    kind: Kind,
    page: &PageRequest,
) -> Result<Page<Entry>> {
    let kept = kept(backend, access, kind).await?;
    let of_repositories = kept.into_iter().map(|file| Entry {
        name: file.key.clone(),
        key: file.key,
    });
    let mut seen = HashSet::new();
    let all = of_repositories.chain(entries(kind));
    let once = all.filter(|entry| seen.insert(entry.key.clone())).collect();
    Ok(Page::from_all(page, once))
}

/// Returns a template of a project.
///
/// # Errors
/// Returns `NotFound` if no template has the key.
pub async fn find(
    backend: &Backend,
    access: &ProjectAccess,
    kind: Kind,
    key: &str,
    said: &Said,
) -> Result<Template> {
    let kept = kept(backend, access, kind).await?;
    let Some(file) = kept.into_iter().find(|file| file.key == key) else {
        return built_in(&access.caller, kind, key, said);
    };
    let blob = file.repository.blob(file.blob, LONGEST).await?;
    let content = String::from_utf8_lossy(&blob.data).into_owned();
    let name = file.key;
    Ok(match kind {
        Kind::Licenses => Template::License(LicenseTemplate {
            key: name.clone(),
            name,
            content: filled(&content, &access.caller, said),
            ..LicenseTemplate::default()
        }),
        _ => Template::File { name, content },
    })
}

/// Lists the built-in file templates.
#[must_use]
pub fn list_built_in(kind: Kind, page: &PageRequest) -> Page<Entry> {
    Page::from_all(page, entries(kind).collect())
}

/// Lists the built-in license templates.
#[must_use]
pub fn list_licenses(popular: bool, page: &PageRequest) -> Page<LicenseTemplate> {
    let wanted = licenses::all()
        .iter()
        .filter(|license| license.popular || !popular);
    Page::from_all(page, wanted.collect()).map(LicenseTemplate::clone)
}

/// Returns a built-in template. Keys of licenses ignore case.
///
/// # Errors
/// Returns `NotFound` if no template has the key.
pub fn built_in(caller: &Caller, kind: Kind, key: &str, said: &Said) -> Result<Template> {
    let found = match kind {
        Kind::Licenses => {
            let mut all = licenses::all().iter();
            let license = all.find(|license| license.key.eq_ignore_ascii_case(key));
            license.map(|license| {
                Template::License(LicenseTemplate {
                    content: filled(&license.content, caller, said),
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
    found.ok_or_else(|| Error::not_found("Template"))
}

/// Returns the built-in templates.
fn entries(kind: Kind) -> impl Iterator<Item = Entry> {
    let files = kind.files().iter().map(|file| Entry {
        key: file.key.to_owned(),
        name: file.key.to_owned(),
    });
    let licenses = match kind {
        Kind::Licenses => licenses::all(),
        _ => &[],
    };
    files.chain(licenses.iter().map(|license| Entry {
        key: license.key.clone(),
        name: license.name.clone(),
    }))
}

fn not_blank(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.trim().is_empty())
}

/// Fills in the placeholders of a license with the current year and the caller's name.
fn filled(text: &str, caller: &Caller, said: &Said) -> String {
    let own = caller.as_user().map(|user| user.name.as_str());
    let meant = LicenseTerms {
        year: now().year(),
        project: not_blank(said.project.as_deref()),
        full_name: not_blank(said.full_name.as_deref()).or(own),
    };
    licenses::fill_in(text, meant)
}

/// Returns the templates of a project from repositories that the caller can read, in descending precedence.
async fn kept(backend: &Backend, access: &ProjectAccess, kind: Kind) -> Result<Vec<Kept>> {
    let mut found = Vec::new();
    if let Some(place) = kind.of_project().filter(|_| access.can_read_code()) {
        found.extend(files_in(backend, &access.project, place).await?);
    }
    if let Some(place) = kind.of_group() {
        for project in projects_of_groups(backend, access).await? {
            found.extend(files_in(backend, &project, place).await?);
        }
    }
    Ok(found)
}

/// Returns the files in the folders of a project's default branch, by name. Links and files that are too
/// large are skipped.
async fn files_in(
    backend: &Backend,
    project: &projects::Model,
    (folders, ending): Place,
) -> Result<Vec<Kept>> {
    let id = RepositoryId::of_project(project.id);
    let repository = backend.repositories.repository(&id);
    let Some(commit) = repository_access::tip(&repository, project).await? else {
        return Ok(Vec::new());
    };
    let window = PageWindow {
        offset: 0,
        limit: MOST,
    };
    let (mut keys, mut blobs) = (Vec::new(), Vec::new());
    for folder in folders {
        let entries = repository.tree(commit, folder, false, window).await?.entries;
        for entry in entries {
            let key = entry.name().strip_suffix(ending).unwrap_or_default();
            if !key.is_empty() && entry.kind == EntryKind::Blob && entry.mode != LINK {
                keys.push(key.to_owned());
                blobs.push(entry.id);
            }
        }
    }
    let sizes = repository.blob_sizes(blobs.clone()).await?;
    let files = keys.into_iter().zip(blobs).zip(sizes);
    let short = files.filter(|(_, size)| *size <= LONGEST);
    let kept = short.map(|((key, blob), _)| Kept {
        key,
        repository: repository.clone(),
        blob,
    });
    Ok(kept.collect())
}

/// Returns the template projects of the groups of a project, from the nearest group up. Skips projects that
/// the plan does not cover, the caller cannot read or have left their group.
async fn projects_of_groups(backend: &Backend, access: &ProjectAccess) -> Result<Vec<projects::Model>> {
    use namespace_ancestors::Column as Ancestor;

    if backend.instance.plan < InstancePlan::Premium {
        return Ok(Vec::new());
    }
    let db = backend.database.read();
    let above = namespace_ancestors::Entity::find()
        .find_also_related(namespaces::Entity)
        .filter(Ancestor::NamespaceId.eq(access.namespace.id))
        .filter(namespaces::Column::FileTemplateProjectId.is_not_null())
        .order_by_asc(Ancestor::Depth)
        .all(db)
        .await?;
    let named: Vec<(i64, i64)> = above
        .into_iter()
        .filter_map(|(_, group)| group)
        .filter_map(|group| Some((group.id, group.file_template_project_id?)))
        .collect();
    if named.is_empty() {
        return Ok(Vec::new());
    }
    let (viewer, today) = (access.caller.viewer(), now().date_naive());
    let readable = projects::not_deleted()
        .filter(projects::Column::Id.is_in(named.iter().map(|(_, project)| *project)))
        .filter(visible_projects(viewer, today))
        .filter(code_readable_projects(viewer, today))
        .all(db)
        .await?;
    let places = namespace_ancestors::Entity::find()
        .filter(Ancestor::NamespaceId.is_in(readable.iter().map(|project| project.namespace_id)))
        .filter(Ancestor::AncestorId.is_in(named.iter().map(|(group, _)| *group)))
        .all(db)
        .await?;
    let found = named.into_iter().filter_map(|(group, project)| {
        let project = readable.iter().find(|readable| readable.id == project)?;
        let below = places
            .iter()
            .any(|place| place.ancestor_id == group && place.namespace_id == project.namespace_id);
        below.then(|| project.clone())
    });
    Ok(found.collect())
}
