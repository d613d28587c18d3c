//! Rows related to issues and merge requests, loaded in a fixed number of statements per page.

use std::collections::HashMap;
use std::sync::Arc;

use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter};
use storage::entities::issuables::{assignees_of, labels_of};
use storage::entities::{issues, labels, merge_requests, milestones, namespaces, users};

use super::IssuableKind;
use crate::kernel::error::Result;
use crate::planning::milestones as milestones_service;
use crate::spaces::projects::paths_of;

/// An issue or merge request.
pub(crate) trait Issuable {
    /// Kind of the issuable.
    const KIND: IssuableKind;

    /// Returns its ID.
    fn id(&self) -> i64;
    /// Returns the ID of its project.
    fn project_id(&self) -> i64;
    /// Returns the ID of its author.
    fn author_id(&self) -> Option<i64>;
    /// Returns the IDs of other users in its representation.
    fn others(&self) -> [Option<i64>; 2];
    /// Returns the ID of its milestone.
    fn milestone_id(&self) -> Option<i64>;
}

impl Issuable for issues::Model {
    const KIND: IssuableKind = IssuableKind::Issue;

    fn id(&self) -> i64 {
        self.id
    }

    fn project_id(&self) -> i64 {
        self.project_id
    }

    fn author_id(&self) -> Option<i64> {
        self.author_id
    }

    fn others(&self) -> [Option<i64>; 2] {
        [self.closed_by_id, None]
    }

    fn milestone_id(&self) -> Option<i64> {
        self.milestone_id
    }
}

impl Issuable for merge_requests::Model {
    const KIND: IssuableKind = IssuableKind::MergeRequest;

    fn id(&self) -> i64 {
        self.id
    }

    fn project_id(&self) -> i64 {
        self.target_project_id
    }

    fn author_id(&self) -> Option<i64> {
        self.author_id
    }

    fn others(&self) -> [Option<i64>; 2] {
        [self.closed_by_id, self.merged_by_id]
    }

    fn milestone_id(&self) -> Option<i64> {
        self.milestone_id
    }
}

/// Related rows of the issuables of a page.
#[derive(Debug, Default)]
pub(crate) struct Belongings {
    labels: HashMap<i64, Vec<labels::Model>>,
    assignees: HashMap<i64, Vec<users::Model>>,
    shared: Arc<Shared>,
}

/// Related rows that several issuables of either kind may share.
#[derive(Debug, Default)]
struct Shared {
    paths: HashMap<i64, String>,
    people: HashMap<i64, users::Model>,
    milestones: HashMap<i64, milestones_service::MilestoneDetail>,
}

/// References of an issuable to shared rows.
struct Facts {
    project_id: i64,
    people: [Option<i64>; 3],
    milestone_id: Option<i64>,
}

impl Facts {
    fn of(thing: &impl Issuable) -> Self {
        let [one, other] = thing.others();
        Self {
            project_id: thing.project_id(),
            people: [thing.author_id(), one, other],
            milestone_id: thing.milestone_id(),
        }
    }
}

impl Belongings {
    /// Returns the full path of its project, or `None` if the project was deleted since the page was read.
    pub fn path(&self, of: &impl Issuable) -> Option<String> {
        self.shared.paths.get(&of.project_id()).cloned()
    }

    /// Returns a user by ID, unless deleted.
    pub fn person(&self, id: Option<i64>) -> Option<users::Model> {
        id.and_then(|id| self.shared.people.get(&id).cloned())
    }

    /// Returns the assignees in order of assignment.
    pub fn assignees(&mut self, of: &impl Issuable) -> Vec<users::Model> {
        self.assignees.remove(&of.id()).unwrap_or_default()
    }

    /// Returns the labels, sorted by title.
    pub fn labels(&mut self, of: &impl Issuable) -> Vec<labels::Model> {
        self.labels.remove(&of.id()).unwrap_or_default()
    }

