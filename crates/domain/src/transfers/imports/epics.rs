//! Import of epics with their labels and parents.

use std::collections::HashMap;

use sea_orm::sea_query::{CaseStatement, Expr};
use sea_orm::{ActiveValue::Set, ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter, QuerySelect};
use storage::entities::epics::{ActiveModel, Column, Entity};
use storage::entities::iid_counters::{self, IidKind};
use storage::entities::issues::IssueState;
use storage::entities::{epic_labels, fold, now};

use super::report::ItemKind;
use crate::identity::space_access::SpaceAccess;
use crate::kernel::error::Result;
use crate::kernel::policy::InstancePlan;
use crate::planning::epics::{NewEpic, valid_row};
use crate::transfers::imports::archive::ByteRange;
use crate::transfers::imports::importer::{Importer, map_insert_error};
use crate::transfers::imports::labels_and_milestones::labels_named;
use crate::transfers::imports::record_reader::RecordReader;
use parsers::group_archive::layout::Relation;
use parsers::group_archive::records::{EpicRecord, EpicRecordState};

impl Importer<'_> {
    pub(super) async fn import_epics(
        &mut self,
        transaction: &DatabaseTransaction,
        at: usize,
        space: &SpaceAccess,
    ) -> Result<()> {
        let Some(range) = self.groups[at].records(Relation::Epics) else {
            return Ok(());
        };
        if self.backend.instance.plan < InstancePlan::Premium {
            let reason = "the plan of this server does not include epics";
            let path = &self.groups[at].full_path;
            self.report.add(ItemKind::Relation, path, "epics", reason);
            return Ok(());
        }
        let mut records = RecordReader::<EpicRecord>::new(&mut self.file, range).await?;
        while let Some(batch) = records.next().await? {
            let (path, report) = (&self.groups[at].full_path, &mut self.report);
            let names = batch.iter().flat_map(|record| &record.labels.0);
            let labels = labels_named(transaction, space, names).await?;
            let (mut rows, mut carried) = (Vec::new(), HashMap::new());
            for record in batch {
                let author = record
                    .author_id
                    .and_then(|source| self.user_ids.get(&source).copied());
                if record.author_id.is_some() && author.is_none() {
                    let reason = "the author is unknown; the importing user is set as the author";
                    report.add(ItemKind::Epic, path, &record.title, reason);
                }
                let titles = record.labels.0.iter().map(|label| label.title.trim());
                let mut ids: Vec<i64> = titles.filter_map(|title| labels.get(title).copied()).collect();
                ids.sort_unstable();
                ids.dedup();
                carried.insert(record.iid, ids);
                rows.push(epic(
                    space,
                    record,
                    author.unwrap_or(self.importer),
                    self.importer,
                )?);
            }
            let numbers: Vec<i64> = carried.keys().copied().collect();
            Entity::insert_many(rows)
                .exec_without_returning(transaction)
                .await
                .map_err(map_insert_error("an epic"))?;
            let last = numbers.iter().copied().max().unwrap_or(0);
            iid_counters::reserve(transaction, space.scope(), IidKind::Epics, last).await?;
            add_labels(transaction, space.namespace.id, numbers, carried).await?;
        }
        self.relate(transaction, at, space.namespace.id, range).await
    }

    /// Sets the parents of epics after all epics exist.
    async fn relate(
        &mut self,
        transaction: &DatabaseTransaction,
        at: usize,
        group_id: i64,
        range: ByteRange,
    ) -> Result<()> {
        let mut records = RecordReader::<EpicRecord>::new(&mut self.file, range).await?;
        while let Some(batch) = records.next().await? {
            let parts = batch
                .iter()
                .filter_map(|record| Some((record, record.parent_id?)));
            let mut parents_by_group: HashMap<i64, Vec<i64>> = HashMap::new();
            let mut related = Vec::new();
            for (record, parent) in parts {
                let parent = self.epics.get(&parent);
                let above = parent.and_then(|name| Some((*self.nodes.get(&name.group_id)?, name.iid)));
                match above {
                    Some((group, iid)) => {
                        parents_by_group.entry(group).or_default().push(iid);
                        related.push((record.iid, (group, iid)));
                    }
                    None => {
                        let path = &self.groups[at].full_path;
                        let reason = "the parent epic is not in the archive";
                        self.report.add(ItemKind::Epic, path, &record.title, reason);
                    }
                }
            }
            let mut ids = HashMap::new();
            for (group, numbers) in parents_by_group {
                let found = epics_by_iid(transaction, group, numbers).await?;
                ids.extend(found.into_iter().map(|(iid, id)| ((group, iid), id)));
            }
            // A parent that was deleted meanwhile is skipped.
            let known = |(iid, parent)| Some((iid, ids.get(&parent).copied()?));
            let parents: Vec<(i64, i64)> = related.into_iter().filter_map(known).collect();
            set_parents(transaction, group_id, &parents).await?;
        }
        Ok(())
    }
}

