//! Creates projects: first the rows, then the repository.

use super::auditing;
use crate::audit::{self, Actor};
use git::{BranchStart, CommitRequest, FileAction, RepositoryId, Signature};
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseTransaction, DbErr,
    EntityTrait, IntoActiveModel, PaginatorTrait, QueryFilter,
};
use storage::database::Violation;
use storage::entities::access::group_level;
use storage::entities::namespaces::{self, NamespaceKind, ProjectCreation};
use storage::entities::{
    AccessLevel, Visibility, approval_rules, fold, members, now, projects, push_rules, ref_updates, users,
};
use storage::jobs;

use super::ProjectSettings;
use super::creation_jobs::CreationJobs;
use super::row::runners_token_context;
use super::settings::replace_topics;
use super::{expiration_policy, imports};
use crate::activity::events::{self, EventAction, NewEvent, project_target};
use crate::code::ref_updates::{UpdateAuthority, update_refs};
use crate::code::repository_access::ensure_repository;
use crate::identity::access::{ProjectAccess, UserAccess};
use crate::instance::settings;
use crate::kernel::caller::Caller;
use crate::kernel::error::{Error, Result};
use crate::kernel::ref_changes::{RefChange, RefUpdate};
use crate::kernel::settings::InstanceSettings;
use crate::kernel::{Backend, names};
use crate::secrets::{Secret, Token};
use crate::spaces::jobs::delete_project::DeleteProject;

/// Attributes of a new project.
#[derive(Debug, Clone, Default)]
pub struct NewProject {
    /// The name; the path by default.
    pub name: Option<String>,
    /// The last part of the path; derived from the name by default.
    pub path: Option<String>,
    /// The namespace; the caller's own by default.
    pub namespace_id: Option<i64>,
    /// The visibility; by default that of the instance settings.
    pub visibility: Option<Visibility>,
    /// The branch that HEAD names; by default that of the nearest group with one, or of the instance settings.
    pub default_branch: Option<String>,
    /// Whether to create an initial commit.
    pub with_readme: bool,
    /// The URL of the repository to import, with its credentials; none by default, and if it is blank.
    pub import_url: Option<Secret<String>>,
    /// All other settings.
    pub settings: ProjectSettings,
}

/// Creates a project with its repository on behalf of the caller.
///
/// # Errors
/// Returns a validation error for invalid names, paths, namespaces and values. Returns `Forbidden` beyond the
/// caller's project limit.
pub async fn create(backend: &Backend, caller: &Caller, new: NewProject) -> Result<ProjectAccess> {
    create_as(backend, caller, caller, new).await
}

/// Creates a project with its repository for a user, who becomes the creator. The namespace must be one in which the
/// user can create projects; the caller is an administrator, and may set each visibility.
///
/// # Errors
/// Returns the errors of [`create`], with the project limit of the user.
pub async fn create_for_user(
    backend: &Backend,
    access: &UserAccess,
    new: NewProject,
) -> Result<ProjectAccess> {
    let creator = Caller::user(access.user.clone());
    create_as(backend, &access.caller, &creator, new).await
}

