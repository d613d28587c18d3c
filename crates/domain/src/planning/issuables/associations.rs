//! Rows related to issues and merge requests, loaded in a fixed number of statements per page.

use std::collections::HashMap;
use std::sync::Arc;

use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter};
use storage::entities::issuables::{assignees_of, labels_of};
use storage::entities::{issues, labels, merge_requests, milestones, namespaces, users};

use super::IssuableKind;
use crate::kernel::error::Result;
use crate::planning::milestones as milestones_service;
use crate::planning::system_notes::NoteableId;
use crate::spaces::projects::paths_of;

/// An issue or merge request.
pub(crate) trait Issuable {
    /// Kind of the issuable.
    const KIND: IssuableKind;

    /// Returns its ID.
    fn id(&self) -> i64;
    /// Returns its IID.
    fn iid(&self) -> i64;
    /// Returns the ID of its project.
    fn project_id(&self) -> i64;
    /// Returns the ID of its author.
    fn author_id(&self) -> Option<i64>;
    /// Returns the IDs of the other users in its representation, who closed or merged it.
    fn other_user_ids(&self) -> [Option<i64>; 2];
    /// Returns the ID of its milestone.
    fn milestone_id(&self) -> Option<i64>;

    /// Returns its kind and ID.
    fn noteable_id(&self) -> NoteableId {
        match Self::KIND {
            IssuableKind::Issue => NoteableId::Issue(self.id()),
            IssuableKind::MergeRequest => NoteableId::MergeRequest(self.id()),
        }
    }
}

impl Issuable for issues::Model {
    const KIND: IssuableKind = IssuableKind::Issue;

    fn id(&self) -> i64 {
        self.id
    }

    fn iid(&self) -> i64 {
        self.iid
    }

    fn project_id(&self) -> i64 {
        self.project_id
    }

    fn author_id(&self) -> Option<i64> {
        self.author_id
    }

    fn other_user_ids(&self) -> [Option<i64>; 2] {
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

    fn iid(&self) -> i64 {
        self.iid
    }

    fn project_id(&self) -> i64 {
        self.target_project_id
    }

    fn author_id(&self) -> Option<i64> {
        self.author_id
    }

    fn other_user_ids(&self) -> [Option<i64>; 2] {
        [self.closed_by_id, self.merged_by_id]
    }

    fn milestone_id(&self) -> Option<i64> {
        self.milestone_id
    }
}

/// Related rows of the issuables of a page.
#[derive(Debug, Default)]
pub(crate) struct Associations {
    labels: HashMap<i64, Vec<labels::Model>>,
    assignees: HashMap<i64, Vec<users::Model>>,
    shared: Arc<SharedAssociations>,
}

/// Related rows that several issuables of either kind may share.
#[derive(Debug, Default)]
struct SharedAssociations {
    paths: HashMap<i64, String>,
    users: HashMap<i64, users::Model>,
    milestones: HashMap<i64, milestones_service::MilestoneDetail>,
}

/// IDs of the shared rows that an issuable refers to.
struct SharedIds {
    project_id: i64,
    user_ids: [Option<i64>; 3],
    milestone_id: Option<i64>,
}

impl SharedIds {
    fn of(issuable: &impl Issuable) -> Self {
        let [closed_by, merged_by] = issuable.other_user_ids();
        Self {
            project_id: issuable.project_id(),
            user_ids: [issuable.author_id(), closed_by, merged_by],
            milestone_id: issuable.milestone_id(),
        }
    }
}

impl Associations {
    /// Loads the related rows of a whole page. `paths` has the full paths of projects that are already known.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn load<T: Issuable>(
        db: &impl ConnectionTrait,
        issuables: &[T],
        paths: HashMap<i64, String>,
    ) -> Result<Self> {
        if issuables.is_empty() {
            return Ok(Self::default());
        }
        let ids = issuables.iter().map(SharedIds::of).collect();
        let shared = SharedAssociations::load(db, ids, paths, Vec::new()).await?;
        Self::load_own(db, issuables, Arc::new(shared)).await
    }

