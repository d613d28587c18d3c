//! Changed attributes of issues and merge requests. Events contain labels and users by their IDs, and payloads contain
//! the labels and users themselves.

use std::collections::{BTreeMap, HashMap};

use chrono::{DateTime, Utc};
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};
use serde::Serialize;
use serde_json::Value;
use storage::entities::{labels, users};

use super::PayloadContext;
use super::parts::{LabelPart, date};
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::planning::issuables::events::FieldChange;

/// Number of rows per query.
const BATCH_SIZE: usize = 1000;

/// Names of lists of users in events and in payloads.
const USERS: [(&str, &str); 2] = [("assignee_ids", "assignees"), ("reviewer_ids", "reviewers")];
/// Names of attributes with a time.
const TIMES: [&str; 2] = ["closed_at", "updated_at"];

/// Returns the changes of an event for the payload. Labels and users that were deleted after the event are absent.
pub(super) async fn for_receivers(
    backend: &Backend,
    subject: &PayloadContext,
    mut changes: BTreeMap<String, FieldChange>,
) -> Result<BTreeMap<String, FieldChange>> {
    let db = backend.database.read();
    if let Some(change) = changes.remove("label_ids") {
        let mut found = HashMap::new();
        for ids in all_ids(&change).chunks(BATCH_SIZE) {
            let rows = labels::Entity::find().filter(labels::Column::Id.is_in(ids.iter().copied()));
            let rows = rows.all(db).await?.into_iter();
            found.extend(rows.map(|label| (label.id, LabelPart::from(label))));
        }
        changes.insert("labels".to_owned(), with_parts(&change, &found)?);
    }
    for (stored, name) in USERS {
        let Some(change) = changes.remove(stored) else {
            continue;
        };
        let mut found = HashMap::new();
        for ids in all_ids(&change).chunks(BATCH_SIZE) {
            let rows = users::Entity::find().filter(users::Column::Id.is_in(ids.iter().copied()));
            let rows = rows.all(db).await?;
            found.extend(rows.iter().map(|user| (user.id, subject.person_part(user))));
        }
        changes.insert(name.to_owned(), with_parts(&change, &found)?);
    }
    for name in TIMES {
        if let Some(change) = changes.get_mut(name) {
            change.previous = formatted(&change.previous);
            change.current = formatted(&change.current);
        }
    }
    Ok(changes)
}

fn ids_in(value: &Value) -> impl Iterator<Item = i64> {
    value.as_array().into_iter().flatten().filter_map(Value::as_i64)
}

fn all_ids(change: &FieldChange) -> Vec<i64> {
    ids_in(&change.previous).chain(ids_in(&change.current)).collect()
}

/// Replaces the IDs by their parts.
fn with_parts<T: Serialize>(change: &FieldChange, found: &HashMap<i64, T>) -> Result<FieldChange> {
    let list = |ids: &Value| {
        let parts: Vec<&T> = ids_in(ids).filter_map(|id| found.get(&id)).collect();
        serde_json::to_value(parts).map_err(Error::internal)
    };
    Ok(FieldChange {
        previous: list(&change.previous)?,
        current: list(&change.current)?,
    })
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
        let parts = with_parts(&change, &HashMap::from([(2, "b"), (3, "c")])).expect("parts");
        assert_eq!((parts.previous, parts.current), (json!(["b"]), json!(["c"])));
        assert_eq!(all_ids(&change), [1, 2, 3]);
    }
}
