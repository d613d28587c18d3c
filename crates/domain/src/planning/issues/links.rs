//! Links between two issues, which can be in different projects.

use std::collections::HashMap;

use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait,
    PaginatorTrait, QueryFilter,
};
use storage::entities::issue_links::{self, ActiveModel, Column, Entity, IssueLinkType, Model};
use storage::entities::{issues, notes, now};

use super::row::{IssueDetail, decorate};
use super::{find, lock};
use crate::identity::access::ProjectAccess;
use crate::kernel::caller::Caller;
use crate::kernel::error::{Error, Result};
use crate::kernel::policy::{InstancePlan, Role};
use crate::kernel::query::all_with_texts;
use crate::kernel::{Backend, preconditions, urls};
use crate::planning::system_notes::{self, NoteableId};

/// Maximum number of links of an issue.
const MAX_LINKS: u64 = 200;

/// Text if the caller may not link an issue of the other project.
const NO_ROLE: &str = "Couldn't link issue. You must have at least the Guest role in both projects.";

/// Text if the caller may not delete a link to an issue of the other project.
const NO_ROLE_TO_DELETE: &str =
    "You must have at least the Guest role in both projects, and neither may be archived";

/// A link to create.
#[derive(Debug, Clone)]
pub struct NewIssueLink {
    /// ID or full path of the project of the other issue.
    pub target_project: String,
    /// IID of the other issue.
    pub target_iid: i64,
    /// Relation of the issue to the other issue.
    pub link_type: IssueLinkType,
}

/// A link with both issues.
#[derive(Debug, Clone)]
pub struct IssueLink {
    /// The link.
    pub link: Model,
    /// The issue to which the link was added.
    pub source: IssueDetail,
    /// The other issue.
    pub target: IssueDetail,
}

/// An issue that is linked to another one.
#[derive(Debug, Clone)]
pub struct LinkedIssue {
    /// The link.
    pub link: Model,
    /// Relation of the issue whose links are listed to the linked issue.
    pub link_type: IssueLinkType,
    /// The issue.
    pub issue: IssueDetail,
}

/// Returns the issues that are linked to an issue and visible to the caller, in the order in which the links were
/// created.
///
/// # Errors
/// Returns `Error::NotFound` if the issue does not exist or the caller cannot see it. Returns `Error::Overloaded` if
/// too little memory is left for the descriptions of the issues and their milestones.
pub async fn list(backend: &Backend, access: &ProjectAccess, iid: i64) -> Result<Vec<LinkedIssue>> {
    let db = backend.database.read();
    let issue = find(db, access, iid).await?;
    let links = issue_links::of_issue(issue.id).all(db).await?;
    let ids = links.iter().map(|link| link.seen_from(issue.id).0).collect();
    let mut details = visible_details(db, &access.caller, ids).await?;
    let linked = links.into_iter().filter_map(|link| {
        let (id, link_type) = link.seen_from(issue.id);
        Some(LinkedIssue {
            issue: details.remove(&id)?,
            link_type,
            link,
        })
    });
    Ok(linked.collect())
}

/// Returns a link of an issue.
///
/// # Errors
/// Returns `Error::NotFound` if the issue or the link does not exist, or the caller cannot see one of the issues.
pub async fn get(backend: &Backend, access: &ProjectAccess, iid: i64, id: i64) -> Result<IssueLink> {
    let db = backend.database.read();
    let issue = find(db, access, iid).await?;
    let link = issue_links::of_issue(issue.id)
        .filter(Column::Id.eq(id))
        .one(db)
        .await?;
    with_issues(db, &access.caller, link.ok_or_else(not_found)?).await
}

