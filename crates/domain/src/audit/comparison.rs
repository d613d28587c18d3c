//! Events of changed columns.

use sea_orm::{IdenStatic, ModelTrait, Value};

use super::event::{AuditEntity, AuditEvent, AuditTarget};
use super::kinds::AuditKind;

type ColumnOf<M> = <<M as ModelTrait>::Entity as sea_orm::EntityTrait>::Column;

/// Returns an event for each of these columns whose value changed. The columns must not contain secrets.
#[must_use]
pub fn changes<M: ModelTrait>(
    kind: AuditKind,
    entity: &AuditEntity,
    before: &M,
    after: &M,
    columns: &[ColumnOf<M>],
) -> Vec<AuditEvent> {
    let mut events = Vec::new();
    for column in columns {
        let (former, current) = (before.get(*column), after.get(*column));
        if former == current {
            continue;
        }
        let event = AuditEvent::new(kind, entity.clone(), AuditTarget::from(entity));
        events.push(
            event
                .attribute(column.as_str())
                .from(text(&former))
                .to(text(&current)),
        );
    }
    events
}

/// Returns a value as text, or an empty string if there is no value.
fn text(value: &Value) -> String {
    match value {
        Value::Bool(Some(value)) => value.to_string(),
        Value::SmallInt(Some(value)) => value.to_string(),
        Value::Int(Some(value)) => value.to_string(),
        Value::BigInt(Some(value)) => value.to_string(),
        Value::String(Some(value)) => value.to_string(),
        Value::ChronoDate(Some(value)) => value.to_string(),
        Value::ChronoDateTimeUtc(Some(value)) => value.to_rfc3339(),
        _ => String::new(),
    }
}