    /// Like [`Self::load`], for both kinds at once. `user_ids` has the IDs of further users to load.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn load_both(
        db: &impl ConnectionTrait,
        issues: &[issues::Model],
        merge_requests: &[merge_requests::Model],
        paths: HashMap<i64, String>,
        user_ids: Vec<i64>,
    ) -> Result<(Self, Self)> {
        let ids = issues.iter().map(SharedIds::of);
        let ids = ids.chain(merge_requests.iter().map(SharedIds::of)).collect();
        let shared = Arc::new(SharedAssociations::load(db, ids, paths, user_ids).await?);
        Ok((
            Self::load_own(db, issues, Arc::clone(&shared)).await?,
            Self::load_own(db, merge_requests, shared).await?,
        ))
    }

    /// Loads the rows of each issuable that are not shared.
    async fn load_own<T: Issuable>(
        db: &impl ConnectionTrait,
        issuables: &[T],
        shared: Arc<SharedAssociations>,
    ) -> Result<Self> {
        let ids = || issuables.iter().map(Issuable::id);
        let (labels, assignees) = match issuables.is_empty() {
            true => Default::default(),
            false => (
                labels_of(db, T::KIND, ids()).await?,
                assignees_of(db, T::KIND, ids()).await?,
            ),
        };
        Ok(Self {
            labels,
            assignees,
            shared,
        })
    }

    /// Returns the full path of the project, or `None` if the project was deleted since the page was read.
    pub fn path(&self, issuable: &impl Issuable) -> Option<String> {
        self.shared.paths.get(&issuable.project_id()).cloned()
    }

    /// Returns a user by ID, unless deleted.
    pub fn user(&self, id: Option<i64>) -> Option<users::Model> {
        id.and_then(|id| self.shared.users.get(&id).cloned())
    }

    /// Returns the assignees in order of assignment.
    pub fn assignees(&mut self, issuable: &impl Issuable) -> Vec<users::Model> {
        self.assignees.remove(&issuable.id()).unwrap_or_default()
    }

    /// Returns the labels, sorted by title.
    pub fn labels(&mut self, issuable: &impl Issuable) -> Vec<labels::Model> {
        self.labels.remove(&issuable.id()).unwrap_or_default()
    }

    /// Returns the milestone.
    pub fn milestone(&self, issuable: &impl Issuable) -> Option<milestones_service::MilestoneDetail> {
        let id = issuable.milestone_id()?;
        self.shared.milestones.get(&id).cloned()
    }
}

impl SharedAssociations {
    async fn load(
        db: &impl ConnectionTrait,
        issuables: Vec<SharedIds>,
        mut paths: HashMap<i64, String>,
        mut user_ids: Vec<i64>,
    ) -> Result<Self> {
        let unknown: Vec<i64> = issuables
            .iter()
            .map(|ids| ids.project_id)
            .filter(|id| !paths.contains_key(id))
            .collect();
        if !unknown.is_empty() {
            paths.extend(paths_of(db, unknown).await?);
        }
        let mut milestone_ids = Vec::new();
        for ids in &issuables {
            user_ids.extend(ids.user_ids.into_iter().flatten());
            milestone_ids.extend(ids.milestone_id);
        }
        Ok(Self {
            users: users_by_id(db, user_ids).await?,
            milestones: milestones_by_id(db, milestone_ids, &paths).await?,
            paths,
        })
    }
}

async fn users_by_id(db: &impl ConnectionTrait, ids: Vec<i64>) -> Result<HashMap<i64, users::Model>> {
    let users = users::Entity::find()
        .filter(users::Column::Id.is_in(ids))
        .all(db)
        .await?;
    Ok(users.into_iter().map(|user| (user.id, user)).collect())
}

/// Returns milestones by ID, with the paths of their projects or groups.
async fn milestones_by_id(
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
