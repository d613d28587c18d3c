//! Branches of a project's repository and their protection.

use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, EntityTrait, IntoActiveModel, QueryFilter, QuerySelect,
};
use storage::entities::{AccessLevel, now, projects, protected_branches};
use storage::jobs;

use crate::code::branch_protection::{self, PushRules};
use crate::code::commits::commit;
use crate::code::jobs::delete_merged_branches::DeleteMergedBranches;
use crate::code::ref_updates::moving;
use crate::code::repositories;
use crate::code::repository_access;
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::patterns::matches_pattern;
use crate::kernel::preconditions;
use crate::kernel::ref_changes::RefChange;

/// A branch with its attributes in the project.
#[derive(Debug, Clone)]
pub struct BranchDetails {
    /// Name of the branch.
    pub name: String,
    /// The commit at its head.
    pub commit: git::Commit,
    /// Whether it is not the default branch and all of its commits are in the default branch.
    pub merged: bool,
    /// Whether it is protected.
    pub protected: bool,
    /// Whether it is protected but Developers may push to it.
    pub developers_can_push: bool,
    /// Whether it is protected but Developers may merge into it.
    pub developers_can_merge: bool,
    /// Whether the caller may push to it.
    pub can_push: bool,
    /// Whether it is the default branch.
    pub default: bool,
}

/// Rights of Developers on a protected branch; absent ones stay.
#[derive(Debug, Clone, Copy, Default)]
pub struct Protection {
    /// Whether they may push.
    pub developers_can_push: Option<bool>,
    /// Whether they may merge.
    pub developers_can_merge: Option<bool>,
}

/// Returns a page of branches by name that match `search` (see [`git::Repository::branches`]).
///
/// # Errors
/// Returns `Error::NotFound` if the repository is disabled.
pub async fn list(
    backend: &Backend,
    access: &ProjectAccess,
    search: Option<&str>,
    page: &PageRequest,
) -> Result<Page<BranchDetails>> {
    let repository = repository_access::repository(backend, access)?;
    let found = repository.branches(search, repositories::window(page)).await?;
    let found = Page::new(page, found.branches, found.total as u64);
    Ok(Page {
        items: details(backend, access, &repository, found.items).await?,
        rest: found.rest,
    })
}

/// Returns one branch.
///
/// # Errors
/// Returns `Error::NotFound` if the branch does not exist. Returns `Error::Rejected` if the name is invalid.
pub async fn get(backend: &Backend, access: &ProjectAccess, name: &str) -> Result<BranchDetails> {
    let repository = repository_access::repository(backend, access)?;
    let branch = repository.branch(name).await.map_err(unfit_name)?;
    one(backend, access, &repository, branch).await
}

/// Checks that a branch exists.
///
/// # Errors
/// Returns `Error::NotFound` if the branch does not exist. Returns `Error::Rejected` if the name is invalid.
pub async fn exists(backend: &Backend, access: &ProjectAccess, name: &str) -> Result<()> {
    let repository = repository_access::repository(backend, access)?;
    repository.branch(name).await.map_err(unfit_name)?;
    Ok(())
}

