//! Boards of projects and groups, with their [`changes`] and [`lists`].

mod changes;
pub mod lists;

pub use changes::{BoardUpdate, create, delete, update};
pub(crate) use changes::{MAX_BOARD_LABELS, MAX_BOARDS, check_member, valid_row};

use std::collections::HashMap;

use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect};
use storage::entities::boards::{self, Column, Model};
use storage::entities::{board_labels, board_lists, labels, milestones, namespaces, projects, users};

use crate::identity::space_access::SpaceAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::policy::InstancePlan;
use crate::kernel::query::page_of;
use crate::planning::milestones::{self as milestones_service, MilestoneDetail};

/// A board with its lists and the resources that it references.
#[derive(Debug, Clone)]
pub struct BoardDetail {
    /// The board.
    pub board: Model,
    /// The project or group that owns it.
    pub owner: BoardOwner,
    /// The milestone by which its issues are filtered.
    pub milestone: Option<MilestoneDetail>,
    /// The assignee by which its issues are filtered.
    pub assignee: Option<users::Model>,
    /// The labels by which its issues are filtered, sorted by title.
    pub labels: Vec<labels::Model>,
    /// Its lists, by position.
    pub lists: Vec<BoardListDetail>,
}

/// The project or group that owns a board.
#[derive(Debug, Clone)]
pub enum BoardOwner {
    /// A project, and its full path.
    Project(Box<projects::Model>, String),
    /// A group.
    Group(Box<namespaces::Model>),
}

/// A list of a board.
#[derive(Debug, Clone)]
pub struct BoardListDetail {
    /// ID of the list.
    pub id: i64,
    /// Position, counted from 0.
    pub position: usize,
    /// The label, if the list is of a label.
    pub label: Option<labels::Model>,
    /// The milestone, if the list is of a milestone.
    pub milestone: Option<MilestoneDetail>,
    /// The user, if the list is of an assignee.
    pub assignee: Option<users::Model>,
}

/// Returns a page of the boards of a project or group in order of creation.
///
/// # Errors
/// Returns `Error::Forbidden` if issues are not available to the caller.
pub async fn list(backend: &Backend, space: &SpaceAccess, page: &PageRequest) -> Result<Page<BoardDetail>> {
    space.check_issues()?;
    let db = backend.database.read();
    let query = boards::within(space.scope()).order_by_asc(Column::Id);
    let Page { items, rest } = page_of(db, query, page).await?;
    let items = details(db, space, items).await?;
    Ok(Page { items, rest })
}

/// Returns one board of a project or group.
///
/// # Errors
/// Returns `Error::NotFound` if the board does not exist. Returns `Error::Forbidden` if issues are not
/// available to the caller.
pub async fn get(backend: &Backend, space: &SpaceAccess, id: i64) -> Result<BoardDetail> {
    space.check_issues()?;
    let db = backend.database.read();
    let own = boards::within(space.scope()).filter(Column::Id.eq(id));
    let board = own.one(db).await?.ok_or_else(missing)?;
    detail(db, space, board).await
}

/// Locks a board until the transaction ends. Changes of its lists need this lock.
async fn lock(db: &impl ConnectionTrait, space: &SpaceAccess, id: i64) -> Result<Model> {
    let own = boards::within(space.scope()).filter(Column::Id.eq(id));
    own.lock_exclusive().one(db).await?.ok_or_else(missing)
}

fn missing() -> Error {
    Error::not_found("Board")
}

/// Rejects a feature of the Premium plan on plans below it.
fn check_premium(backend: &Backend) -> Result<()> {
    if backend.instance.plan < InstancePlan::Premium {
        return Err(Error::forbidden_because(
            "The plan of this server does not include this feature",
        ));
    }
    Ok(())
}

async fn detail(db: &impl ConnectionTrait, space: &SpaceAccess, board: Model) -> Result<BoardDetail> {
    let mut details = details(db, space, vec![board]).await?;
    details.pop().ok_or_else(missing)
}

