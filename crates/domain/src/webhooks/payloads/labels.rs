//! Size of the labels in a payload, which is checked before they are read.

use std::collections::{BTreeSet, HashMap};

use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QuerySelect};
use storage::entities::events::{self, EventTargetType};
use storage::entities::issuables::{IssuableKind, label_titles_of};
use storage::entities::labels::{Column, Entity};
use storage::entities::notes;

use super::changes::{BATCH_SIZE, all_ids};
use crate::kernel::error::Result;
use crate::kernel::query::text_bytes;
use crate::planning::issuables::events::IssuableEventData;

/// Returns the total size in bytes of the descriptions of labels in the payload of an event. A description counts each
/// time that the payload contains it.
///
/// # Errors
/// Returns an error if the database fails.
pub(super) async fn description_bytes(db: &impl ConnectionTrait, event: &events::Model) -> Result<u64> {
    let ids = label_ids(db, event).await?;
    let distinct: Vec<i64> = BTreeSet::from_iter(ids.iter().copied()).into_iter().collect();
    let mut sizes = HashMap::new();
    for batch in distinct.chunks(BATCH_SIZE) {
        let rows: Vec<(i64, Option<i64>)> = Entity::find()
            .select_only()
            .column(Column::Id)
            .column_as(text_bytes(Expr::col(Column::Description)), "size")
            .filter(Column::Id.is_in(batch.iter().copied()))
            .into_tuple()
            .all(db)
            .await?;
        let rows = rows.into_iter();
        sizes
            .extend(rows.map(|(id, size)| (id, u64::try_from(size.unwrap_or_default()).unwrap_or_default())));
    }
    Ok(ids.iter().filter_map(|id| sizes.get(id)).sum())
}

/// Returns the IDs of the labels in the payload of an event, each as often as the payload contains the label.
async fn label_ids(db: &impl ConnectionTrait, event: &events::Model) -> Result<Vec<i64>> {
    let (kind, id, copies) = match (event.target_type, event.target_id) {
        // The payload and the attributes of the issue contain the labels.
        (Some(EventTargetType::Issue), Some(id)) => (IssuableKind::Issue, id, 2),
        (Some(EventTargetType::MergeRequest), Some(id)) => (IssuableKind::MergeRequest, id, 1),
        (Some(EventTargetType::Note), Some(id)) => {
            let issue_id: Option<Option<i64>> = notes::Entity::find_by_id(id)
                .select_only()
                .column(notes::Column::IssueId)
                .into_tuple()
                .one(db)
                .await?;
            let Some(issue_id) = issue_id.flatten() else {
                return Ok(Vec::new());
            };
            (IssuableKind::Issue, issue_id, 1)
        }
        _ => return Ok(Vec::new()),
    };
    let present = label_titles_of(db, kind, id).await?;
    let present: Vec<i64> = present.into_iter().map(|(id, _)| id).collect();
    let mut ids = present.repeat(copies);
    let data = event.data.as_deref().unwrap_or_default();
    // Notes have other data.
    if let Ok(data) = serde_json::from_str::<IssuableEventData>(data)
        && let Some(change) = data.changes.get("label_ids")
    {
        ids.extend(all_ids(change));
    }
    Ok(ids)
}
