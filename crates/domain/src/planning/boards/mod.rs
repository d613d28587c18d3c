//! Boards of projects and groups, with their [`changes`] and [`lists`].

mod changes;
pub mod lists;

pub use changes::{Change, create, delete, update};
pub(crate) use changes::{MOST, MOST_LABELS, check_member, checked};

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
use crate::planning::milestones as of_milestones;

/// A board with all data of its representation.
#[derive(Debug, Clone)]
pub struct Row {
    /// The board.
    pub board: Model,
    /// The project or group that owns it.
    pub home: Home,
    /// The milestone by which its issues are filtered.
    pub milestone: Option<of_milestones::Row>,
    /// The assignee by which its issues are filtered.
    pub assignee: Option<users::Model>,
    /// The labels by which its issues are filtered, sorted by title.
    pub labels: Vec<labels::Model>,
    /// Its lists, by position.
    pub lists: Vec<List>,
}

/// Owner of a board.
#[derive(Debug, Clone)]
pub enum Home {
    /// A project, and its full path.
    Project(Box<projects::Model>, String),
    /// A group.
    Group(Box<namespaces::Model>),
}

/// A list of a board.
#[derive(Debug, Clone)]
pub struct List {
    /// ID of the list.
    pub id: i64,
    /// Position, counted from 0.
    pub position: usize,
    /// The label, if the list is of a label.
    pub label: Option<labels::Model>,
    /// The milestone, if the list is of a milestone.
    pub milestone: Option<of_milestones::Row>,
    /// The user, if the list is of an assignee.
    pub assignee: Option<users::Model>,
}

/// Returns a page of the boards of a project or group in order of creation.
///
/// # Errors
/// Returns `Error::Forbidden` if issues are not available to the caller.
pub async fn list(backend: &Backend, place: &SpaceAccess, page: &PageRequest) -> Result<Page<Row>> {
    place.check_issues()?;
    let db = backend.database.read();
    let wanted = boards::within(place.scope()).order_by_asc(Column::Id);
    let Page { items, rest } = page_of(db, wanted, page).await?;
    let items = decorate(db, place, items).await?;
    Ok(Page { items, rest })
}

/// Returns one board of a project or group.
///
/// # Errors
/// Returns `Error::NotFound` if the board does not exist. Returns `Error::Forbidden` if issues are not
/// available to the caller.
pub async fn read(backend: &Backend, place: &SpaceAccess, id: i64) -> Result<Row> {
    place.check_issues()?;
    let db = backend.database.read();
    let found = boards::within(place.scope()).filter(Column::Id.eq(id));
    let board = found.one(db).await?.ok_or_else(missing)?;
    row(db, place, board).await
}

/// Locks a board until the transaction ends. Changes of its lists need this lock.
async fn lock(db: &impl ConnectionTrait, place: &SpaceAccess, id: i64) -> Result<Model> {
    let own = boards::within(place.scope()).filter(Column::Id.eq(id));
    own.lock_exclusive().one(db).await?.ok_or_else(missing)
}

fn missing() -> Error {
    Error::not_found("Board")
}

/// Rejects features that require the premium plan.
fn admit_to_premium(backend: &Backend) -> Result<()> {
    if backend.instance.plan < InstancePlan::Premium {
        return Err(Error::forbidden_because(
            "The plan of this server does not include this feature",
        ));
    }
    Ok(())
}

async fn row(db: &impl ConnectionTrait, place: &SpaceAccess, board: Model) -> Result<Row> {
    let mut rows = decorate(db, place, vec![board]).await?;
    rows.pop().ok_or_else(missing)
}

/// Loads the data of boards in few statements.
async fn decorate(db: &impl ConnectionTrait, place: &SpaceAccess, boards: Vec<Model>) -> Result<Vec<Row>> {
    let ids: Vec<i64> = boards.iter().map(|board| board.id).collect();
    let lists = board_lists::of(ids.iter().copied())
        .find_also_related(labels::Entity)
        .all(db)
        .await?;
    let mut carried: HashMap<i64, Vec<labels::Model>> = HashMap::new();
    let of_boards = board_labels::Entity::find()
        .find_also_related(labels::Entity)
        .filter(board_labels::Column::BoardId.is_in(ids))
        .order_by_asc(labels::Column::Title)
        .all(db)
        .await?;
    for (row, label) in of_boards {
        carried.entry(row.board_id).or_default().extend(label);
    }
    let named = Named::of(
        db,
        place,
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
    let mut listed: HashMap<i64, Vec<List>> = HashMap::new();
    for (list, label) in lists {
        let on_board = listed.entry(list.board_id).or_default();
        // Positions are counted here, so a list whose subject was deleted leaves no gap.
        on_board.push(named.list(&list, label, on_board.len()));
    }
    let rows = boards.into_iter().map(|board| Row {
        home: match &place.project {
            Some(project) => Home::Project(Box::new(project.clone()), place.full_path()),
            None => Home::Group(Box::new(place.namespace.clone())),
        },
        milestone: named.milestone(board.milestone_id),
        assignee: named.user(board.assignee_id),
        labels: carried.remove(&board.id).unwrap_or_default(),
        lists: listed.remove(&board.id).unwrap_or_default(),
        board,
    });
    Ok(rows.collect())
}

/// The milestones and users that boards and lists reference.
struct Named {
    milestones: HashMap<i64, of_milestones::Row>,
    users: HashMap<i64, users::Model>,
}

impl Named {
    async fn of(
        db: &impl ConnectionTrait,
        place: &SpaceAccess,
        milestone_ids: impl Iterator<Item = i64>,
        user_ids: impl Iterator<Item = i64>,
    ) -> Result<Self> {
        let mut named = Self {
            milestones: HashMap::new(),
            users: HashMap::new(),
        };
        let milestone_ids: Vec<i64> = milestone_ids.collect();
        if !milestone_ids.is_empty() {
            let found = milestones::Entity::find().filter(milestones::Column::Id.is_in(milestone_ids));
            let rows = of_milestones::locate(db, place, found.all(db).await?).await?;
            named
                .milestones
                .extend(rows.into_iter().map(|row| (row.milestone.id, row)));
        }
        let user_ids: Vec<i64> = user_ids.collect();
        if !user_ids.is_empty() {
            let found = users::Entity::find().filter(users::Column::Id.is_in(user_ids));
            let found = found.all(db).await?.into_iter();
            named.users.extend(found.map(|user| (user.id, user)));
        }
        Ok(named)
    }

    fn milestone(&self, id: Option<i64>) -> Option<of_milestones::Row> {
        id.and_then(|id| self.milestones.get(&id).cloned())
    }

    fn user(&self, id: Option<i64>) -> Option<users::Model> {
        id.and_then(|id| self.users.get(&id).cloned())
    }

    fn list(&self, list: &board_lists::Model, label: Option<labels::Model>, position: usize) -> List {
        List {
            id: list.id,
            position,
            label,
            milestone: self.milestone(list.milestone_id),
            assignee: self.user(list.assignee_id),
        }
    }
}
