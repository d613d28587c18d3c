//! Memory of rows.

use sea_orm::{EntityTrait, Iterable, ModelTrait, Value};

/// Returns the approximate memory of a row in bytes.
pub fn row_bytes<M: ModelTrait>(row: &M) -> usize {
    let columns = <M::Entity as EntityTrait>::Column::iter();
    let texts = columns.map(|column| match row.get(column) {
        Value::String(Some(text)) => text.len(),
        Value::Bytes(Some(bytes)) => bytes.len(),
        _ => 0,
    });
    size_of::<M>() + texts.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entities::project_topics;

    fn texts_of_a_row_are_counted() {
        let topic = |name: &str| project_topics::Model {
            id: 1,
            project_id: 1,
            name: name.to_owned(),
        };
        assert_eq!(row_bytes(&topic("")), size_of::<project_topics::Model>());
        assert_eq!(row_bytes(&topic("long")) - row_bytes(&topic("")), 4);
    }
    harness::tests![texts_of_a_row_are_counted];
}