    /// Returns the milestone.
    pub fn milestone(&self, of: &impl Issuable) -> Option<milestones_service::MilestoneDetail> {
        of.milestone_id()
            .and_then(|id| self.shared.milestones.get(&id).cloned())
    }
}

/// Loads the related rows of a whole page. `paths` has the full paths of projects that are already known.
///
/// # Errors
/// Returns an error if the database fails.
pub(crate) async fn gather<T: Issuable>(
    db: &impl ConnectionTrait,
    found: &[T],
    paths: HashMap<i64, String>,
) -> Result<Belongings> {
    if found.is_empty() {
        return Ok(Belongings::default());
    }
    let shared = shared(db, found.iter().map(Facts::of).collect(), paths, Vec::new()).await?;
    own(db, found, Arc::new(shared)).await
}

/// Like [`gather`], for both kinds at once. `people` has the IDs of further users to load.
///
/// # Errors
/// Returns an error if the database fails.
pub(crate) async fn gather_both(
    db: &impl ConnectionTrait,
    issues: &[issues::Model],
    merge_requests: &[merge_requests::Model],
    paths: HashMap<i64, String>,
    people: Vec<i64>,
) -> Result<(Belongings, Belongings)> {
    let facts = issues.iter().map(Facts::of);
    let facts = facts.chain(merge_requests.iter().map(Facts::of)).collect();
    let shared = Arc::new(shared(db, facts, paths, people).await?);
    Ok((
        own(db, issues, Arc::clone(&shared)).await?,
        own(db, merge_requests, shared).await?,
    ))
}

/// Loads the rows of each issuable that are not shared.
async fn own<T: Issuable>(db: &impl ConnectionTrait, found: &[T], shared: Arc<Shared>) -> Result<Belongings> {
    let ids = || found.iter().map(Issuable::id);
    let (labels, assignees) = match found.is_empty() {
        true => Default::default(),
        false => (
            labels_of(db, T::KIND, ids()).await?,
            assignees_of(db, T::KIND, ids()).await?,
        ),
    };
    Ok(Belongings {
        labels,
        assignees,
        shared,
    })
}

async fn shared(
    db: &impl ConnectionTrait,
    facts: Vec<Facts>,
    mut paths: HashMap<i64, String>,
    people: Vec<i64>,
) -> Result<Shared> {
    let unknown: Vec<i64> = facts
        .iter()
        .map(|one| one.project_id)
        .filter(|id| !paths.contains_key(id))
        .collect();
    if !unknown.is_empty() {
        paths.extend(paths_of(db, unknown).await?);
    }
    let (mut people, mut milestones) = (people, Vec::new());
    for one in &facts {
        people.extend(one.people.into_iter().flatten());
        milestones.extend(one.milestone_id);
    }
    Ok(Shared {
        people: people_of(db, people).await?,
        milestones: milestones_of(db, milestones, &paths).await?,
        paths,
    })
}

/// Returns users by ID.
async fn people_of(db: &impl ConnectionTrait, ids: Vec<i64>) -> Result<HashMap<i64, users::Model>> {
    let people = users::Entity::find()
        .filter(users::Column::Id.is_in(ids))
        .all(db)
        .await?;
    Ok(people.into_iter().map(|user| (user.id, user)).collect())
}

/// Returns milestones by ID, with the paths of their projects or groups.
async fn milestones_of(
    db: &impl ConnectionTrait,
    ids: Vec<i64>,
    paths: &HashMap<i64, String>,
) -> Result<HashMap<i64, milestones_service::MilestoneDetail>> {
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let found = milestones::Entity::find()
        .find_also_related(namespaces::Entity)
        .filter(milestones::Column::Id.is_in(ids))
        .all(db)
        .await?;
    let with_path = found.into_iter().filter_map(|(milestone, group)| {
        let path = match milestone.project_id {
            Some(id) => paths.get(&id)?.clone(),
            None => group?.full_path,
        };
        Some((
            milestone.id,
            milestones_service::MilestoneDetail::new(milestone, path),
        ))
    });
    Ok(with_path.collect())
}
