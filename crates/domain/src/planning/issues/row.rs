//! Issues with their related rows, loaded in one statement per page.

use std::collections::HashMap;
use std::sync::Arc;

use sea_orm::{ConnectionTrait, EntityTrait, QueryFilter};
use storage::entities::labels::LabelSummary;
use storage::entities::related_rows::{RelatedRowSets, RelatedRows};
use storage::entities::users::UserSummary;
use storage::entities::{issues, now};

use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::error::{Error, Result};
use crate::planning::issuables::subscriptions::SubscriptionParts;
use crate::planning::issuables::{
    AssociationRequest, Associations, WithMilestone, find_with_milestone, with_milestones,
};
use crate::planning::milestones::{self, MilestoneDetail};

/// An issue with its related rows.
#[derive(Debug, Clone)]
pub struct IssueDetail {
    /// The issue.
    pub issue: issues::Model,
    /// Full path of its project.
    pub project_path: String,
    /// The user who created it, unless deleted.
    pub author: Option<UserSummary>,
    /// The user who closed it; `None` if it is open or the user was deleted.
    pub closed_by: Option<UserSummary>,
    /// The assignees in order of assignment.
    pub assignees: Vec<UserSummary>,
    /// The labels, sorted by title.
    pub labels: Vec<LabelSummary>,
    /// The milestone.
    pub milestone: Option<Arc<MilestoneDetail>>,
    /// Whether the caller is subscribed; `None` in lists and for anonymous callers.
    pub subscribed: Option<bool>,
}

/// Returns one issue of a project.
///
/// # Errors
/// Returns `Error::NotFound` if it does not exist or the caller cannot see it. Returns `Error::Overloaded` if too little
/// memory is left for its related rows.
pub async fn get(backend: &Backend, access: &ProjectAccess, iid: i64) -> Result<IssueDetail> {
    let db = backend.database.read();
    let found = find_with_milestone(db, access, iid).await?;
    load_one(db, &access.caller, found).await
}

/// Returns an issue of any project.
///
/// # Errors
/// Returns the errors of [`get`].
pub async fn get_by_id(backend: &Backend, caller: &Caller, id: i64) -> Result<IssueDetail> {
    let found = issues::Entity::find_by_id(id)
        .filter(issues::visible(caller.viewer(), now().date_naive()))
        .one(backend.database.read())
        .await?;
    let issue = found.ok_or_else(|| Error::not_found("Issue"))?;
    load_detail(backend, caller, issue).await
}

/// Loads the related rows of an issue after a write was committed. Never fails because too little memory is left.
///
/// # Errors
/// Returns an error if the database fails.
pub(super) async fn load_written(
    backend: &Backend,
    caller: &Caller,
    issue: issues::Model,
) -> Result<IssueDetail> {
    load_detail(backend, &caller.after_commit(), issue).await
}

async fn load_detail(backend: &Backend, caller: &Caller, issue: issues::Model) -> Result<IssueDetail> {
    let db = backend.database.read();
    let found = with_milestones(db, vec![issue]).await?.pop();
    load_one(db, caller, found.ok_or_else(missing)?).await
}

/// Loads the related rows of one issue, and whether the caller is subscribed.
async fn load_one(
    db: &impl ConnectionTrait,
    caller: &Caller,
    found: WithMilestone<issues::Model>,
) -> Result<IssueDetail> {
    let mut related = RelatedRows::default();
    let user = caller.as_user();
    let subscription = user.map(|user| SubscriptionParts::add(&mut related, &found.0, user.id));
    let (mut details, mut rows) = load_details(db, caller, vec![found], related).await?;
    let mut detail = details.pop().ok_or_else(missing)?;
    let is_subscribed =
        |parts: SubscriptionParts| parts.is_subscribed(&mut rows, &detail.issue, &detail.assignees);
    detail.subscribed = subscription.map(is_subscribed);
    Ok(detail)
}

fn missing() -> Error {
    Error::internal("the project of an issue was not found")
}

/// Loads the related rows of a whole page that are visible to the caller, and reserves the memory of a response that
/// contains the description of the milestone once for each issue.
///
/// # Errors
/// Returns the errors of [`AssociationRequest::load`] and [`milestones::reserve_descriptions`].
pub(crate) async fn decorate(
    db: &impl ConnectionTrait,
    caller: &Caller,
    issues: Vec<issues::Model>,
) -> Result<Vec<IssueDetail>> {
    let found = with_milestones(db, issues).await?;
    let (details, _) = load_details(db, caller, found, RelatedRows::default()).await?;
    let copied = details.iter().filter_map(|detail| detail.milestone.as_deref());
    milestones::reserve_descriptions(caller, copied)?;
    Ok(details)
}

/// Loads the related rows of a whole page that are visible to the caller, in one statement with the parts of `related`.
///
/// # Errors
/// Returns the errors of [`AssociationRequest::load`].
pub(super) async fn load_details(
    db: &impl ConnectionTrait,
    caller: &Caller,
    found: Vec<WithMilestone<issues::Model>>,
    related: RelatedRows,
) -> Result<(Vec<IssueDetail>, RelatedRowSets)> {
    let request = AssociationRequest {
        caller,
        viewer: caller.viewer(),
        issues: &found,
        merge_requests: &[],
        paths: HashMap::new(),
        user_ids: Vec::new(),
    };
    let (mut associations, rows) = request.load(db, related).await?;
    Ok((with_associations(found, &mut associations), rows))
}

/// Combines issues with their related rows. Issues whose project was deleted meanwhile are left out.
pub(crate) fn with_associations(
    found: Vec<WithMilestone<issues::Model>>,
    associations: &mut Associations,
) -> Vec<IssueDetail> {
    let details = found.into_iter().filter_map(|(mut issue, _)| {
        associations.hide_invisible(&mut issue);
        Some(IssueDetail {
            project_path: associations.path(&issue)?,
            author: associations.user(issue.author_id),
            closed_by: associations.user(issue.closed_by_id),
            assignees: associations.assignees(&issue),
            labels: associations.labels(&issue),
            milestone: associations.milestone(&issue),
            subscribed: None,
            issue,
        })
    });
    details.collect()
}
