//! Contents of an archive: rows of one snapshot, read in batches and written as records.

use std::collections::HashMap;

use sea_orm::sea_query::{Expr, ExprTrait, Func};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait, QueryFilter, QueryOrder, QuerySelect,
    Related, Select,
};
use storage::entities::members::MembershipSource;
use storage::entities::row_conditions::by_code_points;
use storage::entities::{
    Scope, badges, board_labels, board_lists, boards, epic_labels, epics, issues, labels, members,
    milestones, namespace_ancestors, namespaces, now, users,
};

use super::writer::ArchiveWriter;
use crate::kernel::error::{Error, Result};
use crate::transfers::levels::{PROJECT_CREATION, SUBGROUP_CREATION, level_of, number_of};
use parsers::group_archive::layout::{
    ALL_FILE, GROUPS, MAX_GROUPS, MAX_RECORDS, MAX_RECORDS_PER_GROUP, Relation, VERSION, VERSION_FILE,
};
use parsers::group_archive::records::{
    BadgeRecord, BoardListRecord, BoardListType, BoardRecord, BoundedList, EpicRecord, EpicRecordState,
    GroupRecord, LabelName, LabelRecord, MemberRecord, MilestoneName, MilestoneRecord, MilestoneRecordState,
    UserRecord,
};

/// Rows read per statement.
const ROWS: usize = 200;
/// Maximum total length of the long texts in a batch, in characters. A single row may exceed it.
const MAX_BATCH_CHARACTERS: i64 = 256 << 10;

/// Private email addresses that an archive includes. Public ones are always included.
#[derive(Debug, Clone, Copy)]
pub struct AddressPolicy {
    /// Whether all addresses are included.
    pub all: bool,
    /// ID of the user who exports, whose address is included.
    pub own: i64,
}

/// Rejects a group that exceeds an import limit, because its archive could not be imported.
///
/// # Errors
/// Returns `Error::Rejected` if the group exceeds a limit. Returns an error if the database fails.
pub async fn check_limits(db: &impl ConnectionTrait, root: i64) -> Result<()> {
    let groups = namespace_ancestors::descendant_ids(db, root).await?.len();
    if groups > MAX_GROUPS {
        return Err(limit_error(format!("{MAX_GROUPS} groups")));
    }
    let mut of_groups: HashMap<i64, u64> = HashMap::new();
    macro_rules! count {
        ($($entity:ident),*) => {$(
            let counted: Vec<(i64, i64)> = $entity::Entity::find()
                .select_only()
                .column($entity::Column::NamespaceId)
                .column_as($entity::Column::Id.count(), "records")
                .filter($entity::Column::NamespaceId.in_subquery(namespace_ancestors::at_or_below(root)))
                .group_by($entity::Column::NamespaceId)
                .into_tuple()
                .all(db)
                .await?;
            for (group_id, records) in counted {
                *of_groups.entry(group_id).or_default() += records.unsigned_abs();
            }
        )*};
    }
    count!(milestones, labels, badges, members, boards, epics);
    if of_groups.values().any(|records| *records > MAX_RECORDS_PER_GROUP) {
        return Err(limit_error(format!(
            "{MAX_RECORDS_PER_GROUP} records in one group"
        )));
    }
    match of_groups.values().sum::<u64>() > MAX_RECORDS {
        true => Err(limit_error(format!("{MAX_RECORDS} records"))),
        false => Ok(()),
    }
}

fn limit_error(what: String) -> Error {
    Error::Rejected(format!("The group exceeds the import limit of {what}").into())
}