/// Links an issue to another one, and records system notes on both.
///
/// # Errors
/// Returns `Error::NotFound` if an issue or the other project does not exist or is not visible to the caller. Returns
/// `Error::Forbidden` if the caller is not a member of the other project, the project is archived, or the plan lacks
/// the type. Returns `Error::Unprocessable` for a link to the issue itself, `Error::Conflict` if the issues are linked,
/// and `Error::Rejected` if one of them has `MAX_LINKS` links.
pub async fn create(
    backend: &Backend,
    access: &ProjectAccess,
    iid: i64,
    new: NewIssueLink,
) -> Result<IssueLink> {
    let author = access.caller.signed_in()?.id;
    let db = backend.database.read();
    let source = find(db, access, iid).await?;
    let target_access = ProjectAccess::find(backend, access.caller.clone(), &new.target_project).await?;
    let target = find(db, &target_access, new.target_iid).await?;
    if !can_change_links(&target_access) {
        return Err(Error::forbidden_because(NO_ROLE));
    }
    if new.link_type != IssueLinkType::RelatesTo && backend.instance.plan < InstancePlan::Premium {
        return Err(Error::forbidden_because(
            "Issues can block other issues on the Premium plan and above; use the type relates_to",
        ));
    }
    if source.id == target.id {
        let text = format!("#{iid} cannot be added: cannot be related to itself");
        return Err(Error::Unprocessable(text.into()));
    }
    let link = backend
        .database
        .transaction(async |transaction| {
            let mut both = [
                (source.id, access, iid),
                (target.id, &target_access, new.target_iid),
            ];
            both.sort_by_key(|(id, ..)| *id);
            for (_, access, iid) in both {
                lock(transaction, access, iid).await?;
            }
            // The locks serialize inserts, so that concurrent ones neither repeat a link nor exceed the maximum.
            if issue_links::between(source.id, target.id)
                .one(transaction)
                .await?
                .is_some()
            {
                return Err(Error::Conflict("Issue(s) already assigned".into()));
            }
            for id in [source.id, target.id] {
                if issue_links::of_issue(id).count(transaction).await? >= MAX_LINKS {
                    let text = format!("An issue can have at most {MAX_LINKS} links: delete a link first");
                    return Err(Error::Rejected(text.into()));
                }
            }
            let at = now();
            let row = ActiveModel {
                source_id: Set(source.id),
                target_id: Set(target.id),
                link_type: Set(new.link_type),
                created_at: Set(at),
                updated_at: Set(at),
                ..Default::default()
            };
            let link = row.insert(transaction).await?;
            let [of_source, of_target] = [access, &target_access].map(path);
            let bodies = [
                marked(new.link_type, &reference(&of_source, &of_target, target.iid)),
                marked(
                    new.link_type.reversed(),
                    &reference(&of_target, &of_source, source.iid),
                ),
            ];
            write_notes(transaction, author, &link, bodies).await?;
            Ok::<_, Error>(link)
        })
        .await?;
    with_issues(db, &access.caller.after_commit(), link).await
}

/// Deletes a link of an issue, and records system notes on both issues. Returns the deleted link.
///
/// # Errors
/// Returns `Error::NotFound` as [`get`] does. Returns `Error::Forbidden` if the caller is not a member of the other
/// project, or the project is archived. Returns `Error::PreconditionFailed` if the link changed after
/// `unmodified_since`.
pub async fn delete(
    backend: &Backend,
    access: &ProjectAccess,
    iid: i64,
    id: i64,
    unmodified_since: Option<&str>,
) -> Result<IssueLink> {
    let author = access.caller.signed_in()?.id;
    let found = get(backend, access, iid, id).await?;
    check_other_project(backend, access, &found).await?;
    preconditions::check_unmodified_since(unmodified_since, found.link.updated_at)?;
    let (source, target) = (&found.source, &found.target);
    backend
        .database
        .transaction(async |transaction| {
            let mut ids = [source.issue.id, target.issue.id];
            ids.sort_unstable();
            for id in ids {
                issues::lock(transaction, id).await?.ok_or_else(not_found)?;
            }
            let deleted = Entity::delete_by_id(id).exec(transaction).await?;
            if deleted.rows_affected == 0 {
                return Err(not_found());
            }
            let (of_source, of_target) = (&source.project_path, &target.project_path);
            let bodies = [
                removed(&reference(of_source, of_target, target.issue.iid)),
                removed(&reference(of_target, of_source, source.issue.iid)),
            ];
            write_notes(transaction, author, &found.link, bodies).await
        })
        .await?;
    Ok(found)
}

