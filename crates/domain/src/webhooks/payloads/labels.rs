//! Size of the labels in a payload, which is checked before they are read.

use sea_orm::{ConnectionTrait, EntityTrait, QuerySelect};
use storage::entities::events::{self, EventTargetType};
use storage::entities::issuables::{IssuableKind, label_titles_of};
use storage::entities::labels::{Column, Entity};
use storage::entities::notes;

use super::changes::all_ids;
use crate::kernel::error::Result;
use crate::kernel::query::total_text_bytes;
use crate::planning::issuables::events::IssuableEventData;

/// Returns the total size in bytes of the descriptions of labels in the payload of an event. A description counts each
/// time that the payload contains it.
///
/// # Errors
/// Returns an error if the database fails.
pub(super) async fn description_bytes(db: &impl ConnectionTrait, event: &events::Model) -> Result<u64> {
    let ids = label_ids(db, event).await?;
    total_text_bytes::<Entity>(db, (Column::Id, Column::Description), &ids).await
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
