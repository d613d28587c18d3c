//! Targets of to-do items, of all types.

use std::collections::HashMap;

use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter};
use storage::entities::access::Viewer;
use storage::entities::todos::TodoTarget;
use storage::entities::{epics, issues, merge_requests, namespaces, users};

use crate::kernel::error::Result;
use crate::planning::issuables::Associations;
use crate::planning::{epics as epics_service, issues as issues_service};
use crate::review::merge_requests as merge_requests_service;

/// The target of a to-do item.
#[derive(Debug, Clone)]
pub enum Thing {
    /// An issue.
    Issue(Box<issues_service::IssueDetail>),
    /// A merge request.
    MergeRequest(Box<merge_requests_service::MergeRequestDetail>),
    /// An epic.
    Epic(Box<epics_service::EpicDetail>),
}

/// The targets of a page.
#[derive(Debug)]
pub(super) struct Things {
    things: HashMap<TodoTarget, Thing>,
    people: HashMap<i64, users::Model>,
}

impl Things {
    /// Loads targets with their associations, as visible to the viewer. `paths` are the full paths of their
    /// projects; `people` are further users to load.
    ///
    /// # Errors
    /// Returns an error if a database query fails.
    pub async fn load(
        db: &impl ConnectionTrait,
        viewer: Viewer,
        targets: &[TodoTarget],
        paths: HashMap<i64, String>,
        people: Vec<i64>,
    ) -> Result<Self> {
        let found = Found::read(db, viewer, targets).await?;
        let authors = found.epics.iter().filter_map(|(epic, _)| epic.author_id);
        let wanted: Vec<i64> = people.into_iter().chain(authors).collect();
        let (of_issues, of_requests) =
            Associations::load_both(db, &found.issues, &found.merge_requests, paths, wanted.clone()).await?;
        let people = wanted
            .into_iter()
            .filter_map(|id| Some((id, of_issues.user(Some(id))?)));
        let people: HashMap<i64, users::Model> = people.collect();
        Ok(Self {
            things: found.things(db, viewer, of_issues, of_requests, &people).await?,
            people,
        })
    }

    /// Returns a target, or `None` if it was deleted since the page was read.
    pub fn get(&self, target: TodoTarget) -> Option<&Thing> {
        self.things.get(&target)
    }

    /// Returns a loaded user, or `None` if the user was deleted.
    pub fn person(&self, id: Option<i64>) -> Option<users::Model> {
        id.and_then(|id| self.people.get(&id).cloned())
    }
}

/// The rows of the targets.
struct Found {
    issues: Vec<issues::Model>,
    merge_requests: Vec<merge_requests::Model>,
    epics: Vec<(epics::Model, Option<namespaces::Model>)>,
}

impl Found {
    async fn read(db: &impl ConnectionTrait, viewer: Viewer, targets: &[TodoTarget]) -> Result<Self> {
        let (mut in_issues, mut in_requests, mut in_epics) = (Vec::new(), Vec::new(), Vec::new());
        for target in targets {
            match target {
                TodoTarget::Issue(id) => in_issues.push(*id),
                TodoTarget::MergeRequest(id) => in_requests.push(*id),
                TodoTarget::Epic(id) => in_epics.push(*id),
            }
        }
        let issues = issues::Entity::find().filter(issues::Column::Id.is_in(in_issues.clone()));
        let requests =
            merge_requests::Entity::find().filter(merge_requests::Column::Id.is_in(in_requests.clone()));
        let epics = epics::Entity::find()
            .find_also_related(namespaces::Entity)
            .filter(epics::Column::Id.is_in(in_epics.clone()));
        Ok(Self {
            issues: match in_issues.is_empty() {
                true => Vec::new(),
                false => issues_service::hide_invisible(db, viewer, issues.all(db).await?).await?,
            },
            merge_requests: match in_requests.is_empty() {
                true => Vec::new(),
                false => requests.all(db).await?,
            },
            epics: match in_epics.is_empty() {
                true => Vec::new(),
                false => epics.all(db).await?,
            },
        })
    }

    async fn things(
        self,
        db: &impl ConnectionTrait,
        viewer: Viewer,
        of_issues: Associations,
        of_requests: Associations,
        people: &HashMap<i64, users::Model>,
    ) -> Result<HashMap<TodoTarget, Thing>> {
        let epics = self.epics.into_iter().filter_map(|(epic, group)| {
            let author = epic.author_id.and_then(|id| people.get(&id).cloned());
            Some((group?, author, epic))
        });
        let issues = issues_service::with_associations(self.issues, of_issues).into_iter();
        let requests =
            merge_requests_service::with_associations(db, self.merge_requests, of_requests).await?;
        let epics = epics_service::with_associations(db, viewer, epics.collect()).await?;
        let issues = issues.map(|row| (TodoTarget::Issue(row.issue.id), Thing::Issue(Box::new(row))));
        let requests = requests.into_iter().map(|row| {
            let target = TodoTarget::MergeRequest(row.merge_request.id);
            (target, Thing::MergeRequest(Box::new(row)))
        });
        let epics = epics
            .into_iter()
            .map(|row| (TodoTarget::Epic(row.epic.id), Thing::Epic(Box::new(row))));
        Ok(issues.chain(requests).chain(epics).collect())
    }
}
