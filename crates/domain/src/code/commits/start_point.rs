//! Start points of commits: a branch or commit of this project or of another one in its fork network.

use git::{BranchStart, Oid, Repository, RepositoryId};
use sea_orm::{EntityTrait, QuerySelect};
use storage::entities::namespace_ancestors::full_names;
use storage::entities::projects;

use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};

/// Maximum length of a fork chain that is followed.
const MAX_FORK_DEPTH: usize = 100;

/// Start point of a commit. Empty strings are ignored.
#[derive(Debug, Clone, Default)]
pub struct StartPoint {
    /// A branch.
    pub branch: Option<String>,
    /// A full commit ID.
    pub sha: Option<String>,
    /// ID or path of the project that contains them.
    pub project: Option<String>,
}

/// Rejects a start point with both a branch and a commit.
///
/// # Errors
/// Returns `Error::InvalidParameters` if both are given.
pub(super) fn check_exclusive(start: &StartPoint) -> Result<()> {
    match (
        non_empty(start.branch.as_deref()),
        non_empty(start.sha.as_deref()),
    ) {
        (Some(_), Some(_)) => Err(Error::parameter("start_branch, start_sha are mutually exclusive")),
        _ => Ok(()),
    }
}

/// Finds the start point of a commit to `branch`. Commits of another project are copied into `repository`.
///
/// # Errors
/// Returns `Error::NotFound` if the caller cannot see the other project. Returns `Error::Forbidden` if it is
/// not in the fork network. Returns `Error::Rejected` if it has no such commit or branch.
pub(super) async fn find(
    backend: &Backend,
    access: &ProjectAccess,
    repository: &Repository,
    branch: &str,
    start: StartPoint,
) -> Result<BranchStart> {
    let (from_branch, from_sha) = (
        non_empty(start.branch.as_deref()),
        non_empty(start.sha.as_deref()),
    );
    if let Some(reference) = non_empty(start.project.as_deref()) {
        let other = ProjectAccess::find(backend, access.caller.clone(), reference).await?;
        if other.project.id != access.project.id {
            let id = start_in_other_project(backend, access, &other, from_branch.unwrap_or(branch), from_sha)
                .await?;
            let other = repository_of(backend, other.project.id);
            repository.import_commit(&other, id).await?;
            return Ok(BranchStart::Sha(id));
        }
    }
    match (from_branch, from_sha) {
        (_, Some(sha)) => Ok(BranchStart::Sha(resolve_sha(repository, sha).await?)),
        // In a repository without branches, any branch is the first one and the start point is ignored.
        (Some(name), None) if name != branch && access.project.default_branch.is_some() => {
            Ok(BranchStart::Branch(name.to_owned()))
        }
        _ => Ok(BranchStart::Head),
    }
}

async fn start_in_other_project(
    backend: &Backend,
    access: &ProjectAccess,
    other: &ProjectAccess,
    branch: &str,
    sha: Option<&str>,
) -> Result<Oid> {
    if !other.can_read_code() {
        return Err(Error::not_found("Project"));
    }
    let (root, other_root) = (
        fork_root(backend, &access.project).await?,
        fork_root(backend, &other.project).await?,
    );
    if root != other_root {
        let namespace = &access.namespace;
        let mut names = full_names(backend.database.read(), [namespace.id]).await?;
        let name = names.remove(&namespace.id).unwrap_or_default();
        return Err(Error::forbidden_because(format!(
            "Project is not included in the fork network for {name} / {}",
            access.project.name
        )));
    }
    let repository = repository_of(backend, other.project.id);
    match sha {
        Some(sha) => resolve_sha(&repository, sha).await,
        None => match repository.branch(branch).await {
            Ok(branch) => Ok(branch.commit),
            Err(git::Error::InvalidReferenceName) => Err(crate::code::commits::commit::commit_error(
                git::Error::BranchNotFound,
                branch,
            )),
            Err(error) => Err(crate::code::commits::commit::commit_error(error, branch)),
        },
    }
}

fn repository_of(backend: &Backend, project_id: i64) -> Repository {
    backend
        .repositories
        .repository(&RepositoryId::of_project(project_id))
}

/// Returns the commit of a full ID.
async fn resolve_sha(repository: &Repository, sha: &str) -> Result<Oid> {
    let full = sha.len() == 40 && sha.bytes().all(|byte| byte.is_ascii_hexdigit());
    let id = Oid::from_str(sha).ok().filter(|_| full);
    let id = id.ok_or_else(|| Error::Rejected(format!("Invalid start_sha '{sha}'").into()))?;
    match repository.commit(id).await {
        Ok(_) => Ok(id),
        Err(git::Error::ObjectNotFound) => {
            Err(Error::Rejected(format!("Cannot find start_sha '{sha}'").into()))
        }
        Err(error) => Err(error.into()),
    }
}

/// Returns the project at the root of a project's fork chain.
async fn fork_root(backend: &Backend, project: &projects::Model) -> Result<i64> {
    let (mut id, mut parent) = (project.id, project.forked_from_id);
    for _ in 0..MAX_FORK_DEPTH {
        let Some(next) = parent else { break };
        let row: Option<Option<i64>> = projects::Entity::find_by_id(next)
            .select_only()
            .column(projects::Column::ForkedFromId)
            .into_tuple()
            .one(backend.database.read())
            .await?;
        id = next;
        parent = row.flatten();
    }
    Ok(id)
}

fn non_empty(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.is_empty())
}