/// Creates a project for a creator at the request of a caller.
///
/// The row is inserted first. The same transaction enqueues a job that creates the repository in case the
/// server is killed. If the repository cannot be created, the row is deleted.
async fn create_as(
    backend: &Backend,
    caller: &Caller,
    creator: &Caller,
    new: NewProject,
) -> Result<ProjectAccess> {
    let user = creator.signed_in()?.clone();
    let (name, path) = names(new.name, new.path)?;
    if let Some(branch) = &new.default_branch {
        git::check_branch_name(branch)
            .map_err(|_| Error::attribute("default_branch", "is not a valid branch name"))?;
    }
    let topics = new.settings.topics()?.unwrap_or_default();
    let expiration = new.settings.container_expiration_policy.clone();
    if let Some(expiration) = &expiration {
        expiration.check().await?;
    }
    let import_url = imports::checked_url(backend, new.import_url, new.with_readme).await?;
    let in_force = settings::get(backend).await?;
    let visibility = new.visibility.unwrap_or(in_force.default_project_visibility);
    let visibility_given = new.visibility.is_some();
    let mut row = new_row(name, path, visibility, Some(user.id));
    new.settings.apply(backend, caller, &mut row)?;
    let namespace_id = match new.namespace_id {
        Some(id) => id,
        None => personal_namespace(backend, user.id).await?,
    };
    let (project, namespace, scheduled) = backend
        .database
        .transaction(async |transaction| {
            let namespace = namespace(transaction, creator, &user, namespace_id).await?;
            row.namespace_id = Set(namespace.id);
            if !visibility_given && namespace.kind == NamespaceKind::Group {
                row.visibility = Set(visibility.min(namespace.visibility));
            }
            in_force.check_visibility(caller, *row.visibility.as_ref())?;
            let project = insert(backend, transaction, &namespace, row).await?;
            replace_topics(transaction, project.id, topics).await?;
            if project.approvals_before_merge > 0 {
                let required = project.approvals_before_merge;
                approval_rules::require_any(transaction, project.id, required).await?;
            }
            let maintainer = add_maintainer(transaction, &namespace, &project, &user).await?;
            let audited = auditing::created(&namespace, &project, maintainer.as_ref());
            audit::record_all(transaction, caller, audited).await?;
            if let Some(expiration) = &expiration {
                expiration_policy::change(transaction, caller, (&namespace, &project), expiration).await?;
            }
            let event = NewEvent {
                target: Some(project_target(&project)),
                ..NewEvent::new(project.id, user.id, EventAction::Created)
            };
            events::record(transaction, event).await?;
            let default_branch = match new.default_branch {
                Some(branch) => branch,
                None => default_branch(transaction, &namespace, &in_force).await?,
            };
            if let Some(url) = &import_url {
                imports::store(backend, transaction, project.id, url).await?;
            }
            let jobs =
                CreationJobs::schedule(transaction, project.id, default_branch, import_url.is_some()).await?;
            Ok::<_, Error>((project, namespace, jobs))
        })
        .await?;
    let branch = &scheduled.repair.default_branch;
    if let Err(error) = create_repository(backend, &project, &user, branch, new.with_readme).await {
        delete_incomplete(backend, &scheduled).await?;
        return Err(error);
    }
    scheduled.continue_now(backend).await?;
    ProjectAccess::find(backend, caller.clone(), &project.id.to_string())
        .await
        .map(|access| ProjectAccess { namespace, ..access })
}

/// Returns the default branch of a new project: that of the nearest group that names one, or of the instance.
async fn default_branch(
    db: &impl ConnectionTrait,
    namespace: &namespaces::Model,
    settings: &InstanceSettings,
) -> Result<String> {
    let of_group = match (&namespace.default_branch, namespace.parent_id) {
        (None, Some(parent_id)) => namespaces::default_branch(db, parent_id).await?,
        (own, _) => own.clone(),
    };
    Ok(of_group.unwrap_or_else(|| settings.default_branch_name.clone()))
}

/// Inserts only the row of a project whose name equals its path, which must pass [`naming`]. Its visibility
/// does not exceed that of the namespace.
///
/// # Errors
/// Returns a validation error for a path that is taken, and `NotFound` for a deleted namespace.
pub async fn insert_bare(
    backend: &Backend,
    namespace_id: i64,
    path: &str,
    visibility: Visibility,
    creator_id: i64,
) -> Result<projects::Model> {
    backend
        .database
        .transaction(async |transaction| {
            let namespace = namespaces::lock(transaction, namespace_id)
                .await?
                .ok_or_else(|| Error::not_found("Namespace"))?;
            let visibility = visibility.min(namespace.visibility);
            let row = projects::ActiveModel {
                namespace_id: Set(namespace.id),
                ..new_row(path.to_owned(), path.to_owned(), visibility, Some(creator_id))
            };
            let project = insert(backend, transaction, &namespace, row).await?;
            let event = NewEvent {
                target: Some(project_target(&project)),
                ..NewEvent::new(project.id, creator_id, EventAction::Created)
            };
            events::record(transaction, event).await?;
            let audited = auditing::created(&namespace, &project, None);
            audit::record_all(transaction, Actor::command_line(), audited).await?;
            Ok(project)
        })
        .await
}

