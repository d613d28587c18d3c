//! Default messages of merge commits.

use git::Signature;
use sea_orm::EntityTrait;
use storage::entities::merge_requests::Model;
use storage::entities::{closing_merge_requests, users};

use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::Result;
use crate::kernel::urls;

/// Returns the message of a merge commit: branches, title, closed issues and reference of the merge request.
///
/// # Errors
/// Returns an error if a database query fails.
pub(super) async fn merge_commit_message(
    backend: &Backend,
    access: &ProjectAccess,
    merge_request: &Model,
) -> Result<String> {
    let Model {
        source_branch,
        target_branch,
        title,
        iid,
        ..
    } = merge_request;
    let path = urls::project_path(&access.namespace, &access.project);
    let closed_issues = closing_merge_requests::closed_by(backend.database.read(), merge_request.id).await?;
    let references: Vec<String> = closed_issues
        .iter()
        .filter(|issue| issue.project_id == merge_request.target_project_id && !issue.confidential)
        .map(|issue| format!("#{}", issue.iid))
        .collect();
    let closes = match references.is_empty() {
        true => String::new(),
        false => format!("\n\nCloses {}", references.join(", ")),
    };
    Ok(format!(
        "Merge branch '{source_branch}' into '{target_branch}'\n\n{title}{closes}\n\nSee merge request {path}!{iid}"
    ))
}

/// Returns the author of the squash commit: the author of the merge request, or the committer if that user
/// was deleted.
///
/// # Errors
/// Returns an error if a database query fails.
pub(super) async fn squash_author(
    backend: &Backend,
    merge_request: &Model,
    committer: &Signature,
) -> Result<Signature> {
    let author = match merge_request.author_id {
        Some(id) => users::Entity::find_by_id(id).one(backend.database.read()).await?,
        None => None,
    };
    Ok(match author {
        Some(user) => Signature {
            name: user.name,
            email: user.email,
            time: committer.time,
        },
        None => committer.clone(),
    })
}