/// Writes a group and its subgroups.
///
/// # Errors
/// Returns `Error::Rejected` if the group exceeds an import limit. Returns an error if the database fails or
/// the archive cannot be written.
pub async fn write(
    snapshot: &DatabaseTransaction,
    root: i64,
    addresses: AddressPolicy,
    writer: &mut ArchiveWriter,
) -> Result<()> {
    check_limits(snapshot, root).await?;
    writer.begin(VERSION_FILE.to_owned()).await?;
    writer.text(VERSION);
    // Subgroups need no visibility check, because a group is hidden together with its subgroups.
    let ids = namespace_ancestors::descendant_ids(snapshot, root).await?;
    writer.begin(ALL_FILE.to_owned()).await?;
    for id in &ids {
        writer.line(id).await?;
    }
    for id in ids {
        let Some(group) = namespaces::Entity::find_by_id(id).one(snapshot).await? else {
            continue;
        };
        writer.begin(format!("{GROUPS}/{id}.json")).await?;
        writer.line(&attributes(group)).await?;
        for relation in Relation::ALL {
            writer
                .begin(format!("{GROUPS}/{id}/{}.ndjson", relation.name()))
                .await?;
            match relation {
                Relation::Milestones => milestones(snapshot, id, writer).await?,
                Relation::Labels => labels(snapshot, id, writer).await?,
                Relation::Badges => badges(snapshot, id, writer).await?,
                Relation::Members => members(snapshot, id, addresses, writer).await?,
                Relation::Boards => boards(snapshot, id, writer).await?,
                Relation::Epics => epics(snapshot, id, writer).await?,
            }
        }
    }
    Ok(())
}

fn attributes(group: namespaces::Model) -> GroupRecord {
    GroupRecord {
        id: group.id,
        parent_id: group.parent_id,
        name: group.name,
        path: group.path,
        description: Some(group.description),
        visibility_level: Some(level_of(group.visibility)),
        share_with_group_lock: Some(group.share_with_group_lock),
        membership_lock: Some(group.membership_lock),
        require_two_factor_authentication: Some(group.require_two_factor_authentication),
        two_factor_grace_period: Some(group.two_factor_grace_period.into()),
        project_creation_level: number_of(&PROJECT_CREATION, &group.project_creation_level),
        subgroup_creation_level: number_of(&SUBGROUP_CREATION, &group.subgroup_creation_level),
        auto_devops_enabled: group.auto_devops_enabled,
        emails_disabled: group.emails_disabled,
        mentions_disabled: group.mentions_disabled,
        lfs_enabled: Some(group.lfs_enabled),
        default_branch_protection: Some(group.default_branch_protection.into()),
        default_branch: group.default_branch,
        request_access_enabled: Some(group.request_access_enabled),
    }
}

/// Returns the IDs of rows in batches that fit into memory, by the length of a long text column.
async fn batches<E: EntityTrait>(
    snapshot: &DatabaseTransaction,
    rows: Select<E>,
    id: E::Column,
    text: Option<E::Column>,
) -> Result<Vec<Vec<i64>>> {
    let length = match text {
        Some(text) => Expr::expr(Func::char_length(Expr::col((E::default(), text)))).cast_as("bigint"),
        None => Expr::val(0).cast_as("bigint"),
    };
    let found: Vec<(i64, Option<i64>)> = rows
        .select_only()
        .column(id)
        .expr_as(length, "length")
        .order_by_asc(id)
        .into_tuple()
        .all(snapshot)
        .await?;
    let mut portions: Vec<Vec<i64>> = Vec::new();
    let mut room = 0;
    for (id, length) in found {
        let length = length.unwrap_or(0);
        match portions
            .last_mut()
            .filter(|last| last.len() < ROWS && length <= room)
        {
            Some(last) => last.push(id),
            None => {
                portions.push(vec![id]);
                room = MAX_BATCH_CHARACTERS;
            }
        }
        room -= length;
    }
    Ok(portions)
}

async fn milestones(snapshot: &DatabaseTransaction, group_id: i64, writer: &mut ArchiveWriter) -> Result<()> {
    use milestones::{self, Column, within};

    let all = || within(Scope::Group(group_id));
    for portion in batches(snapshot, all(), Column::Id, Some(Column::Description)).await? {
        let rows = all().filter(Column::Id.is_in(portion)).order_by_asc(Column::Id);
        for row in rows.all(snapshot).await? {
            let record = MilestoneRecord {
                iid: row.iid,
                title: row.title,
                description: row.description,
                state: match row.state {
                    milestones::MilestoneState::Active => MilestoneRecordState::Active,
                    milestones::MilestoneState::Closed => MilestoneRecordState::Closed,
                },
                start_date: row.start_date,
                due_date: row.due_date,
            };
            writer.line(&record).await?;
        }
    }
    Ok(())
}