/// Checks that the caller may delete a link in the project that is not in the path of the request.
async fn check_other_project(backend: &Backend, access: &ProjectAccess, link: &IssueLink) -> Result<()> {
    let project_ids = [&link.source, &link.target].map(|detail| detail.issue.project_id);
    let Some(other_id) = project_ids.into_iter().find(|id| *id != access.project.id) else {
        return Ok(());
    };
    let other = ProjectAccess::find_visible(backend, &access.caller, other_id).await?;
    match can_change_links(&other.ok_or_else(not_found)?) {
        true => Ok(()),
        false => Err(Error::forbidden_because(NO_ROLE_TO_DELETE)),
    }
}

/// Returns whether the caller may create and delete links of the issues of a project.
fn can_change_links(access: &ProjectAccess) -> bool {
    access.has_role(Role::Guest) && !access.project.archived
}

/// Writes a system note on the source and on the target. Users who cannot see one issue do not see the note on the
/// other.
async fn write_notes(
    transaction: &DatabaseTransaction,
    author: i64,
    link: &Model,
    [on_source, on_target]: [String; 2],
) -> Result<()> {
    let (source, target) = (
        NoteableId::Issue(link.source_id),
        NoteableId::Issue(link.target_id),
    );
    let notes = [
        system_notes::cross_reference(source, target, Some(author), on_source),
        system_notes::cross_reference(target, source, Some(author), on_target),
    ];
    notes::Entity::insert_many(notes)
        .exec_without_returning(transaction)
        .await?;
    Ok(())
}

/// Loads the issues of a link.
async fn with_issues(db: &impl ConnectionTrait, caller: &Caller, link: Model) -> Result<IssueLink> {
    let mut details = visible_details(db, caller, vec![link.source_id, link.target_id]).await?;
    let (source, target) = (details.remove(&link.source_id), details.remove(&link.target_id));
    Ok(IssueLink {
        source: source.ok_or_else(not_found)?,
        target: target.ok_or_else(not_found)?,
        link,
    })
}

/// Returns the issues that are visible to the caller, by ID.
async fn visible_details(
    db: &impl ConnectionTrait,
    caller: &Caller,
    ids: Vec<i64>,
) -> Result<HashMap<i64, IssueDetail>> {
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let found = issues::Entity::find()
        .filter(issues::Column::Id.is_in(ids))
        .filter(issues::visible(caller.viewer(), now().date_naive()));
    let found = all_with_texts(db, caller, found).await?;
    let details = decorate(db, caller, found).await?.into_iter();
    Ok(details.map(|detail| (detail.issue.id, detail)).collect())
}

fn path(access: &ProjectAccess) -> String {
    urls::project_path(&access.namespace, &access.project)
}

/// Returns the reference to an issue in a text on an issue of a project.
fn reference(from: &str, project_path: &str, iid: i64) -> String {
    match from == project_path {
        true => format!("#{iid}"),
        false => format!("{project_path}#{iid}"),
    }
}

/// Returns the text of a new link.
fn marked(link_type: IssueLinkType, other: &str) -> String {
    let relation = match link_type {
        IssueLinkType::RelatesTo => "related to",
        IssueLinkType::Blocks => "blocking",
        IssueLinkType::IsBlockedBy => "blocked by",
    };
    format!("marked this issue as {relation} {other}")
}

/// Returns the text of a deleted link.
fn removed(other: &str) -> String {
    format!("removed the relation with {other}")
}

fn not_found() -> Error {
    Error::not_found("")
}
