//! Boards of projects and groups, with their [`changes`] and [`lists`].

mod changes;
pub mod lists;

pub use changes::{BoardUpdate, create, delete, update};
pub(crate) use changes::{MAX_BOARD_LABELS, MAX_BOARDS, check_member, valid_row};

use std::collections::HashMap;

use sea_orm::{ColumnTrait, ConnectionTrait, DbBackend, EntityTrait, QueryFilter, QueryOrder, QuerySelect};
use storage::entities::board_lists::{self, ListSubject};
use storage::entities::boards::{self, Column, Model};
use storage::entities::labels::{LabelParts, LabelSummary};
use storage::entities::related_rows::{
    LinkTable, PartKey, RelatedPart, RelatedRow, RelatedRowSets, RelatedRows,
};
use storage::entities::users::UserSummary;
use storage::entities::{milestones, namespaces, projects};

use crate::identity::space_access::SpaceAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::policy::InstancePlan;
use crate::kernel::query::{all_with_texts, load_related, uncounted_page_of};
use crate::planning::labels as labels_service;
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
    pub assignee: Option<UserSummary>,
    /// The labels by which its issues are filtered, sorted by title.
    pub labels: Vec<LabelSummary>,
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
    pub label: Option<LabelSummary>,
    /// The milestone, if the list is of a milestone.
    pub milestone: Option<MilestoneDetail>,
    /// The user, if the list is of an assignee.
    pub assignee: Option<UserSummary>,
}

/// Returns a page of the boards of a project or group in order of creation.
///
/// # Errors
/// Returns `Error::Forbidden` if issues are not available to the caller.
pub async fn list(backend: &Backend, space: &SpaceAccess, page: &PageRequest) -> Result<Page<BoardDetail>> {
    space.check_issues()?;
    let db = backend.database.read();
    let query = boards::within(space.scope()).order_by_asc(Column::Id);
    let (found, total) = uncounted_page_of(db, query, page).await?;
    let mut related = RelatedRows::default();
    let counted = related.add(total.part());
    let (items, mut rows) = load_details(db, space, found, related).await?;
    Ok(Page {
        items,
        rest: total.position(&rows.take(counted)),
    })
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
    let (mut details, _) = load_details(db, space, vec![board], RelatedRows::default()).await?;
    details.pop().ok_or_else(missing)
}

