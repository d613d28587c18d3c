//! Import of boards with their lists. Referenced labels and milestones are looked up in the group and its
//! ancestors.

use std::collections::{HashMap, HashSet};

use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter,
    QuerySelect,
};
use storage::entities::{board_labels, board_lists, boards, milestones, namespace_ancestors, now};

use super::report::ItemKind;
use crate::identity::space_access::SpaceAccess;
use crate::kernel::error::{Error, Result};
use crate::kernel::policy::InstancePlan;
use crate::planning::boards::{check_member, lists, valid_row};
use crate::transfers::imports::importer::Importer;
use crate::transfers::imports::labels_and_milestones::labels_named;
use crate::transfers::imports::record_reader::RecordReader;
use parsers::group_archive::layout::Relation;
use parsers::group_archive::records::{BoardListRecord, BoardListType, BoardRecord, MilestoneName};

/// Resources that the boards of a group reference, by their keys in the archive.
struct BoardReferences {
    labels: HashMap<String, i64>,
    milestones: HashMap<String, i64>,
    /// The users who have a role in the group.
    users: HashMap<i64, i64>,
}

impl BoardReferences {
    fn milestone(&self, name: &MilestoneName) -> Option<i64> {
        self.milestones.get(&name.title).copied()
    }

    /// Returns the subject of a list, as label, milestone and user columns.
    fn subject(&self, list: &BoardListRecord) -> Option<(Option<i64>, Option<i64>, Option<i64>)> {
        let label = || self.labels.get(list.label.as_ref()?.title.trim()).copied();
        let milestone = || self.milestone(list.milestone.as_ref()?);
        let user = || self.users.get(&list.user_id?).copied();
        match list.list_type {
            BoardListType::Label => label().map(|id| (Some(id), None, None)),
            BoardListType::Milestone => milestone().map(|id| (None, Some(id), None)),
            BoardListType::Assignee => user().map(|id| (None, None, Some(id))),
            BoardListType::Other => None,
        }
    }
}