/// Sets the parents of epics of a group in one statement. Epics are given by IID, parents by ID.
async fn set_parents(transaction: &DatabaseTransaction, group_id: i64, parents: &[(i64, i64)]) -> Result<()> {
    if parents.is_empty() {
        return Ok(());
    }
    let case = parents.iter().fold(CaseStatement::new(), |case, (iid, parent)| {
        case.case(Column::Iid.eq(*iid), *parent)
    });
    Entity::update_many()
        .col_expr(Column::ParentId, case.finally(Expr::col(Column::ParentId)).into())
        .filter(Column::NamespaceId.eq(group_id))
        .filter(Column::Iid.is_in(parents.iter().map(|(iid, _)| *iid)))
        .exec(transaction)
        .await?;
    Ok(())
}

fn epic(space: &SpaceAccess, record: EpicRecord, author: i64, importer: i64) -> Result<ActiveModel> {
    let folded = record
        .description
        .as_deref()
        .filter(|text| !text.is_empty())
        .map(fold);
    let new = NewEpic {
        title: record.title,
        description: record.description,
        start_date: record.start_date,
        due_date: record.due_date,
        confidential: record.confidential,
        ..NewEpic::default()
    };
    let closed = record.state == EpicRecordState::Closed;
    let row = valid_row(space.namespace.id, new)?;
    let at = now();
    Ok(ActiveModel {
        iid: Set(record.iid),
        author_id: Set(Some(author)),
        title_key: Set(fold(row.title.as_ref())),
        description_key: Set(folded),
        state: Set(if closed {
            IssueState::Closed
        } else {
            IssueState::Opened
        }),
        closed_at: Set(closed.then_some(at)),
        closed_by_id: Set(closed.then_some(importer)),
        created_at: Set(at),
        updated_at: Set(at),
        ..row
    })
}

/// Returns the IDs of epics of a group by IID.
async fn epics_by_iid(
    transaction: &DatabaseTransaction,
    group_id: i64,
    numbers: Vec<i64>,
) -> Result<Vec<(i64, i64)>> {
    let rows = Entity::find()
        .select_only()
        .columns([Column::Iid, Column::Id])
        .filter(Column::NamespaceId.eq(group_id))
        .filter(Column::Iid.is_in(numbers));
    Ok(rows.into_tuple().all(transaction).await?)
}

/// Adds labels to epics of a group, given by IID.
async fn add_labels(
    transaction: &DatabaseTransaction,
    group_id: i64,
    numbers: Vec<i64>,
    mut carried: HashMap<i64, Vec<i64>>,
) -> Result<()> {
    carried.retain(|_, labels| !labels.is_empty());
    if carried.is_empty() {
        return Ok(());
    }
    let mut rows = Vec::new();
    for (iid, epic_id) in epics_by_iid(transaction, group_id, numbers).await? {
        let labels = carried.remove(&iid).unwrap_or_default();
        rows.extend(labels.into_iter().map(|label_id| epic_labels::ActiveModel {
            epic_id: Set(epic_id),
            label_id: Set(label_id),
            ..Default::default()
        }));
    }
    epic_labels::Entity::insert_many(rows)
        .exec_without_returning(transaction)
        .await?;
    Ok(())
}