/// Creates a branch at the commit of a revision.
///
/// # Errors
/// Returns `Error::Rejected` if the name is invalid or taken, or the revision does not exist. Returns
/// `Error::Forbidden` if a protection denies the caller to push to that name.
pub async fn create(
    backend: &Backend,
    access: &ProjectAccess,
    name: String,
    revision: String,
) -> Result<BranchDetails> {
    let repository = repository_access::repository(backend, access)?;
    git::check_branch_name(&name).map_err(|_| Error::Rejected("Branch name is invalid".into()))?;
    if !branch_protection::rules(backend, access).await?.may_push(&name) {
        return Err(Error::forbidden_because(commit::NOT_ALLOWED));
    }
    let planned = vec![format!("refs/heads/{name}")];
    let writer = repository.clone();
    let branch = moving(backend, commit::mover(access), planned, async move {
        let made = writer.create_branch(&name, &revision).await;
        let branch = made.map_err(|error| match error {
            git::Error::ReferenceExists => Error::Rejected("Branch already exists".into()),
            git::Error::RevisionNotFound => {
                Error::Rejected(format!("Invalid reference name: {revision}").into())
            }
            other => repositories::write_failure(other),
        })?;
        let moved = RefChange::branch(&branch.name, None, Some(branch.commit));
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

/// Deletes a branch that is neither the default branch nor protected.
///
/// # Errors
/// Returns `Error::NotFound` if the branch does not exist. Returns `Error::PreconditionFailed` if its head is
/// newer than `unmodified_since`. Returns `Error::Rejected` if it may not be deleted. Returns
/// `Error::Conflict` if it moves meanwhile.
pub async fn delete(
    backend: &Backend,
    access: &ProjectAccess,
    name: &str,
    unmodified_since: Option<&str>,
) -> Result<()> {
    let repository = repository_access::repository(backend, access)?;
    let branch = repository.branch(name).await.map_err(unfit_name)?;
    let commit = repository.commit(branch.commit).await?;
    preconditions::check_unmodified_since(unmodified_since, commit.author.time.to_utc())?;
    if access.project.default_branch.as_deref() == Some(name) {
        return Err(Error::Rejected("The default branch cannot be deleted".into()));
    }
    if !branch_protection::rules(backend, access).await?.may_delete(name) {
        return Err(Error::Rejected("A protected branch cannot be deleted".into()));
    }
    let planned = vec![format!("refs/heads/{name}")];
    moving(backend, commit::mover(access), planned, async move {
        let old = repository
            .delete_branch(&branch.name, Some(branch.commit))
            .await
            .map_err(repositories::write_failure)?;
        Ok(((), vec![RefChange::branch(&branch.name, Some(old), None)]))
    })
    .await
}

/// Enqueues the deletion of all branches that are merged into the default branch, except that one and
/// protected ones.
///
/// # Errors
/// Returns `Error::NotFound` if the repository is disabled.
pub async fn delete_merged(backend: &Backend, access: &ProjectAccess) -> Result<()> {
    repository_access::repository(backend, access)?;
    let job = DeleteMergedBranches {
        project_id: access.project.id,
        user_id: access.caller.as_user().map(|user| user.id),
    };
    backend
        .database
        .transaction(async |transaction| jobs::enqueue(transaction, &job).await.map_err(Error::internal))
        .await
}

/// Protects a branch. Maintainers may push and merge, Developers according to `protection`.
///
/// # Errors
/// Returns `Error::NotFound` if the branch does not exist. Returns `Error::Rejected` if the name is invalid.
pub async fn protect(
    backend: &Backend,
    access: &ProjectAccess,
    name: &str,
    protection: Protection,
) -> Result<BranchDetails> {
    let repository = repository_access::repository(backend, access)?;
    let branch = repository.branch(name).await.map_err(unfit_name)?;
    backend
        .database
        .transaction(async |transaction| {
            // The project lock prevents concurrent inserts of the same row.
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

/// Removes the protection of exactly this name. Patterns that match the name stay.
///
/// # Errors
/// Returns `Error::NotFound` if the branch does not exist. Returns `Error::Rejected` if the name is invalid.
pub async fn unprotect(backend: &Backend, access: &ProjectAccess, name: &str) -> Result<BranchDetails> {
    let repository = repository_access::repository(backend, access)?;
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

/// Maps an invalid branch name to an error of the caller.
fn unfit_name(error: git::Error) -> Error {
    match error {
        git::Error::InvalidReferenceName => Error::Rejected("The branch refname is invalid".into()),
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

/// Loads the details of branches with one statement and one walk for all of them.
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
                .filter(|row| matches_pattern(&row.name, &branch.name));
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