/// Returns boards with their data, in a fixed number of statements.
async fn details(
    db: &impl ConnectionTrait,
    space: &SpaceAccess,
    boards: Vec<Model>,
) -> Result<Vec<BoardDetail>> {
    let ids: Vec<i64> = boards.iter().map(|board| board.id).collect();
    let lists = board_lists::of(ids.iter().copied())
        .find_also_related(labels::Entity)
        .all(db)
        .await?;
    let mut labels_by_board: HashMap<i64, Vec<labels::Model>> = HashMap::new();
    let board_label_rows = board_labels::Entity::find()
        .find_also_related(labels::Entity)
        .filter(board_labels::Column::BoardId.is_in(ids))
        .order_by_asc(labels::Column::Title)
        .all(db)
        .await?;
    for (row, label) in board_label_rows {
        labels_by_board.entry(row.board_id).or_default().extend(label);
    }
    let references = References::load(
        db,
        space,
        lists
            .iter()
            .filter_map(|(list, _)| list.milestone_id)
            .chain(boards.iter().filter_map(|board| board.milestone_id)),
        lists
            .iter()
            .filter_map(|(list, _)| list.assignee_id)
            .chain(boards.iter().filter_map(|board| board.assignee_id)),
    )
    .await?;
    let mut lists_by_board: HashMap<i64, Vec<BoardListDetail>> = HashMap::new();
    for (list, label) in lists {
        let board_lists = lists_by_board.entry(list.board_id).or_default();
        // Positions are counted here, so that deleted lists leave no gap.
        board_lists.push(references.list(&list, label, board_lists.len()));
    }
    let details = boards.into_iter().map(|board| BoardDetail {
        owner: match &space.project {
            Some(project) => BoardOwner::Project(Box::new(project.clone()), space.full_path()),
            None => BoardOwner::Group(Box::new(space.namespace.clone())),
        },
        milestone: references.milestone(board.milestone_id),
        assignee: references.user(board.assignee_id),
        labels: labels_by_board.remove(&board.id).unwrap_or_default(),
        lists: lists_by_board.remove(&board.id).unwrap_or_default(),
        board,
    });
    Ok(details.collect())
}

/// The milestones and users that boards and lists reference.
struct References {
    milestones: HashMap<i64, MilestoneDetail>,
    users: HashMap<i64, users::Model>,
}

impl References {
    async fn load(
        db: &impl ConnectionTrait,
        space: &SpaceAccess,
        milestone_ids: impl Iterator<Item = i64>,
        user_ids: impl Iterator<Item = i64>,
    ) -> Result<Self> {
        let mut references = Self {
            milestones: HashMap::new(),
            users: HashMap::new(),
        };
        let milestone_ids: Vec<i64> = milestone_ids.collect();
        if !milestone_ids.is_empty() {
            let found = milestones::Entity::find().filter(milestones::Column::Id.is_in(milestone_ids));
            let details = milestones_service::details(db, space, found.all(db).await?).await?;
            references
                .milestones
                .extend(details.into_iter().map(|detail| (detail.milestone.id, detail)));
        }
        let user_ids: Vec<i64> = user_ids.collect();
        if !user_ids.is_empty() {
            let found = users::Entity::find().filter(users::Column::Id.is_in(user_ids));
            let found = found.all(db).await?.into_iter();
            references.users.extend(found.map(|user| (user.id, user)));
        }
        Ok(references)
    }

    fn milestone(&self, id: Option<i64>) -> Option<MilestoneDetail> {
        id.and_then(|id| self.milestones.get(&id).cloned())
    }

    fn user(&self, id: Option<i64>) -> Option<users::Model> {
        id.and_then(|id| self.users.get(&id).cloned())
    }

    fn list(
        &self,
        list: &board_lists::Model,
        label: Option<labels::Model>,
        position: usize,
    ) -> BoardListDetail {
        BoardListDetail {
            id: list.id,
            position,
            label,
            milestone: self.milestone(list.milestone_id),
            assignee: self.user(list.assignee_id),
        }
    }
}