pub(super) fn new_row(
    name: String,
    path: String,
    visibility: Visibility,
    creator_id: Option<i64>,
) -> projects::ActiveModel {
    let at = now();
    projects::ActiveModel {
        creator_id: Set(creator_id),
        name_key: Set(fold(&name)),
        path_key: Set(fold(&path)),
        name: Set(name),
        path: Set(path),
        visibility: Set(visibility),
        last_activity_at: Set(at),
        created_at: Set(at),
        updated_at: Set(at),
        ..Default::default()
    }
}

/// Returns the name and path, each derived from the other if absent.
fn names(name: Option<String>, path: Option<String>) -> Result<(String, String)> {
    let (name, path) = match (name, path) {
        (Some(name), Some(path)) => (name, path),
        (Some(name), None) => {
            let path = names::slug(&name);
            (name, path)
        }
        (None, Some(path)) => (path.clone(), path),
        (None, None) => return Err(Error::no_parameters(&["name", "path"])),
    };
    check_names(Some(&name), Some(&path))?;
    Ok((name, path))
}

/// Validates a name and a path, and reports all faults.
pub(super) fn check_names(name: Option<&str>, path: Option<&str>) -> Result<()> {
    let errors = [
        ("name", name.and_then(names::project_name_fault)),
        ("path", path.and_then(|path| names::path_fault(path, false))),
    ];
    check_errors(errors)
}

/// Combines all faults into one error.
pub(super) fn check_errors<const N: usize>(errors: [(&'static str, Option<&'static str>); N]) -> Result<()> {
    let errors: std::collections::BTreeMap<_, _> = errors
        .into_iter()
        .filter_map(|(field, fault)| Some((field.into(), vec![fault?.into()])))
        .collect();
    if errors.is_empty() {
        Ok(())
    } else {
        Err(Error::InvalidAttributes(errors))
    }
}

pub(super) async fn personal_namespace(backend: &Backend, user_id: i64) -> Result<i64> {
    let namespace = namespaces::of_user(backend.database.read(), user_id).await?;
    namespace
        .map(|namespace| namespace.id)
        .ok_or_else(namespace_not_found)
}

fn namespace_not_found() -> Error {
    Error::attribute("namespace", "is not valid")
}

/// Returns the ID of a target namespace, given by ID or full path.
///
/// # Errors
/// Returns `NotFound` if the namespace does not exist.
pub(crate) async fn target_id(backend: &Backend, reference: &str) -> Result<i64> {
    let found = namespaces::by_reference(backend.database.read(), reference).await?;
    found.map(|namespace| namespace.id).ok_or_else(target_not_found)
}

/// As [`namespace`], for a project that comes from elsewhere: a forbidden namespace is reported as missing.
///
/// # Errors
/// Returns `NotFound` for a namespace in which the caller cannot create projects, and `Forbidden` beyond
/// their project limit.
pub(crate) async fn target_namespace(
    transaction: &DatabaseTransaction,
    caller: &Caller,
    user: &users::Model,
    id: i64,
) -> Result<namespaces::Model> {
    namespace(transaction, caller, user, id)
        .await
        .map_err(|error| match error {
            Error::InvalidAttributes(_) => target_not_found(),
            other => other,
        })
}

fn target_not_found() -> Error {
    Error::not_found("Target Namespace")
}

