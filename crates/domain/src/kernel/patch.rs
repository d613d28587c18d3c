//! Attributes of updates that can be left out, cleared or set.

use sea_orm::{ActiveValue, Value};

/// A change to an attribute that can be null.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Patch<T> {
    /// The attribute was not sent and keeps its value.
    #[default]
    Keep,
    /// The attribute becomes null.
    Clear,
    /// The attribute gets this value.
    Set(T),
}

impl<T> Patch<T> {
    /// Sets the attribute if there is a value, and keeps it otherwise.
    pub fn set_if_some(value: Option<T>) -> Self {
        value.map_or(Self::Keep, Self::Set)
    }

    /// Returns whether the attribute was not sent.
    pub fn is_keep(&self) -> bool {
        matches!(self, Self::Keep)
    }

    /// Returns the value to set, if any.
    pub fn value(&self) -> Option<&T> {
        match self {
            Self::Set(value) => Some(value),
            Self::Keep | Self::Clear => None,
        }
    }

    /// Returns the value to set, if any.
    pub fn into_value(self) -> Option<T> {
        match self {
            Self::Set(value) => Some(value),
            Self::Keep | Self::Clear => None,
        }
    }

    /// Converts the value to set.
    pub fn map<U>(self, convert: impl FnOnce(T) -> U) -> Patch<U> {
        match self {
            Self::Keep => Patch::Keep,
            Self::Clear => Patch::Clear,
            Self::Set(value) => Patch::Set(convert(value)),
        }
    }

    /// Returns `None` to keep the attribute, and the new value, which can be null, otherwise.
    pub fn into_update(self) -> Option<Option<T>> {
        match self {
            Self::Keep => None,
            Self::Clear => Some(None),
            Self::Set(value) => Some(Some(value)),
        }
    }

    /// Returns [`Patch::into_update`] by reference.
    pub fn as_update(&self) -> Option<Option<&T>> {
        match self {
            Self::Keep => None,
            Self::Clear => Some(None),
            Self::Set(value) => Some(Some(value)),
        }
    }

    /// Writes the change to a column.
    pub fn apply_to(self, column: &mut ActiveValue<Option<T>>)
    where
        Option<T>: Into<Value>,
    {
        if let Some(value) = self.into_update() {
            *column = ActiveValue::Set(value);
        }
    }
}

/// Writes a value to a column, if there is one.
pub fn assign<T: Into<Value>>(column: &mut ActiveValue<T>, value: Option<T>) {
    if let Some(value) = value {
        *column = ActiveValue::Set(value);
    }
}
