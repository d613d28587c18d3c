//! Creates issues.

use chrono::{DateTime, Utc};
use sea_orm::{ActiveModelTrait, ActiveValue::Set};
use storage::database::Violation;
use storage::entities::iid_counters::{self, IidKind};
use storage::entities::{Scope, issues, now};

use super::metadata::IssueMetadata;
use super::row::{self, IssueDetail};
use crate::identity::access::ProjectAccess;
use crate::identity::space_access::SpaceAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::policy::Role;
use crate::planning::issuables::events::IssuableChange;
use crate::planning::issuables::{check_title, task_list};
use crate::planning::issues::events::publish;
use crate::planning::mentions::{self, TextAudience, TextSource};
use crate::planning::system_notes::NoteableId;

/// Attributes of a new issue.
#[derive(Debug, Clone, Default)]
pub struct NewIssue {
    /// Title of the issue.
    pub title: String,
    /// Description of the issue.
    pub description: Option<String>,
    /// Attributes that only members can set.
    pub metadata: IssueMetadata,
    /// IID. Ignored unless the caller is an Owner.
    pub iid: Option<i64>,
    /// Time of creation. Ignored unless the caller is an Owner.
    pub created_at: Option<DateTime<Utc>>,
}

/// Creates an issue. Metadata is ignored if the caller is not a member, except `confidential`. IID and time
/// are ignored unless the caller is an Owner.
///
/// # Errors
/// Returns `Error::Forbidden` if issues are not available to the caller. Returns `Error::InvalidAttributes`
/// if an attribute is invalid. Returns `Error::Conflict` if the IID is taken.
pub async fn create(backend: &Backend, access: &ProjectAccess, new: NewIssue) -> Result<IssueDetail> {
    let author = access.caller.signed_in()?.id;
    if !access
        .effective_access()
        .has_feature(access.project.issues_access_level)
    {
        return Err(Error::forbidden());
    }
    let title = check_title(&new.title)?;
    let confidential = new.metadata.confidential.unwrap_or_default();
    let metadata = match access.has_role(Role::Guest) {
        true => new.metadata,
        false => IssueMetadata::default(),
    };
    let is_owner = access.has_role(Role::Owner);
    let (iid, created_at) = (new.iid.filter(|_| is_owner), new.created_at.filter(|_| is_owner));
    let created_at = created_at.unwrap_or_else(now);
    let mut prepared = metadata.prepare(backend, access).await?;
    let (tasks, completed) = task_list::count(new.description.as_deref());
    let space = SpaceAccess::from(access.clone());
    let assignees = prepared.assignee_ids().unwrap_or_default();
    let audience = TextAudience::of_issue(&space, confidential, Some(author), assignees);
    let texts = mentions::texts(Some(title), new.description.as_ref());
    let effects = mentions::resolve(backend, &audience, &[], &texts).await?;
    let project_id = access.project.id;
    let issue = backend
        .database
        .transaction(async |transaction| {
            prepared.lock(transaction, access).await?;
            let scope = Scope::Project(project_id);
            let iid = match iid {
                Some(iid) => iid_counters::reserve(transaction, scope, IidKind::Issues, iid).await?,
                None => iid_counters::next(transaction, scope, IidKind::Issues).await?,
            };
            let mut row = issues::ActiveModel {
                project_id: Set(project_id),
                iid: Set(iid),
                author_id: Set(Some(author)),
                title: Set(title.to_owned()),
                description: Set(new.description),
                state: Set(issues::IssueState::Opened),
                tasks: Set(tasks),
                completed_tasks: Set(completed),
                created_at: Set(created_at),
                updated_at: Set(created_at),
                ..Default::default()
            };
            prepared.apply(&mut row, None);
            row.confidential = Set(confidential);
            let issue = row.insert(transaction).await.map_err(map_insert_error)?;
            let links = prepared.link(transaction, access, issue.id, true).await?;
            publish(transaction, IssuableChange::created(author, &issue)).await?;
            let source = TextSource::new(&space, NoteableId::Issue(issue.id), issue.iid, author);
            effects.save(transaction, source, links.newly_assigned).await?;
            Ok::<_, Error>(issue)
        })
        .await?;
    row::load_written(backend, &access.caller, issue).await
}

/// Maps a database error of the insert.
fn map_insert_error(error: sea_orm::DbErr) -> Error {
    match Violation::of(&error) {
        Some(Violation::Unique(_)) => Error::Conflict("Duplicated issue".into()),
        Some(Violation::ForeignKey(_)) => Error::not_found("Project"),
        _ => error.into(),
    }
}