/// Returns boards with their data, in one statement with the parts of `related`, and in others for milestones.
async fn load_details(
    db: &impl ConnectionTrait,
    space: &SpaceAccess,
    boards: Vec<Model>,
    mut related: RelatedRows,
) -> Result<(Vec<BoardDetail>, RelatedRowSets)> {
    let parts = BoardParts::add(&mut related, db.get_database_backend(), &boards);
    let mut rows = load_related(db, &space.caller, related).await?;
    let lists = rows.take(parts.lists);
    let of_list = |list: &RelatedRow| match board_lists::read_subject(list) {
        Some(ListSubject::Milestone(id)) => Some(id),
        _ => None,
    };
    let milestone_ids = lists.iter().filter_map(of_list);
    let milestone_ids = milestone_ids.chain(boards.iter().filter_map(|board| board.milestone_id));
    let milestone_ids: Vec<i64> = milestone_ids.collect();
    let milestones = milestones_by_id(db, space, milestone_ids.clone()).await?;
    // Each board and list contains a copy of its milestone.
    let copied = milestone_ids.iter().filter_map(|id| milestones.get(id));
    milestones_service::reserve_descriptions(&space.caller, copied)?;
    let list_labels = parts.list_labels.take(&mut rows).into_values().flatten();
    let references = References {
        milestones,
        users: parts.users(&mut rows)?,
        labels: list_labels.map(|label| (label.id, label)).collect(),
    };
    let mut labels_by_board = parts.board_labels.take(&mut rows);
    let mut lists_by_board: HashMap<i64, Vec<BoardListDetail>> = HashMap::new();
    for list in lists {
        let board_lists = lists_by_board.entry(list.owner_id).or_default();
        // Positions are counted here, so that deleted lists leave no gap.
        board_lists.push(references.list(&list, board_lists.len()));
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
    let details: Vec<BoardDetail> = details.collect();
    let labels = details.iter().flat_map(|board| {
        let of_lists = board.lists.iter().filter_map(|list| list.label.as_ref());
        board.labels.iter().chain(of_lists)
    });
    labels_service::reserve_descriptions(&space.caller, labels)?;
    Ok((details, rows))
}

/// Returns milestones by ID.
async fn milestones_by_id(
    db: &impl ConnectionTrait,
    space: &SpaceAccess,
    ids: Vec<i64>,
) -> Result<HashMap<i64, MilestoneDetail>> {
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let found = milestones::Entity::find().filter(milestones::Column::Id.is_in(ids));
    let found = all_with_texts(db, &space.caller, found).await?;
    let details = milestones_service::details(db, space, found).await?.into_iter();
    Ok(details.map(|detail| (detail.milestone.id, detail)).collect())
}

/// The parts of a statement with the data of boards.
struct BoardParts {
    lists: PartKey,
    list_labels: LabelParts,
    list_users: PartKey,
    board_labels: LabelParts,
    board_users: PartKey,
}

impl BoardParts {
    fn add(related: &mut RelatedRows, database: DbBackend, boards: &[Model]) -> Self {
        let ids: Vec<i64> = boards.iter().map(|board| board.id).collect();
        let links = |name: &'static str, column: &'static str, target: &'static str| LinkTable {
            name,
            owner_column: "board_id",
            column,
            target,
        };
        let of_lists = links("board_lists", "label_id", "labels");
        let of_boards = links("board_labels", "label_id", "labels");
        let list_users = links("board_lists", "assignee_id", "users");
        let list_users = RelatedPart::linked(database, list_users, &ids).map(UserSummary::columns);
        let assignees = boards.iter().filter_map(|board| board.assignee_id);
        Self {
            lists: related.add(board_lists::part(database, &ids)),
            list_labels: LabelParts::add(related, database, of_lists, &ids),
            list_users: related.add(list_users),
            board_labels: LabelParts::add(related, database, of_boards, &ids),
            board_users: related.add(UserSummary::part(database, assignees)),
        }
    }

    /// Returns the assignees of boards and lists by ID.
    fn users(&self, rows: &mut RelatedRowSets) -> Result<HashMap<i64, UserSummary>> {
        let mut users = HashMap::new();
        for row in rows
            .take(self.list_users)
            .into_iter()
            .chain(rows.take(self.board_users))
        {
            users.insert(row.id, UserSummary::read(row)?);
        }
        Ok(users)
    }
}

/// The milestones, users and labels that boards and lists reference.
struct References {
    milestones: HashMap<i64, MilestoneDetail>,
    users: HashMap<i64, UserSummary>,
    labels: HashMap<i64, LabelSummary>,
}

impl References {
    fn milestone(&self, id: Option<i64>) -> Option<MilestoneDetail> {
        id.and_then(|id| self.milestones.get(&id).cloned())
    }

    fn user(&self, id: Option<i64>) -> Option<UserSummary> {
        id.and_then(|id| self.users.get(&id).cloned())
    }

    fn list(&self, list: &RelatedRow, position: usize) -> BoardListDetail {
        let mut detail = BoardListDetail {
            id: list.id,
            position,
            label: None,
            milestone: None,
            assignee: None,
        };
        match board_lists::read_subject(list) {
            Some(ListSubject::Label(id)) => detail.label = self.labels.get(&id).cloned(),
            Some(ListSubject::Milestone(id)) => detail.milestone = self.milestone(Some(id)),
            Some(ListSubject::Assignee(id)) => detail.assignee = self.user(Some(id)),
            None => {}
        }
        detail
    }
}
