//! Import of a local repository into a project, for `admin import-repo`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use git::{Oid, PageWindow, Repository, RepositoryId};
use storage::entities::ref_updates::RefUpdateKind;
use storage::entities::{Visibility, namespaces, projects, users};

use crate::code::push_decision::{self, ProposalKind, ProposedUpdate, Verdict};
use crate::code::ref_updates;
use crate::identity::access::ProjectAccess;
use crate::kernel::caller::Caller;
use crate::kernel::error::{Error, Result};
use crate::kernel::ref_changes::{RefChange, RefUpdate};
use crate::kernel::{Backend, names};
use crate::spaces::projects::insert_bare;

/// Branch of `HEAD` in a new repository before the import sets it.
const FIRST_BRANCH: &str = "main";
/// Number of refused refs that an error names.
const SHOWN_REFUSALS: usize = 10;

/// Imports the branches and tags of the repository at `source` into the project with this path. A missing
/// project is created in an existing namespace. Git copies from disk to disk, without loading the repository
/// into memory.
///
/// The changes are attributed to the user named `author`. The default is the owner of the personal namespace,
/// or else the first administrator.
///
/// # Errors
/// Returns `Error::NotFound` if the namespace or user does not exist. Returns `Error::Rejected` if the path is
/// invalid or taken, or if the source is not a repository. Then no project is created. Returns `Error::Rejected`
/// also if the protection of a branch or tag of an existing project refuses a change. Then no ref changes.
pub async fn import(
    backend: &Backend,
    full_path: &str,
    visibility: Visibility,
    source: PathBuf,
    author: Option<&str>,
) -> Result<projects::Model> {
    check_source(&source).await?;
    let (project, author) = match projects::by_full_path(backend.database.read(), full_path).await? {
        Some((project, namespace)) => (project, author_in(backend, &namespace, author).await?),
        None => create_project(backend, full_path, visibility, author).await?,
    };
    let id = RepositoryId::of_project(project.id);
    // An interrupted import leaves a row without a repository.
    let repository = match backend.repositories.create(&id, FIRST_BRANCH).await {
        Err(git::Error::RepositoryExists) => backend.repositories.repository(&id),
        repository => repository?,
    };
    check_protections(backend, project.id, &repository, &source).await?;
    let update = RefUpdate::new(project.id, Some(author.id), RefUpdateKind::Push);
    let default_branch = project.default_branch.clone();
    let work = async move {
        let before = refs_of(&repository).await?;
        repository.import(&source).await?;
        if let Some(name) = &default_branch
            && repository.branch(name).await.is_ok()
        {
            repository.set_default_branch(name).await?;
        }
        Ok(((), changed_refs(&before, &refs_of(&repository).await?)))
    };
    let planned = vec!["refs/heads/*".to_owned(), "refs/tags/*".to_owned()];
    ref_updates::update_refs(
        backend,
        update,
        ref_updates::UpdateAuthority::Server(planned),
        work,
    )
    .await?;
    let found = projects::by_reference(backend.database.read(), &project.id.to_string()).await?;
    found
        .map(|(project, _)| project)
        .ok_or_else(|| Error::not_found("Project"))
}

/// Checks that the protections of branches and tags allow an import. The import has the permissions of the active
/// administrator with the lowest ID, as other commands have.
async fn check_protections(
    backend: &Backend,
    project_id: i64,
    repository: &Repository,
    source: &Path,
) -> Result<()> {
    let current = refs_of(repository).await?;
    // Without refs, no ref exists that a rule could protect.
    if current.is_empty() {
        return Ok(());
    }
    let administrator = users::first_administrator(backend.database.read()).await?;
    let administrator = administrator.ok_or_else(|| Error::not_found("Administrator"))?;
    let caller = Caller::user(administrator);
    let access = ProjectAccess::find(backend, caller, &project_id.to_string()).await?;
    let references = git::imported_references(source, current).await?;
    let updates = references.iter().map(|reference| ProposedUpdate {
        reference: reference.name.clone(),
        kind: match reference.current {
            None => ProposalKind::Create,
            Some(_) => ProposalKind::Update,
        },
        target: Some(reference.target),
    });
    let updates: Vec<ProposedUpdate> = updates.collect();
    let verdicts = push_decision::verdicts(backend, &access, &updates).await?;
    let refusals = references
        .iter()
        .zip(verdicts)
        .filter_map(|(reference, verdict)| {
            let text = match verdict {
                Verdict::Rejected(text) => text,
                Verdict::FastForwardOnly(text) if !reference.is_fast_forward => text,
                // Push rules apply to the work of members, and not to the history of another repository.
                Verdict::FastForwardOnly(_)
                | Verdict::Violation(_)
                | Verdict::Accepted
                | Verdict::Reserved => return None,
            };
            Some(format!("{}: {text}", reference.name))
        });
    let refusals: Vec<String> = refusals.take(SHOWN_REFUSALS).collect();
    match refusals.is_empty() {
        true => Ok(()),
        false => Err(Error::Rejected(refusals.join("\n").into())),
    }
}

async fn check_source(source: &Path) -> Result<()> {
    git::check_import_source(source).await.map_err(|error| {
        let path = source.display();
        Error::Rejected(match error {
            git::Error::Io(error) => format!("cannot read {path}: {error}").into(),
            _ => format!("{path} is not a Git repository; name a bare repository or a working copy").into(),
        })
    })
}

/// Returns the author of an import into a namespace.
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

async fn create_project(
    backend: &Backend,
    full_path: &str,
    visibility: Visibility,
    author: Option<&str>,
) -> Result<(projects::Model, users::Model)> {
    let (above, path) = full_path
        .rsplit_once('/')
        .ok_or_else(|| Error::Rejected("The path of a project must be NAMESPACE/NAME".into()))?;
    if names::project_name_fault(path)
        .or(names::path_fault(path, false))
        .is_some()
    {
        return Err(Error::Rejected(
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

/// Returns every branch and tag with its target.
async fn refs_of(repository: &Repository) -> Result<BTreeMap<String, Oid>> {
    let all = PageWindow {
        offset: 0,
        limit: usize::MAX,
    };
    let branches = repository.branches(None, all).await?.branches.into_iter();
    let mut found: BTreeMap<String, Oid> = branches
        .map(|branch| (format!("refs/heads/{}", branch.name), branch.commit))
        .collect();
    let tags = repository.tag_targets().await?.into_iter();
    found.extend(tags.map(|(name, target)| (format!("refs/tags/{name}"), target)));
    Ok(found)
}

/// Returns the new and changed refs. An import deletes none.
fn changed_refs(before: &BTreeMap<String, Oid>, after: &BTreeMap<String, Oid>) -> Vec<RefChange> {
    let moved = after
        .iter()
        .filter(|(reference, id)| before.get(*reference) != Some(*id));
    moved
        .map(|(reference, id)| RefChange {
            reference: reference.clone(),
            old: before.get(reference).map(Oid::to_string),
            new: Some(id.to_string()),
        })
        .collect()
}
