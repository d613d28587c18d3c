//! Custom attributes.

use storage::entities::custom_attributes::Model;

use contract::CustomAttribute;

/// Returns a custom attribute.
#[must_use]
pub fn custom_attribute(row: &Model) -> CustomAttribute {
    CustomAttribute {
        key: row.key.clone(),
        value: row.value.clone(),
    }
}
