//! Bringing a repository of this machine into a project (design 8, `admin import-repo`).

use std::collections::BTreeMap;
use std::path::PathBuf;

use git::{Oid, Repository, RepositoryId, TagOrder, TagQuery, Window};
use storage::entities::ref_updates::Kind;
use storage::entities::{Visibility, namespaces, projects, users};

use crate::error::{Error, Result};
use crate::services::projects::insert_bare;
use crate::services::references::{self, Moved, Mover};
use crate::services::{Backend, naming};

/// What `HEAD` names in a repository before the import says otherwise.
const FIRST_BRANCH: &str = "main";

/// Takes over the branches and tags of the repository at `source` into the project with this path, which is made
/// in an existing namespace when it is not there. Git copies from disk to disk; nothing is held in memory.
///
/// What comes of it is the doing of the user of this name; without a name, of the owner of the personal namespace, or else of
/// the first administrator, who is the operator.
///
/// # Errors
/// 404 for a namespace or user that is not there, 400 for a path that cannot be a project's or is taken; whatever
/// Git says of the source.
pub async fn import(
    backend: &Backend,
    full_path: &str,
    visibility: Visibility,
    source: PathBuf,
    author: Option<&str>,
) -> Result<projects::Model> {
    let (project, author) = match projects::by_full_path(backend.database.read(), full_path).await? {
        Some((project, namespace)) => (project, author_in(backend, &namespace, author).await?),
        None => make_project(backend, full_path, visibility, author).await?,
    };
    let id = RepositoryId::of_project(project.id);
    // A row whose repository is missing is what an import leaves that was killed in between.
    let repository = match backend.repositories.create(&id, FIRST_BRANCH).await {
        Err(git::Error::RepositoryExists) => backend.repositories.repository(&id),
        made => made?,
    };
    let mover = Mover {
        project_id: project.id,
        user_id: Some(author.id),
        kind: Kind::Push,
    };
    let default_branch = project.default_branch.clone();
    let work = async move {
        let before = references_of(&repository).await?;
        repository.import(&source).await?;
        if let Some(name) = &default_branch
            && repository.branch(name).await.is_ok()
        {
            repository.set_default_branch(name).await?;
        }
        Ok(((), difference(&before, &references_of(&repository).await?)))
    };
    let planned = vec!["refs/heads/*".to_owned(), "refs/tags/*".to_owned()];
    references::moving(backend, mover, planned, work).await?;
    let found = projects::by_reference(backend.database.read(), &project.id.to_string()).await?;
    found
        .map(|(project, _)| project)
        .ok_or_else(|| Error::not_found("Project"))
}

/// Whose doing an import into a namespace is.
async fn author_in(
    backend: &Backend,
    namespace: &namespaces::Model,
    name: Option<&str>,
) -> Result<users::Model> {
    let db = backend.database.read();
    let found = match (name, namespace.owner_id) {
        (Some(name), _) => users::by_username(db, name).await?,
        (None, Some(owner)) => users::by_reference(db, &owner.to_string()).await?,
        (None, None) => users::first_administrator(db).await?,
    };
    found.ok_or_else(|| Error::not_found("User"))
}

async fn make_project(
    backend: &Backend,
    full_path: &str,
    visibility: Visibility,
    author: Option<&str>,
) -> Result<(projects::Model, users::Model)> {
    let (above, path) = full_path
        .rsplit_once('/')
        .ok_or_else(|| Error::Refused("The path of a project must be NAMESPACE/NAME".into()))?;
    if naming::project_name_fault(path)
        .or(naming::path_fault(path, false))
        .is_some()
    {
        return Err(Error::Refused(
            "The name of a project can contain only letters, digits, '_', '-' and '.', must start with \
             a letter, digit or '_', and must not end in '.git' or '.atom'"
                .into(),
        ));
    }
    let namespace = namespaces::by_full_path(backend.database.read(), above)
        .await?
        .ok_or_else(|| Error::not_found("Namespace"))?;
    let author = author_in(backend, &namespace, author).await?;
    let project = insert_bare(backend, namespace.id, path, visibility, author.id).await?;
    Ok((project, author))
}

/// Every branch and tag, and what it points at.
async fn references_of(repository: &Repository) -> Result<BTreeMap<String, Oid>> {
    let all = Window {
        offset: 0,
        limit: usize::MAX,
    };
    let branches = repository.branches(None, all).await?.branches.into_iter();
    let mut found: BTreeMap<String, Oid> = branches
        .map(|branch| (format!("refs/heads/{}", branch.name), branch.commit))
        .collect();
    let query = TagQuery {
        search: None,
        order: TagOrder::Name,
        descending: false,
        window: all,
    };
    let tags = repository.tags(query).await?.tags.into_iter();
    found.extend(tags.map(|tag| (format!("refs/tags/{}", tag.name), tag.target)));
    Ok(found)
}

/// What is new or stands elsewhere; an import deletes nothing.
fn difference(before: &BTreeMap<String, Oid>, after: &BTreeMap<String, Oid>) -> Vec<Moved> {
    let moved = after
        .iter()
        .filter(|(reference, id)| before.get(*reference) != Some(*id));
    moved
        .map(|(reference, id)| Moved {
            reference: reference.clone(),
            old: before.get(reference).map(Oid::to_string),
            new: Some(id.to_string()),
        })
        .collect()
}
