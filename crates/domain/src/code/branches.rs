//! Branches of a project's repository and their protection.

use git::LockedRepository;
use sea_orm::EntityTrait;
use storage::entities::protected_ref_grants::RefAction;
use storage::entities::{AccessLevel, projects};
use storage::jobs;

use crate::code::branch_protection;
use crate::code::commits::commit;
use crate::code::jobs::delete_merged_branches::DeleteMergedBranches;
use crate::code::protected_refs::branches::{self as protected_branches, BranchOwner, RoleChange};
use crate::code::push_decision::{ProposalKind, ProposedUpdate};
use crate::code::ref_updates::{UpdateAuthority, prepare_and_update_refs};
use crate::code::repositories::{self, LockedRevision};
use crate::code::repository_access;
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::preconditions;
use crate::kernel::ref_changes::RefChange;

/// A branch with its attributes in the project.
#[derive(Debug, Clone)]
pub struct BranchDetail {
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
pub struct ProtectionUpdate {
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
) -> Result<Page<BranchDetail>> {
    let repository = repository_access::repository(backend, access)?;
    let list = repository
        .branches(search, repositories::page_window(page))
        .await?;
    let branches = Page::new(page, list.branches, list.total as u64);
    Ok(Page {
        items: load_details(backend, access, &repository, branches.items).await?,
        rest: branches.rest,
    })
}

/// Returns one branch.
///
/// # Errors
/// Returns `Error::NotFound` if the branch does not exist. Returns `Error::Rejected` if the name is invalid.
pub async fn get(backend: &Backend, access: &ProjectAccess, name: &str) -> Result<BranchDetail> {
    let repository = repository_access::repository(backend, access)?;
    let branch = repository.branch(name).await.map_err(branch_name_error)?;
    load_detail(backend, access, &repository, branch).await
}

/// Checks that a branch exists.
///
/// # Errors
/// Returns `Error::NotFound` if the branch does not exist. Returns `Error::Rejected` if the name is invalid.
pub async fn check_exists(backend: &Backend, access: &ProjectAccess, name: &str) -> Result<()> {
    let repository = repository_access::repository(backend, access)?;
    repository.branch(name).await.map_err(branch_name_error)?;
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
) -> Result<BranchDetail> {
    let repository = repository_access::repository(backend, access)?;
    git::check_branch_name(&name).map_err(|_| Error::Rejected("Branch name is invalid".into()))?;
    if !branch_protection::branch_rules(backend, access)
        .await?
        .can_push(&name)
    {
        return Err(commit::push_not_allowed());
    }
    let update = ProposedUpdate::branch(&name, ProposalKind::Create);
    let authority = UpdateAuthority::caller(access, update, commit::push_not_allowed);
    let lock = repositories::lock_revision(&repository, &revision);
    let publish = async move |LockedRevision { locked, .. }: LockedRevision| {
        let branch = locked.create_branch(&name, &revision).await;
        let branch = branch.map_err(|error| match error {
            git::Error::ReferenceExists => Error::Rejected("Branch already exists".into()),
            git::Error::RevisionNotFound => {
                Error::Rejected(format!("Invalid reference name: {revision}").into())
            }
            other => repositories::ref_update_error(other),
        })?;
        let change = RefChange::branch(&branch.name, None, Some(branch.commit));
        Ok((branch, vec![change]))
    };
    let update = commit::ref_update(access);
    let branch = prepare_and_update_refs(backend, update, authority, lock, publish).await?;
    if access.project.default_branch.is_some() {
        return load_detail(backend, access, &repository, branch).await;
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
    load_detail(backend, &access, &repository, branch).await
}

/// Deletes a branch that is neither the default branch nor protected.
///
/// # Errors
/// Returns `Error::NotFound` if the branch does not exist. Returns `Error::PreconditionFailed` if its head is
/// newer than `unmodified_since`. Returns `Error::Rejected` if it may not be deleted. Returns
/// `Error::Conflict` if it is updated concurrently.
pub async fn delete(
    backend: &Backend,
    access: &ProjectAccess,
    name: &str,
    unmodified_since: Option<&str>,
) -> Result<()> {
    let repository = repository_access::repository(backend, access)?;
    let branch = repository.branch(name).await.map_err(branch_name_error)?;
    let commit = repository.commit(branch.commit).await?;
    preconditions::check_unmodified_since(unmodified_since, commit.author.time.to_utc())?;
    if access.project.default_branch.as_deref() == Some(name) {
        return Err(Error::Rejected("The default branch cannot be deleted".into()));
    }
    if !branch_protection::branch_rules(backend, access)
        .await?
        .can_delete(name)
    {
        return Err(protected());
    }
    let update = ProposedUpdate::branch(name, ProposalKind::Delete);
    let authority = UpdateAuthority::caller(access, update, protected);
    let lock = repositories::lock(&repository);
    let publish = async move |locked: LockedRepository| {
        let old = locked
            .delete_branch(&branch.name, Some(branch.commit))
            .await
            .map_err(repositories::ref_update_error)?;
        Ok(((), vec![RefChange::branch(&branch.name, Some(old), None)]))
    };
    prepare_and_update_refs(backend, commit::ref_update(access), authority, lock, publish).await
}

fn protected() -> Error {
    Error::Rejected("A protected branch cannot be deleted".into())
}

/// Enqueues the deletion of all branches that are merged into the default branch, except that one, protected ones and
/// the branches of open merge requests.
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

/// Protects a branch. Maintainers may push and merge, Developers according to `update`. Grants to users, groups and
/// deploy keys stay.
///
/// # Errors
/// Returns `Error::NotFound` if the branch does not exist. Returns `Error::Rejected` if the name is invalid. Returns
/// the errors of [`protected_branches::set_roles`].
pub async fn protect(
    backend: &Backend,
    access: &ProjectAccess,
    name: &str,
    update: ProtectionUpdate,
) -> Result<BranchDetail> {
    let repository = repository_access::repository(backend, access)?;
    let branch = repository.branch(name).await.map_err(branch_name_error)?;
    let role = |developers: bool| match developers {
        true => AccessLevel::Developer,
        false => AccessLevel::Maintainer,
    };
    let change = RoleChange {
        push: update.developers_can_push.map(role),
        merge: update.developers_can_merge.map(role),
    };
    protected_branches::set_roles(backend, BranchOwner::Project(access), name, change).await?;
    load_detail(backend, access, &repository, branch).await
}

/// Removes the protection of exactly this name. Patterns that match the name stay.
///
/// # Errors
/// Returns `Error::NotFound` if the branch does not exist. Returns `Error::Rejected` if the name is invalid. Returns
/// `Error::Forbidden` if the protection does not allow the caller to remove it.
pub async fn unprotect(backend: &Backend, access: &ProjectAccess, name: &str) -> Result<BranchDetail> {
    let repository = repository_access::repository(backend, access)?;
    let branch = repository.branch(name).await.map_err(branch_name_error)?;
    protected_branches::remove_if_present(backend, BranchOwner::Project(access), name).await?;
    load_detail(backend, access, &repository, branch).await
}

/// Maps an invalid branch name to an error of the caller.
fn branch_name_error(error: git::Error) -> Error {
    match error {
        git::Error::InvalidReferenceName => Error::Rejected("The branch refname is invalid".into()),
        other => other.into(),
    }
}

async fn load_detail(
    backend: &Backend,
    access: &ProjectAccess,
    repository: &git::Repository,
    branch: git::Branch,
) -> Result<BranchDetail> {
    let details = load_details(backend, access, repository, vec![branch]).await?;
    details
        .into_iter()
        .next()
        .ok_or_else(|| Error::not_found("Branch"))
}

/// Loads the details of branches with the statements of [`branch_protection::branch_rules`] and one walk for all of
/// them.
async fn load_details(
    backend: &Backend,
    access: &ProjectAccess,
    repository: &git::Repository,
    branches: Vec<git::Branch>,
) -> Result<Vec<BranchDetail>> {
    let rules = branch_protection::branch_rules(backend, access).await?;
    let default = access.project.default_branch.as_deref();
    let heads: Vec<git::Oid> = branches.iter().map(|branch| branch.commit).collect();
    let merged = match default {
        Some(name) => match repository.branch(name).await {
            Ok(base) => repository.merged_into(base.commit, heads.clone()).await?,
            Err(git::Error::BranchNotFound) => Default::default(),
            Err(error) => return Err(error.into()),
        },
        None => Default::default(),
    };
    let commits = repository.commits(heads).await?;
    let details = branches.into_iter().zip(commits).map(|(branch, commit)| {
        let is_default = default == Some(branch.name.as_str());
        BranchDetail {
            merged: !is_default && merged.contains(&branch.commit),
            protected: rules.is_protected(&branch.name),
            developers_can_push: rules.requires_developer(&branch.name, RefAction::Push),
            developers_can_merge: rules.requires_developer(&branch.name, RefAction::Merge),
            can_push: rules.can_push(&branch.name),
            default: is_default,
            name: branch.name,
            commit,
        }
    });
    Ok(details.collect())
}