async fn labels(snapshot: &DatabaseTransaction, group_id: i64, writer: &mut ArchiveWriter) -> Result<()> {
    use labels::{Column, within};

    let all = || within(Scope::Group(group_id));
    for portion in batches(snapshot, all(), Column::Id, Some(Column::Description)).await? {
        let rows = all().filter(Column::Id.is_in(portion)).order_by_asc(Column::Id);
        for row in rows.all(snapshot).await? {
            let record = LabelRecord {
                title: row.title,
                color: row.color,
                description: row.description,
                r#type: Some("GroupLabel".to_owned()),
            };
            writer.line(&record).await?;
        }
    }
    Ok(())
}

async fn badges(snapshot: &DatabaseTransaction, group_id: i64, writer: &mut ArchiveWriter) -> Result<()> {
    let own = badges::inherited_by(Scope::Group(group_id), group_id).order_by_asc(badges::Column::Id);
    // The number of badges is limited, so all of them are loaded.
    for row in own.all(snapshot).await? {
        let record = BadgeRecord {
            name: row.name,
            link_url: row.link_url,
            image_url: row.image_url,
            r#type: Some("GroupBadge".to_owned()),
        };
        writer.line(&record).await?;
    }
    Ok(())
}

async fn members(
    snapshot: &DatabaseTransaction,
    group_id: i64,
    addresses: AddressPolicy,
    writer: &mut ArchiveWriter,
) -> Result<()> {
    let mut after = 0;
    loop {
        let rows = members::of(MembershipSource::Group(group_id), now().date_naive())
            .filter(members::Column::Id.gt(after))
            .limit(ROWS as u64)
            .all(snapshot)
            .await?;
        let Some((last, _)) = rows.last() else {
            return Ok(());
        };
        after = last.id;
        for (row, user) in rows {
            if let Some(user) = user {
                let record = MemberRecord {
                    access_level: i32::from(row.access_level).into(),
                    expires_at: row.expires_at,
                    user: Some(user_record(user, addresses)),
                };
                writer.line(&record).await?;
            }
        }
    }
}

/// Returns the identity of a user in an archive. Group owners can add any user as a member, and must not
/// learn email addresses that way.
fn user_record(user: users::Model, addresses: AddressPolicy) -> UserRecord {
    UserRecord {
        id: user.id,
        username: Some(user.username),
        email: Some(user.email).filter(|_| addresses.all || user.id == addresses.own),
        public_email: user.public_email.filter(|address| !address.is_empty()),
    }
}

/// Returns the titles and colors of the labels of several rows, by an ID of the rows. The description of a label can be
/// long, and many rows can have the same label.
async fn linked_labels<E: EntityTrait + Related<labels::Entity>>(
    snapshot: &DatabaseTransaction,
    links: Select<E>,
    owner: E::Column,
) -> Result<HashMap<i64, Vec<LabelName>>> {
    let title = by_code_points(snapshot.get_database_backend(), labels::Column::Title.into_expr());
    let rows: Vec<(i64, String, String)> = links
        .inner_join(labels::Entity)
        .select_only()
        .column(owner)
        .columns([labels::Column::Title, labels::Column::Color])
        .order_by_asc(title)
        .order_by_asc(labels::Column::Id)
        .into_tuple()
        .all(snapshot)
        .await?;
    let mut found: HashMap<i64, Vec<LabelName>> = HashMap::new();
    for (owner_id, title, color) in rows {
        let color = Some(color);
        found
            .entry(owner_id)
            .or_default()
            .push(LabelName { title, color });
    }
    Ok(found)
}

