//! Branches of a project's repository, and which of them are protected.

use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, EntityTrait, IntoActiveModel, QueryFilter, QuerySelect,
};
use storage::entities::{AccessLevel, now, projects, protected_branches};
use storage::jobs;

use crate::error::{Error, Result};
use crate::jobs::delete_merged_branches::DeleteMergedBranches;
use crate::services::Backend;
use crate::services::access::ProjectAccess;
use crate::services::commits::{self, committing};
use crate::services::kernel::page::{Page, PageRequest};
use crate::services::preconditions;
use crate::services::push_rules::{self, PushRules};
use crate::services::references::{Moved, moving};
use crate::services::repositories;

/// A branch with what its project says of it.
#[derive(Debug, Clone)]
pub struct BranchDetails {
    /// The name.
    pub name: String,
    /// The commit at its head.
    pub commit: git::Commit,
    /// Another branch than the default one, whose commits that one has all.
    pub merged: bool,
    /// A protection covers it.
    pub protected: bool,
    /// It is protected, and Developers may push to it nevertheless.
    pub developers_can_push: bool,
    /// It is protected, and Developers may merge into it nevertheless.
    pub developers_can_merge: bool,
    /// The caller may push to it.
    pub can_push: bool,
    /// It is the default branch.
    pub default: bool,
}

/// How far Developers may use a protected branch; what is absent stays as it is.
#[derive(Debug, Clone, Copy, Default)]
pub struct Protection {
    /// Whether they may push.
    pub developers_can_push: Option<bool>,
    /// Whether they may merge.
    pub developers_can_merge: Option<bool>,
}

/// The branches by name, those that `search` finds (see [`git::Repository::branches`]).
///
/// # Errors
/// 404 when the repository is switched off.
pub async fn list(
    backend: &Backend,
    access: &ProjectAccess,
    search: Option<&str>,
    page: &PageRequest,
) -> Result<Page<BranchDetails>> {
    let repository = commits::repository(backend, access)?;
    let found = repository.branches(search, repositories::window(page)).await?;
    let found = Page::new(page, found.branches, found.total as u64);
    Ok(Page {
        items: details(backend, access, &repository, found.items).await?,
        rest: found.rest,
    })
}

/// One branch.
///
/// # Errors
/// 404 when it is not there, 400 for a name that none can bear.
pub async fn get(backend: &Backend, access: &ProjectAccess, name: &str) -> Result<BranchDetails> {
    let repository = commits::repository(backend, access)?;
    let branch = repository.branch(name).await.map_err(unfit_name)?;
    one(backend, access, &repository, branch).await
}

/// Succeeds when there is a branch of this name.
///
/// # Errors
/// 404 when it is not there, 400 for a name that none can bear.
pub async fn exists(backend: &Backend, access: &ProjectAccess, name: &str) -> Result<()> {
    let repository = commits::repository(backend, access)?;
    repository.branch(name).await.map_err(unfit_name)?;
    Ok(())
}

/// Makes a branch at the commit that a revision names.
///
/// # Errors
/// 400 for a name that is taken or none can bear and for a revision that names nothing, 403 when a protection
/// keeps the caller from pushing to that name.
pub async fn create(
    backend: &Backend,
    access: &ProjectAccess,
    name: String,
    revision: String,
) -> Result<BranchDetails> {
    let repository = commits::repository(backend, access)?;
    git::check_branch_name(&name).map_err(|_| Error::Refused("Branch name is invalid".into()))?;
    if !push_rules::rules(backend, access).await?.may_push(&name) {
        return Err(Error::forbidden_because(committing::NOT_ALLOWED));
    }
    let planned = vec![format!("refs/heads/{name}")];
    let writer = repository.clone();
    let branch = moving(backend, committing::mover(access), planned, async move {
        let made = writer.create_branch(&name, &revision).await;
        let branch = made.map_err(|error| match error {
            git::Error::ReferenceExists => Error::Refused("Branch already exists".into()),
            git::Error::RevisionNotFound => {
                Error::Refused(format!("Invalid reference name: {revision}").into())
            }
            other => repositories::write_failure(other),
        })?;
        let moved = Moved::branch(&branch.name, None, Some(branch.commit));
        Ok((branch, vec![moved]))
    })
    .await?;
    if access.project.default_branch.is_some() {
        return one(backend, access, &repository, branch).await;
    }
    // The first branch of a repository becomes its default branch.
    let project = projects::Entity::find_by_id(access.project.id)
        .one(backend.database.read())
        .await?
        .ok_or_else(|| Error::not_found("Project"))?;
    let access = ProjectAccess {
        project,
        ..access.clone()
    };
    one(backend, &access, &repository, branch).await
}

/// Deletes a branch that is neither the default nor a protected one.
///
/// # Errors
/// 404 when it is not there, 412 when its head was made after `unmodified_since`, 400 when it may not be
/// deleted, 409 when somebody else moves it meanwhile.
pub async fn delete(
    backend: &Backend,
    access: &ProjectAccess,
    name: &str,
    unmodified_since: Option<&str>,
) -> Result<()> {
    let repository = commits::repository(backend, access)?;
    let branch = repository.branch(name).await.map_err(unfit_name)?;
    let commit = repository.commit(branch.commit).await?;
    preconditions::unmodified_since(unmodified_since, commit.author.time.to_utc())?;
    if access.project.default_branch.as_deref() == Some(name) {
        return Err(Error::Refused("The default branch cannot be deleted".into()));
    }
    if !push_rules::rules(backend, access).await?.may_delete(name) {
        return Err(Error::Refused("A protected branch cannot be deleted".into()));
    }
    let planned = vec![format!("refs/heads/{name}")];
    moving(backend, committing::mover(access), planned, async move {
        let old = repository
            .delete_branch(&branch.name, Some(branch.commit))
            .await
            .map_err(repositories::write_failure)?;
        Ok(((), vec![Moved::branch(&branch.name, Some(old), None)]))
    })
    .await
}