/// Returns the namespace, locked, if the caller can create projects in it. A namespace that is not visible
/// returns the same error.
async fn namespace(
    transaction: &DatabaseTransaction,
    caller: &Caller,
    user: &users::Model,
    id: i64,
) -> Result<namespaces::Model> {
    let namespace = namespaces::lock(transaction, id)
        .await?
        .filter(|namespace| namespace.deletion_started_at.is_none())
        .ok_or_else(namespace_not_found)?;
    let may = match namespace.kind {
        NamespaceKind::User => namespace.owner_id == Some(user.id) || user.admin,
        NamespaceKind::Group => {
            let role = group_level(transaction, user.id, id, now().date_naive()).await?;
            let effective_access = caller.effective_access(role);
            match namespace.project_creation_level {
                ProjectCreation::Noone => false,
                ProjectCreation::Maintainer => effective_access.has_role(AccessLevel::Maintainer),
                ProjectCreation::Developer => effective_access.has_role(AccessLevel::Developer),
            }
        }
    };
    if !may {
        return Err(namespace_not_found());
    }
    if namespace.owner_id == Some(user.id) {
        check_project_limit(transaction, &namespace, user).await?;
    }
    Ok(namespace)
}

async fn check_project_limit(
    db: &impl ConnectionTrait,
    namespace: &namespaces::Model,
    user: &users::Model,
) -> Result<()> {
    let limit = u64::try_from(user.projects_limit).unwrap_or(0);
    let count = projects::not_deleted()
        .filter(projects::Column::NamespaceId.eq(namespace.id))
        .count(db)
        .await?;
    if count < limit {
        return Ok(());
    }
    let text =
        format!("Your project limit is {limit} projects! Please contact your administrator to increase it");
    Err(Error::forbidden_because(text).because_of("projects_limit"))
}

/// Refuses a visibility that exceeds that of the group.
pub(super) fn check_visibility(namespace: &namespaces::Model, visibility: Visibility) -> Result<()> {
    if namespace.kind == NamespaceKind::User || visibility <= namespace.visibility {
        return Ok(());
    }
    let word = |visibility: Visibility| visibility.as_str();
    let text = format!(
        "{} is not allowed in a {} group.",
        word(visibility),
        word(namespace.visibility)
    );
    Err(Error::attribute("visibility_level", text))
}

/// Refuses a name or path that is already used in the namespace, which is locked.
pub(crate) async fn check_available(
    db: &impl ConnectionTrait,
    namespace: &namespaces::Model,
    name: Option<&str>,
    path: Option<&str>,
) -> Result<()> {
    const TAKEN: &str = "has already been taken";
    let name_taken = match name {
        Some(name) => {
            projects::Entity::find()
                .filter(projects::Column::NamespaceId.eq(namespace.id))
                .filter(projects::Column::NameKey.eq(fold(name)))
                .count(db)
                .await?
                > 0
        }
        None => false,
    };
    let path_taken = match path {
        Some(path) => namespaces::is_path_taken(db, &format!("{}/{path}", namespace.full_path)).await?,
        None => false,
    };
    check_errors([
        ("name", name_taken.then_some(TAKEN)),
        ("path", path_taken.then_some(TAKEN)),
    ])
}

pub(super) async fn insert(
    backend: &Backend,
    transaction: &DatabaseTransaction,
    namespace: &namespaces::Model,
    row: projects::ActiveModel,
) -> Result<projects::Model> {
    check_visibility(namespace, *row.visibility.as_ref())?;
    check_available(
        transaction,
        namespace,
        Some(row.name.as_ref()),
        Some(row.path.as_ref()),
    )
    .await?;
    let project = row.insert(transaction).await.map_err(map_unique_violation)?;
    let token = Token::generate("");
    let encryptor = backend.keyring.encryptor(transaction).await?;
    let encrypted = encryptor.encrypt(token.expose(), &runners_token_context(project.id))?;
    let mut row = project.into_active_model();
    row.runners_token_encrypted = Set(Some(encrypted));
    let project = row.update(transaction).await?;
    if namespace.kind == NamespaceKind::Group {
        push_rules::copy_to_project(transaction, namespace.id, project.id, project.created_at).await?;
    }
    Ok(project)
}

