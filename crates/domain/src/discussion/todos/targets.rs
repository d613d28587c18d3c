//! Targets of to-do items, of all types.

use std::collections::HashMap;

use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QueryTrait};
use storage::entities::large_texts::read_sized_joined;
use storage::entities::related_rows::RelatedRows;
use storage::entities::todos::TodoTarget;
use storage::entities::users::UserSummary;
use storage::entities::{epics, issues, merge_requests, milestones, namespaces};

use crate::kernel::caller::Caller;
use crate::kernel::error::Result;
use crate::kernel::query::with_texts;
use crate::planning::epics::EpicParts;
use crate::planning::issuables::list::read_with_milestones;
use crate::planning::issuables::{AssociationRequest, WithMilestone};
use crate::planning::{epics as epics_service, issues as issues_service};
use crate::review::merge_requests as merge_requests_service;

/// The target of a to-do item.
#[derive(Debug, Clone)]
pub enum TodoTargetDetail {
    /// An issue.
    Issue(Box<issues_service::IssueDetail>),
    /// A merge request.
    MergeRequest(Box<merge_requests_service::MergeRequestDetail>),
    /// An epic.
    Epic(Box<epics_service::EpicDetail>),
}

impl TodoTargetDetail {
    /// Returns the size of the description in bytes.
    pub(super) fn text_bytes(&self) -> usize {
        let text = match self {
            Self::Issue(detail) => &detail.issue.description,
            Self::MergeRequest(detail) => &detail.merge_request.description,
            Self::Epic(detail) => &detail.epic.description,
        };
        text.as_ref().map_or(0, String::len)
    }
}

/// The targets of a page.
#[derive(Debug)]
pub(super) struct TodoTargetDetails {
    targets: HashMap<TodoTarget, TodoTargetDetail>,
    users: HashMap<i64, UserSummary>,
}

impl TodoTargetDetails {
    /// Loads targets with their associations, as visible to the caller. `paths` are the full paths of their
    /// projects; `user_ids` are further users to load.
    ///
    /// # Errors
    /// Returns `Overloaded` if too little memory is left for their texts, or an error if a database query fails.
    pub async fn load(
        db: &impl ConnectionTrait,
        caller: &Caller,
        targets: &[TodoTarget],
        paths: HashMap<i64, String>,
        user_ids: Vec<i64>,
    ) -> Result<Self> {
        let rows = TargetRows::load(db, caller, targets).await?;
        let authors = rows.epics.iter().filter_map(|(epic, _)| epic.author_id);
        let user_ids: Vec<i64> = user_ids.into_iter().chain(authors).collect();
        let mut related = RelatedRows::default();
        let epics = rows.epics.iter().map(|(epic, _)| epic);
        let viewer = caller.viewer();
        let epic_parts = EpicParts::add(&mut related, db.get_database_backend(), viewer, epics);
        let request = AssociationRequest {
            caller,
            viewer,
            issues: &rows.issues,
            merge_requests: &rows.merge_requests,
            paths,
            user_ids: user_ids.clone(),
        };
        let (mut associations, mut related) = request.load(db, related).await?;
        let users = user_ids
            .into_iter()
            .filter_map(|id| Some((id, associations.user(Some(id))?)));
        let users: HashMap<i64, UserSummary> = users.collect();
        let epics = epic_parts.take(&mut related).details(rows.epics, &users);
        let issues = issues_service::with_associations(rows.issues, &mut associations).into_iter();
        let merge_requests =
            merge_requests_service::with_associations(rows.merge_requests, &mut associations).into_iter();
        let issues = issues.map(|row| {
            let target = TodoTarget::Issue(row.issue.id);
            (target, TodoTargetDetail::Issue(Box::new(row)))
        });
        let merge_requests = merge_requests.map(|row| {
            let target = TodoTarget::MergeRequest(row.merge_request.id);
            (target, TodoTargetDetail::MergeRequest(Box::new(row)))
        });
        let epics = epics.into_iter().map(|row| {
            let target = TodoTarget::Epic(row.epic.id);
            (target, TodoTargetDetail::Epic(Box::new(row)))
        });
        Ok(Self {
            targets: issues.chain(merge_requests).chain(epics).collect(),
            users,
        })
    }

    /// Returns a target, or `None` if it was deleted after the page was read.
    pub fn get(&self, target: TodoTarget) -> Option<&TodoTargetDetail> {
        self.targets.get(&target)
    }

    /// Returns a loaded user, or `None` if the user was deleted.
    pub fn user(&self, id: Option<i64>) -> Option<UserSummary> {
        id.and_then(|id| self.users.get(&id).cloned())
    }
}

/// The rows of the targets.
struct TargetRows {
    issues: Vec<WithMilestone<issues::Model>>,
    merge_requests: Vec<WithMilestone<merge_requests::Model>>,
    epics: Vec<(epics::Model, Option<namespaces::Model>)>,
}

impl TargetRows {
    async fn load(db: &impl ConnectionTrait, caller: &Caller, targets: &[TodoTarget]) -> Result<Self> {
        let (mut issue_ids, mut merge_request_ids, mut epic_ids) = (Vec::new(), Vec::new(), Vec::new());
        for target in targets {
            match target {
                TodoTarget::Issue(id) => issue_ids.push(*id),
                TodoTarget::MergeRequest(id) => merge_request_ids.push(*id),
                TodoTarget::Epic(id) => epic_ids.push(*id),
            }
        }
        let issues = issues::Entity::find()
            .find_also_related(milestones::Entity)
            .filter(issues::Column::Id.is_in(issue_ids.clone()));
        let merge_requests = merge_requests::Entity::find()
            .find_also_related(milestones::Entity)
            .filter(merge_requests::Column::Id.is_in(merge_request_ids.clone()));
        let epics = epics::Entity::find()
            .find_also_related(namespaces::Entity)
            .filter(epics::Column::Id.is_in(epic_ids.clone()));
        Ok(Self {
            issues: match issue_ids.is_empty() {
                true => Vec::new(),
                false => {
                    let found = read_with_milestones::<issues::Entity>(db, issues.into_query()).await?;
                    with_texts::<issues::Entity, _>(db, caller, found).await?
                }
            },
            merge_requests: match merge_request_ids.is_empty() {
                true => Vec::new(),
                false => {
                    let rows = merge_requests.into_query();
                    let found = read_with_milestones::<merge_requests::Entity>(db, rows).await?;
                    with_texts::<merge_requests::Entity, _>(db, caller, found).await?
                }
            },
            epics: match epic_ids.is_empty() {
                true => Vec::new(),
                false => {
                    let rows = epics.into_query();
                    let found = read_sized_joined::<epics::Entity, namespaces::Entity>(db, rows).await?;
                    with_texts::<epics::Entity, _>(db, caller, found).await?
                }
            },
        })
    }
}