/// Has all branches that are merged into the default one deleted in the background, except that one and those
/// that are protected.
///
/// # Errors
/// 404 when the repository is switched off.
pub async fn delete_merged(backend: &Backend, access: &ProjectAccess) -> Result<()> {
    commits::repository(backend, access)?;
    let job = DeleteMergedBranches {
        project_id: access.project.id,
        user_id: access.caller.as_user().map(|user| user.id),
    };
    backend
        .database
        .transaction(async |transaction| jobs::enqueue(transaction, &job).await.map_err(Error::internal))
        .await
}

/// Protects a branch: Maintainers may push and merge, Developers as far as `protection` says.
///
/// # Errors
/// 404 when it is not there, 400 for a name that none can bear.
pub async fn protect(
    backend: &Backend,
    access: &ProjectAccess,
    name: &str,
    protection: Protection,
) -> Result<BranchDetails> {
    let repository = commits::repository(backend, access)?;
    let branch = repository.branch(name).await.map_err(unfit_name)?;
    backend
        .database
        .transaction(async |transaction| {
            // Locking the project keeps two callers from making the row twice.
            projects::Entity::find_by_id(access.project.id)
                .lock_exclusive()
                .one(transaction)
                .await?;
            let known = protected_branches::of_project(transaction, access.project.id).await?;
            match known.into_iter().find(|row| row.name == name) {
                Some(row) => change(row, protection).update(transaction).await,
                None => {
                    new_row(access.project.id, name, protection)
                        .insert(transaction)
                        .await
                }
            }
        })
        .await?;
    one(backend, access, &repository, branch).await
}

/// Takes the protection of exactly this name away. One by a pattern that covers it stays.
///
/// # Errors
/// 404 when the branch is not there, 400 for a name that none can bear.
pub async fn unprotect(backend: &Backend, access: &ProjectAccess, name: &str) -> Result<BranchDetails> {
    let repository = commits::repository(backend, access)?;
    let branch = repository.branch(name).await.map_err(unfit_name)?;
    protected_branches::Entity::delete_many()
        .filter(protected_branches::Column::ProjectId.eq(access.project.id))
        .filter(protected_branches::Column::Name.eq(name))
        .exec(backend.database.write())
        .await?;
    one(backend, access, &repository, branch).await
}

fn level(developers: bool) -> i32 {
    let role = if developers {
        AccessLevel::Developer
    } else {
        AccessLevel::Maintainer
    };
    role.into()
}

fn new_row(project_id: i64, name: &str, protection: Protection) -> protected_branches::ActiveModel {
    let at = now();
    protected_branches::ActiveModel {
        project_id: Set(project_id),
        name: Set(name.to_owned()),
        push_access_level: Set(level(protection.developers_can_push.unwrap_or(false))),
        merge_access_level: Set(level(protection.developers_can_merge.unwrap_or(false))),
        created_at: Set(at),
        updated_at: Set(at),
        ..Default::default()
    }
}

fn change(row: protected_branches::Model, protection: Protection) -> protected_branches::ActiveModel {
    let mut row = row.into_active_model();
    if let Some(push) = protection.developers_can_push {
        row.push_access_level = Set(level(push));
    }
    if let Some(merge) = protection.developers_can_merge {
        row.merge_access_level = Set(level(merge));
    }
    row.updated_at = Set(now());
    row
}

/// A name that no branch can bear is the caller's fault (facts, section 3).
fn unfit_name(error: git::Error) -> Error {
    match error {
        git::Error::InvalidReferenceName => Error::Refused("The branch refname is invalid".into()),
        other => other.into(),
    }
}

async fn one(
    backend: &Backend,
    access: &ProjectAccess,
    repository: &git::Repository,
    branch: git::Branch,
) -> Result<BranchDetails> {
    let details = details(backend, access, repository, vec![branch]).await?;
    details
        .into_iter()
        .next()
        .ok_or_else(|| Error::not_found("Branch"))
}

/// What is known of branches: one statement and one walk for all of them.
async fn details(
    backend: &Backend,
    access: &ProjectAccess,
    repository: &git::Repository,
    branches: Vec<git::Branch>,
) -> Result<Vec<BranchDetails>> {
    let protected = protected_branches::of_project(backend.database.read(), access.project.id).await?;
    let rules = PushRules::new(access, protected);
    let default = access.project.default_branch.as_deref();
    let tips: Vec<git::Oid> = branches.iter().map(|branch| branch.commit).collect();
    let merged = match default {
        Some(name) => match repository.branch(name).await {
            Ok(base) => repository.merged_into(base.commit, tips.clone()).await?,
            Err(git::Error::BranchNotFound) => Default::default(),
            Err(error) => return Err(error.into()),
        },
        None => Default::default(),
    };
    let commits = repository.commits(tips).await?;
    let details = branches.into_iter().zip(commits).map(|(branch, commit)| {
        let is_default = default == Some(branch.name.as_str());
        let developers = |level: fn(&protected_branches::Model) -> i32| {
            let mut covering = rules
                .protected()
                .iter()
                .filter(|row| push_rules::fits(&row.name, &branch.name));
            covering.any(|row| level(row) == i32::from(AccessLevel::Developer))
        };
        BranchDetails {
            merged: !is_default && merged.contains(&branch.commit),
            protected: rules.is_protected(&branch.name),
            developers_can_push: developers(|row| row.push_access_level),
            developers_can_merge: developers(|row| row.merge_access_level),
            can_push: rules.may_push(&branch.name),
            default: is_default,
            name: branch.name,
            commit,
        }
    });
    Ok(details.collect())
}