async fn boards(snapshot: &DatabaseTransaction, group_id: i64, writer: &mut ArchiveWriter) -> Result<()> {
    use boards::{Column, within};

    let all = || within(Scope::Group(group_id));
    for ids in batches(snapshot, all(), Column::Id, None).await? {
        let rows = all().filter(Column::Id.is_in(ids.iter().copied()));
        let rows = rows.order_by_asc(Column::Id).all(snapshot).await?;
        let of_boards = || board_lists::of(ids.iter().copied());
        let lists = of_boards().all(snapshot).await?;
        let mut of_list = linked_labels(snapshot, of_boards(), board_lists::Column::Id).await?;
        let links = board_labels::Column::BoardId.is_in(ids.iter().copied());
        let links = board_labels::Entity::find().filter(links);
        let mut of_board = linked_labels(snapshot, links, board_labels::Column::BoardId).await?;
        let of_lists = lists.iter().filter_map(|list| list.milestone_id);
        let of_boards = rows.iter().filter_map(|board| board.milestone_id);
        let titles = titles(snapshot, of_lists.chain(of_boards).collect()).await?;
        let titled = |id: Option<i64>| {
            let title = titles.get(&id?)?.clone();
            Some(MilestoneName { title })
        };
        let mut on_boards: HashMap<i64, Vec<BoardListRecord>> = HashMap::new();
        for list in lists {
            let on_board = on_boards.entry(list.board_id).or_default();
            on_board.push(BoardListRecord {
                list_type: match (list.label_id, list.milestone_id) {
                    (Some(_), _) => BoardListType::Label,
                    (None, Some(_)) => BoardListType::Milestone,
                    (None, None) => BoardListType::Assignee,
                },
                position: i64::try_from(on_board.len()).ok(),
                label: of_list.remove(&list.id).and_then(|mut names| names.pop()),
                milestone: titled(list.milestone_id),
                user_id: list.assignee_id,
            });
        }
        for row in rows {
            let record = BoardRecord {
                hide_backlog_list: Some(row.hide_backlog_list),
                hide_closed_list: Some(row.hide_closed_list),
                milestone: titled(row.milestone_id),
                assignee_id: row.assignee_id,
                weight: row.weight.map(i64::from),
                labels: BoundedList(of_board.remove(&row.id).unwrap_or_default()),
                lists: BoundedList(on_boards.remove(&row.id).unwrap_or_default()),
                name: row.name,
            };
            writer.line(&record).await?;
        }
    }
    Ok(())
}

/// Returns the titles of milestones, by ID.
async fn titles(snapshot: &DatabaseTransaction, ids: Vec<i64>) -> Result<HashMap<i64, String>> {
    use milestones::{Column, Entity};

    let rows: Vec<(i64, String)> = Entity::find()
        .select_only()
        .columns([Column::Id, Column::Title])
        .filter(Column::Id.is_in(ids))
        .into_tuple()
        .all(snapshot)
        .await?;
    Ok(rows.into_iter().collect())
}

async fn epics(snapshot: &DatabaseTransaction, group_id: i64, writer: &mut ArchiveWriter) -> Result<()> {
    use epics::{Column, Entity};

    let all = || Entity::find().filter(Column::NamespaceId.eq(group_id));
    for ids in batches(snapshot, all(), Column::Id, Some(Column::Description)).await? {
        let rows = all().filter(Column::Id.is_in(ids.iter().copied()));
        let rows = rows.order_by_asc(Column::Id).all(snapshot).await?;
        let links = epic_labels::Entity::find().filter(epic_labels::Column::EpicId.is_in(ids));
        let mut carried = linked_labels(snapshot, links, epic_labels::Column::EpicId).await?;
        for row in rows {
            let labels = carried.remove(&row.id).unwrap_or_default();
            let record = EpicRecord {
                id: row.id,
                iid: row.iid,
                title: row.title,
                description: row.description,
                state: match row.state {
                    issues::IssueState::Opened => EpicRecordState::Opened,
                    issues::IssueState::Closed => EpicRecordState::Closed,
                },
                confidential: row.confidential,
                start_date: row.start_date,
                due_date: row.due_date,
                author_id: row.author_id,
                parent_id: row.parent_id,
                labels: BoundedList(labels),
            };
            writer.line(&record).await?;
        }
    }
    Ok(())
}
