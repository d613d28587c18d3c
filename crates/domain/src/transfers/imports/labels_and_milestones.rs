//! Import of milestones, labels and badges in batches, by the rules for manual creation.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use sea_orm::{
    ActiveValue::Set, ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter, QuerySelect, Select,
};
use storage::entities::iid_counters::{self, IidKind};

use storage::entities::{Scope, badges, fold, labels, milestones, now};

use super::report::ItemKind;
use crate::identity::space_access::SpaceAccess;
use crate::kernel::error::Result;
use crate::planning::labels::{DEFAULT_COLOR, NewLabel, ids_by_title};
use crate::planning::milestones::NewMilestone;
use crate::planning::{labels as of_labels, milestones as of_milestones};
use crate::spaces::badges as of_badges;
use crate::transfers::imports::importer::{Importer, map_insert_error};
use crate::transfers::imports::record_reader::RecordReader;
use parsers::group_archive::layout::Relation;
use parsers::group_archive::records::{
    BadgeRecord, LabelName, LabelRecord, MilestoneRecord, MilestoneRecordState,
};

/// Labels inserted per statement, because databases limit the number of parameters.
const BATCH: usize = 500;

impl Importer<'_> {
    pub(super) async fn import_milestones(
        &mut self,
        transaction: &DatabaseTransaction,
        at: usize,
        space: &SpaceAccess,
    ) -> Result<()> {
        let Some(range) = self.groups[at].records(Relation::Milestones) else {
            return Ok(());
        };
        let mut records = RecordReader::<MilestoneRecord>::new(&mut self.file, range).await?;
        while let Some(batch) = records.next().await? {
            let last = batch.iter().map(|record| record.iid).max().unwrap_or(0);
            let rows: Result<Vec<_>> = batch.into_iter().map(|record| milestone(space, record)).collect();
            let mut rows = rows?;
            let titles = rows.iter().map(|row| row.title.as_ref().as_str());
            let existing_titles = inherited_titles(
                transaction,
                self.above,
                milestones::available,
                milestones::Column::Title,
                titles,
            )
            .await?;
            rows.retain(|row| !existing_titles.contains(row.title.as_ref()));
            for title in existing_titles {
                let reason = "an ancestor group has a milestone with this title, which is used instead";
                self.report
                    .add(ItemKind::Milestone, &self.groups[at].full_path, &title, reason);
            }
            if !rows.is_empty() {
                milestones::Entity::insert_many(rows)
                    .exec_without_returning(transaction)
                    .await
                    .map_err(map_insert_error("a milestone"))?;
            }
            iid_counters::reserve(transaction, space.scope(), IidKind::Milestones, last).await?;
        }
        Ok(())
    }

    pub(super) async fn import_labels(
        &mut self,
        transaction: &DatabaseTransaction,
        at: usize,
        space: &SpaceAccess,
    ) -> Result<()> {
        let Some(range) = self.groups[at].records(Relation::Labels) else {
            return Ok(());
        };
        let mut records = RecordReader::<LabelRecord>::new(&mut self.file, range).await?;
        while let Some(batch) = records.next().await? {
            let rows = batch.into_iter().map(|record| {
                let new = NewLabel {
                    title: record.title,
                    color: record.color,
                    description: record.description,
                    priority: None,
                };
                of_labels::valid_row(space.scope(), new)
            });
            let mut rows: Vec<labels::ActiveModel> = rows.collect::<Result<_>>()?;
            let titles = rows.iter().map(|row| row.title.as_ref().as_str());
            let existing_titles = inherited_titles(
                transaction,
                self.above,
                labels::available,
                labels::Column::Title,
                titles,
            )
            .await?;
            rows.retain(|row| !existing_titles.contains(row.title.as_ref()));
            for title in existing_titles {
                let reason = "an ancestor group has a label with this title, which is used instead";
                self.report
                    .add(ItemKind::Label, &self.groups[at].full_path, &title, reason);
            }
            insert_labels(transaction, rows).await?;
        }
        Ok(())
    }

    pub(super) async fn import_badges(
        &mut self,
        transaction: &DatabaseTransaction,
        at: usize,
        space: &SpaceAccess,
    ) -> Result<()> {
        let Some(range) = self.groups[at].records(Relation::Badges) else {
            return Ok(());
        };
        let mut records = RecordReader::<BadgeRecord>::new(&mut self.file, range).await?;
        while let Some(batch) = records.next().await? {
            let rows = batch.into_iter().map(|record| {
                of_badges::valid_row(space.scope(), record.name, record.link_url, record.image_url)
            });
            badges::Entity::insert_many(rows.collect::<Result<Vec<_>>>()?)
                .exec_without_returning(transaction)
                .await?;
        }
        Ok(())
    }
}

