//! Changed attributes of issues and merge requests. Events contain labels and users by their IDs, and payloads contain
//! the labels and users themselves.

use std::collections::{BTreeMap, HashMap};

use chrono::{DateTime, Utc};
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};
use serde::Serialize;
use serde_json::Value;
use storage::entities::{labels, users};

use super::PayloadContext;
use super::parts::{LabelPart, Shared, UserPart, date};
use crate::kernel::Backend;
use crate::kernel::error::Result;
use crate::planning::issuables::events::FieldChange;

/// Number of rows per query.
const BATCH_SIZE: usize = 1000;

/// Names of lists of users in events and in payloads.
const USERS: [(&str, &str); 2] = [("assignee_ids", "assignees"), ("reviewer_ids", "reviewers")];
/// Names of attributes with a time.
const TIMES: [&str; 2] = ["closed_at", "updated_at"];

/// A changed attribute.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum ChangePart {
    Values(FieldChange),
    Labels(ListChange<LabelPart>),
    Users(ListChange<UserPart>),
}

/// Previous and current elements of a list.
#[derive(Debug, Serialize)]
pub(super) struct ListChange<T> {
    previous: Vec<Shared<T>>,
    current: Vec<Shared<T>>,
}

/// Returns the changes of an event for the payload. Labels and users that were deleted after the event are absent.
pub(super) async fn for_receivers(
    backend: &Backend,
    subject: &PayloadContext,
    mut changes: BTreeMap<String, FieldChange>,
) -> Result<BTreeMap<String, ChangePart>> {
    let db = backend.database.read();
    let mut parts = BTreeMap::new();
    if let Some(change) = changes.remove("label_ids") {
        let mut found = HashMap::new();
        for ids in all_ids(&change).chunks(BATCH_SIZE) {
            let rows = labels::Entity::find().filter(labels::Column::Id.is_in(ids.iter().copied()));
            let rows = rows.all(db).await?.into_iter();
            found.extend(rows.map(|label| (label.id, Shared::new(LabelPart::from(label)))));
        }
        parts.insert(
            "labels".to_owned(),
            ChangePart::Labels(with_parts(&change, &found)),
        );
    }
    for (stored, name) in USERS {
        let Some(change) = changes.remove(stored) else {
            continue;
        };
        let mut found = HashMap::new();
        for ids in all_ids(&change).chunks(BATCH_SIZE) {
            let rows = users::Entity::find().filter(users::Column::Id.is_in(ids.iter().copied()));
            let rows = rows.all(db).await?;
            let users = rows.iter().map(|user| (user.id, subject.person_part(user)));
            found.extend(users.map(|(id, user)| (id, Shared::new(user))));
        }
        parts.insert(name.to_owned(), ChangePart::Users(with_parts(&change, &found)));
    }
    for name in TIMES {
        if let Some(change) = changes.get_mut(name) {
            change.previous = formatted(&change.previous);
            change.current = formatted(&change.current);
        }
    }
    parts.extend(
        changes
            .into_iter()
            .map(|(name, change)| (name, ChangePart::Values(change))),
    );
    Ok(parts)
}

fn ids_in(value: &Value) -> impl Iterator<Item = i64> {
    value.as_array().into_iter().flatten().filter_map(Value::as_i64)
}

/// Returns the IDs in the previous and in the current list.
pub(super) fn all_ids(change: &FieldChange) -> Vec<i64> {
    ids_in(&change.previous).chain(ids_in(&change.current)).collect()
}

/// Replaces the IDs by their parts.
fn with_parts<T>(change: &FieldChange, found: &HashMap<i64, Shared<T>>) -> ListChange<T> {
    let list = |ids: &Value| ids_in(ids).filter_map(|id| found.get(&id).cloned()).collect();
    ListChange {
        previous: list(&change.previous),
        current: list(&change.current),
    }
}

/// Formats a time as in `object_attributes`.
fn formatted(time: &Value) -> Value {
    let parsed = time.as_str().and_then(|text| text.parse::<DateTime<Utc>>().ok());
    parsed.map_or_else(|| time.clone(), |time| date(time).into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn times_have_the_form_of_the_attributes() {
        assert_eq!(
            formatted(&json!("2026-01-31T12:00:00.123Z")),
            "2026-01-31 12:00:00 UTC"
        );
        assert_eq!(formatted(&Value::Null), Value::Null);
    }

    #[test]
    fn ids_of_deleted_rows_are_omitted() {
        let change = FieldChange {
            previous: json!([1, 2]),
            current: json!([3]),
        };
        let found = HashMap::from([(2, Shared::new("b")), (3, Shared::new("c"))]);
        let parts = serde_json::to_value(with_parts(&change, &found)).expect("JSON");
        assert_eq!(parts, json!({ "previous": ["b"], "current": ["c"] }));
        assert_eq!(all_ids(&change), [1, 2, 3]);
    }
}
