//! Creates issues.

use chrono::{DateTime, Utc};
use sea_orm::{ActiveModelTrait, ActiveValue::Set};
use storage::database::Violation;
use storage::entities::iid_counters::{self, IidKind};
use storage::entities::{Scope, issues, now};

use super::metadata::Metadata;
use super::row::{self, Row};
use crate::identity::access::ProjectAccess;
use crate::identity::space_access::SpaceAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::policy::Role;
use crate::planning::issuables::{check_title, task_list};
use crate::planning::issues::events::{Told, tell};
use crate::planning::mentions::{self, Scene, Written};
use crate::planning::system_notes::NoteableId;

/// Attributes of a new issue.
#[derive(Debug, Clone, Default)]
pub struct NewIssue {
    /// Title of the issue.
    pub title: String,
    /// Description of the issue.
    pub description: Option<String>,
    /// Attributes that only members can set.
    pub metadata: Metadata,
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
pub async fn create(backend: &Backend, access: &ProjectAccess, new: NewIssue) -> Result<Row> {
    let author = access.caller.signed_in()?.id;
    if !access
        .effective_access()
        .has_feature(access.project.issues_access_level)
    {
        return Err(Error::forbidden());
    }
    let title = check_title(&new.title)?;
    let confidential = new.metadata.confidential.unwrap_or_default();
    let said = match access.has_role(Role::Guest) {
        true => new.metadata,
        false => Metadata::default(),
    };
    let owner = access.has_role(Role::Owner);
    let (iid, made) = (new.iid.filter(|_| owner), new.created_at.filter(|_| owner));
    let made = made.unwrap_or_else(now);
    let mut prepared = said.prepare(backend, access).await?;
    let (tasks, completed) = task_list::count(new.description.as_deref());
    let place = SpaceAccess::from(access.clone());
    let readers = prepared.assignee_ids().unwrap_or_default();
    let scene = Scene::of_issue(&place, confidential, Some(author), readers);
    let said = mentions::texts(Some(title), new.description.as_ref());
    let said = mentions::listen(backend, &scene, &[], &said).await?;
    let project_id = access.project.id;
    let issue = backend
        .database
        .transaction(async |transaction| {
            prepared.hold(transaction, access).await?;
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
                created_at: Set(made),
                updated_at: Set(made),
                ..Default::default()
            };
            prepared.enter(&mut row, None);
            row.confidential = Set(confidential);
            let issue = row.insert(transaction).await.map_err(taken)?;
            let outcome = prepared.attach(transaction, access, issue.id, true).await?;
            let told = Told {
                access,
                author,
                before: None,
                after: &issue,
            };
            tell(transaction, told, Vec::new()).await?;
            let written = Written::on(&place, NoteableId::Issue(issue.id), issue.iid, author);
            said.enter(transaction, written, outcome.newly_assigned).await?;
            Ok::<_, Error>(issue)
        })
        .await?;
    row::of_one(backend, &access.caller, issue).await
}

fn taken(error: sea_orm::DbErr) -> Error {
    match Violation::of(&error) {
        Some(Violation::Unique(_)) => Error::Conflict("Duplicated issue".into()),
        Some(Violation::ForeignKey(_)) => Error::not_found("Project"),
        _ => error.into(),
    }
}