/// Returns the titles that exist in ancestors of the imported group, sorted. Manual creation would reject
/// such a title. Titles may repeat within the archive, because an ancestor's item may be newer than a
/// subgroup's.
async fn inherited_titles<E: EntityTrait>(
    transaction: &DatabaseTransaction,
    above: Option<i64>,
    available: fn(Scope, i64) -> Select<E>,
    title: E::Column,
    titles: impl Iterator<Item = &str>,
) -> Result<BTreeSet<String>> {
    let Some(above) = above else {
        return Ok(BTreeSet::new());
    };
    let found: Vec<String> = available(Scope::Group(above), above)
        .filter(title.is_in(titles))
        .select_only()
        .column(title)
        .into_tuple()
        .all(transaction)
        .await?;
    Ok(found.into_iter().collect())
}

fn milestone(space: &SpaceAccess, record: MilestoneRecord) -> Result<milestones::ActiveModel> {
    let folded = record
        .description
        .as_deref()
        .filter(|text| !text.is_empty())
        .map(fold);
    let new = NewMilestone {
        title: record.title,
        description: record.description,
        start_date: record.start_date,
        due_date: record.due_date,
    };
    let row = of_milestones::valid_row(new)?;
    let at = now();
    Ok(milestones::ActiveModel {
        namespace_id: Set(space.scope().namespace_id()),
        iid: Set(record.iid),
        title_key: Set(fold(row.title.as_ref())),
        description_key: Set(folded),
        state: Set(match record.state {
            MilestoneRecordState::Active => milestones::MilestoneState::Active,
            MilestoneRecordState::Closed => milestones::MilestoneState::Closed,
        }),
        created_at: Set(at),
        updated_at: Set(at),
        ..row
    })
}

async fn insert_labels(transaction: &DatabaseTransaction, rows: Vec<labels::ActiveModel>) -> Result<()> {
    for some in rows.chunks(BATCH) {
        labels::Entity::insert_many(some.to_vec())
            .exec_without_returning(transaction)
            .await
            .map_err(map_insert_error("a label"))?;
    }
    Ok(())
}

/// Returns the IDs of labels by title. The group takes precedence over its ancestors. A label that is not
/// found belonged to an ancestor of the exported group and is created.
pub async fn labels_named<'a>(
    transaction: &DatabaseTransaction,
    space: &SpaceAccess,
    names: impl Iterator<Item = &'a LabelName>,
) -> Result<HashMap<String, i64>> {
    let mut names_by_title: BTreeMap<&str, &LabelName> = BTreeMap::new();
    for name in names {
        let known = names_by_title.entry(name.title.trim()).or_insert(name);
        if known.color.is_none() {
            *known = name;
        }
    }
    let titles: Vec<&str> = names_by_title.keys().copied().collect();
    let mut known = ids_by_title(transaction, space, &titles).await?;
    let unknown: Vec<_> = names_by_title
        .iter()
        .filter(|(title, _)| !known.contains_key(**title))
        .collect();
    if !unknown.is_empty() {
        let rows = unknown.iter().map(|(_, name)| {
            let new = NewLabel {
                title: name.title.clone(),
                color: name.color.clone().unwrap_or_else(|| DEFAULT_COLOR.to_owned()),
                description: None,
                priority: None,
            };
            of_labels::valid_row(space.scope(), new)
        });
        insert_labels(transaction, rows.collect::<Result<_>>()?).await?;
        let titles: Vec<&str> = unknown.iter().map(|(title, _)| **title).collect();
        known.extend(ids_by_title(transaction, space, &titles).await?);
    }
    Ok(known)
}