impl Importer<'_> {
    pub(super) async fn import_boards(
        &mut self,
        transaction: &DatabaseTransaction,
        at: usize,
        space: &SpaceAccess,
    ) -> Result<()> {
        let Some(range) = self.groups[at].records(Relation::Boards) else {
            return Ok(());
        };
        let mut all = Vec::new();
        let mut records = RecordReader::<BoardRecord>::new(&mut self.file, range).await?;
        // Their number and sizes are limited, so all of them are loaded.
        while let Some(batch) = records.next().await? {
            all.extend(batch);
        }
        let named = self.named(transaction, space, &all).await?;
        for board in all {
            self.import_board(transaction, at, space, &named, board).await?;
        }
        Ok(())
    }

    async fn named(
        &self,
        transaction: &DatabaseTransaction,
        space: &SpaceAccess,
        all: &[BoardRecord],
    ) -> Result<BoardReferences> {
        let lists = || all.iter().flat_map(|board| &board.lists.0);
        let of_boards = all.iter().flat_map(|board| &board.labels.0);
        let of_lists = lists().filter_map(|list| list.label.as_ref());
        let labels = labels_named(transaction, space, of_boards.chain(of_lists)).await?;
        let of_boards = all.iter().filter_map(|board| board.milestone.as_ref());
        let of_lists = lists().filter_map(|list| list.milestone.as_ref());
        let titles: HashSet<&str> = of_boards
            .chain(of_lists)
            .map(|milestone| milestone.title.as_str())
            .collect();
        let of_boards = all.iter().filter_map(|board| board.assignee_id);
        let user_sources: HashSet<i64> = of_boards.chain(lists().filter_map(|list| list.user_id)).collect();
        let mut users = HashMap::new();
        for source in user_sources {
            let Some(user_id) = self.user_ids.get(&source).copied() else {
                continue;
            };
            match check_member(transaction, space, Some(user_id)).await {
                Ok(()) => drop(users.insert(source, user_id)),
                Err(Error::Rejected(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(BoardReferences {
            labels,
            milestones: milestones_named(transaction, space, titles).await?,
            users,
        })
    }

    async fn import_board(
        &mut self,
        transaction: &DatabaseTransaction,
        at: usize,
        space: &SpaceAccess,
        named: &BoardReferences,
        mut record: BoardRecord,
    ) -> Result<()> {
        let path = self.groups[at].full_path.as_str();
        let report = &mut self.report;
        let narrowed = self.backend.instance.plan >= InstancePlan::Premium;
        let narrows = record.milestone.is_some()
            || record.assignee_id.is_some()
            || record.weight.is_some()
            || !record.labels.0.is_empty();
        if narrows && !narrowed {
            let reason = "the plan of this server does not include board filters";
            report.add(ItemKind::Board, path, &record.name, reason);
            record.labels.0.clear();
        }
        let milestone = record.milestone.as_ref().filter(|_| narrowed);
        let milestone_id = milestone.and_then(|name| named.milestone(name));
        if let Some(milestone) = milestone.filter(|_| milestone_id.is_none()) {
            let reason = "the milestone of the board filter is not in the archive";
            report.add(ItemKind::Milestone, path, &milestone.title, reason);
        }
        let assignee = record.assignee_id.filter(|_| narrowed);
        let assignee_id = assignee.and_then(|source| named.users.get(&source).copied());
        if assignee.is_some() && assignee_id.is_none() {
            let reason = "the assignee of the board filter is not a member of the group";
            report.add(ItemKind::Board, path, &record.name, reason);
        }
        let weight = record.weight.filter(|_| narrowed);
        if weight.is_some_and(|weight| weight < 0) {
            let reason = "the weight of the board filter is negative";
            report.add(ItemKind::Board, path, &record.name, reason);
        }
        let weight = weight
            .filter(|weight| *weight >= 0)
            .map(i32::try_from)
            .transpose();
        let row = boards::ActiveModel {
            hide_backlog_list: Set(record.hide_backlog_list.unwrap_or(false)),
            hide_closed_list: Set(record.hide_closed_list.unwrap_or(false)),
            milestone_id: Set(milestone_id),
            assignee_id: Set(assignee_id),
            weight: Set(weight.map_err(|_| Error::parameter("weight is invalid"))?),
            ..valid_row(space.scope(), &record.name)?
        };
        let board = row.insert(transaction).await?;
        let labels: HashSet<i64> = record
            .labels
            .0
            .iter()
            .filter_map(|label| named.labels.get(label.title.trim()).copied())
            .collect();
        if !labels.is_empty() {
            let rows = labels.into_iter().map(|label_id| board_labels::ActiveModel {
                board_id: Set(board.id),
                label_id: Set(label_id),
                ..Default::default()
            });
            board_labels::Entity::insert_many(rows)
                .exec_without_returning(transaction)
                .await?;
        }
        self.import_lists(transaction, at, named, board.id, record).await
    }

    async fn import_lists(
        &mut self,
        transaction: &DatabaseTransaction,
        at: usize,
        named: &BoardReferences,
        board_id: i64,
        record: BoardRecord,
    ) -> Result<()> {
        let path = self.groups[at].full_path.as_str();
        let premium = self.backend.instance.plan >= InstancePlan::Premium;
        let mut listed = record.lists.0;
        listed.retain(|list| list.list_type != BoardListType::Other);
        listed.sort_by_key(|list| list.position);
        let (mut seen, mut rows) = (HashSet::new(), Vec::new());
        for list in listed {
            let mut skip_list = |reason: &str| self.report.add(ItemKind::List, path, &record.name, reason);
            if list.list_type != BoardListType::Label && !premium {
                skip_list("the plan of this server does not include milestone and assignee lists");
                continue;
            }
            let Some(subject) = named.subject(&list) else {
                skip_list("the label, milestone or user of the list does not exist in the group");
                continue;
            };
            if !seen.insert(subject) || rows.len() >= lists::MAX_LISTS {
                skip_list("the board already has this list or the maximum number of lists");
                continue;
            }
            let at = now();
            rows.push(board_lists::ActiveModel {
                board_id: Set(board_id),
                label_id: Set(subject.0),
                milestone_id: Set(subject.1),
                assignee_id: Set(subject.2),
                position: Set(i32::try_from(rows.len()).unwrap_or(i32::MAX)),
                created_at: Set(at),
                updated_at: Set(at),
                ..Default::default()
            });
        }
        if !rows.is_empty() {
            board_lists::Entity::insert_many(rows)
                .exec_without_returning(transaction)
                .await?;
        }
        Ok(())
    }
}

/// Returns the IDs of milestones by title. The group takes precedence over its ancestors, nearest first.
async fn milestones_named(
    transaction: &DatabaseTransaction,
    space: &SpaceAccess,
    titles: HashSet<&str>,
) -> Result<HashMap<String, i64>> {
    if titles.is_empty() {
        return Ok(HashMap::new());
    }
    let group_id = space.namespace.id;
    let above = namespace_ancestors::of(transaction, group_id).await?;
    // Descriptions of milestones can be long and are not read.
    let mut found: Vec<(i64, String, Option<i64>)> = milestones::available(space.scope(), group_id)
        .select_only()
        .columns([
            milestones::Column::Id,
            milestones::Column::Title,
            milestones::Column::NamespaceId,
        ])
        .filter(milestones::Column::Title.is_in(titles))
        .into_tuple()
        .all(transaction)
        .await?;
    let distance = |id: Option<i64>| above.iter().position(|row| Some(row.ancestor_id) == id);
    // The nearest one comes last and overwrites the others.
    found.sort_by_key(|(_, _, namespace_id)| std::cmp::Reverse(distance(*namespace_id)));
    let found = found.into_iter().map(|(id, title, _)| (title, id));
    Ok(found.collect())
}
