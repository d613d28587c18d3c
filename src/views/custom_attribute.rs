//! Custom attributes.

use crate::api::contract::CustomAttribute;
use crate::entities::custom_attributes::Model;

/// Returns a custom attribute.
#[must_use]
pub fn custom_attribute(row: &Model) -> CustomAttribute {
    CustomAttribute {
        key: row.key.clone(),
        value: row.value.clone(),
    }
}