/// Maps a unique violation to its attribute.
pub(crate) fn map_unique_violation(error: DbErr) -> Error {
    match Violation::of(&error) {
        Some(Violation::Unique(name)) if name.ends_with("path_key") => {
            Error::attribute("path", "has already been taken")
        }
        Some(Violation::Unique(_)) => Error::attribute("name", "has already been taken"),
        _ => error.into(),
    }
}

/// Adds the creator, or the owner of the personal namespace, as a Maintainer. A user with a role at least as high in
/// the group is skipped, because a membership cannot be lower than the inherited one. Returns the new Maintainer.
pub(super) async fn add_maintainer(
    transaction: &DatabaseTransaction,
    namespace: &namespaces::Model,
    project: &projects::Model,
    user: &users::Model,
) -> Result<Option<users::Model>> {
    let user_id = namespace.owner_id.unwrap_or(user.id);
    let inherited = match namespace.kind {
        NamespaceKind::User => None,
        NamespaceKind::Group => group_level(transaction, user_id, namespace.id, now().date_naive()).await?,
    };
    if inherited >= Some(AccessLevel::Maintainer) {
        return Ok(None);
    }
    let maintainer = match user_id == user.id {
        true => Some(user.clone()),
        false => users::Entity::find_by_id(user_id).one(transaction).await?,
    };
    let at = now();
    let row = members::ActiveModel {
        user_id: Set(user_id),
        project_id: Set(Some(project.id)),
        access_level: Set(AccessLevel::Maintainer),
        created_by_id: Set(Some(user.id)),
        created_at: Set(at),
        updated_at: Set(at),
        ..Default::default()
    };
    row.insert(transaction).await?;
    Ok(maintainer)
}

/// Creates the repository, with the initial commit if requested.
async fn create_repository(
    backend: &Backend,
    project: &projects::Model,
    user: &users::Model,
    branch: &str,
    with_readme: bool,
) -> Result<()> {
    ensure_repository(backend, project.id, branch).await?;
    if !with_readme {
        return Ok(());
    }
    let update = RefUpdate::new(project.id, Some(user.id), ref_updates::RefUpdateKind::Api);
    let author = Signature::new(user.name.clone(), user.email.clone(), now());
    let request = CommitRequest {
        branch: branch.to_owned(),
        start: BranchStart::Head,
        force: false,
        allow_empty: false,
        message: "Initial commit".to_owned(),
        committer: author.clone(),
        author,
        actions: vec![FileAction::Create {
            path: "README.md".to_owned(),
            content: readme(project).into(),
        }],
    };
    let repository = backend
        .repositories
        .repository(&RepositoryId::of_project(project.id));
    let planned = vec![format!("refs/heads/{branch}")];
    let branch = branch.to_owned();
    update_refs(backend, update, UpdateAuthority::Server(planned), async move {
        let result = repository.commit_actions(request).await?;
        Ok((
            (),
            vec![RefChange::branch(&branch, result.old, Some(result.commit))],
        ))
    })
    .await
}

fn readme(project: &projects::Model) -> String {
    match project.description.as_deref().filter(|text| !text.is_empty()) {
        Some(description) => format!("# {}\n\n{description}\n", project.name),
        None => format!("# {}\n", project.name),
    }
}

/// Deletes a project whose repository could not be created or filled. A job deletes the files if the server is killed.
async fn delete_incomplete(backend: &Backend, scheduled: &CreationJobs) -> Result<()> {
    let project_id = scheduled.repair.project_id;
    backend
        .database
        .transaction(async |transaction| {
            projects::Entity::delete_by_id(project_id)
                .exec(transaction)
                .await?;
            scheduled.cancel(transaction).await?;
            let job = DeleteProject {
                project_id,
                marked_on: None,
                user_id: None,
            };
            jobs::enqueue(transaction, &job).await.map_err(Error::internal)
        })
        .await?;
    backend
        .repositories
        .remove(&RepositoryId::of_project(project_id))
        .await?;
    Ok(())
}
