//! Validated input of a request, and its conversion to the generated types.

use std::fmt;

use poem_openapi::types::ParseFromJSON;
use serde_json::{Map, Value};

/// Values by name. They were checked against the operation table and have the types of the contract.
#[derive(Debug, Default)]
pub struct Input(Map<String, Value>);

impl From<Map<String, Value>> for Input {
    fn from(values: Map<String, Value>) -> Self {
        Self(values)
    }
}

impl Input {
    /// Removes a value and converts it.
    ///
    /// # Errors
    /// If the value does not have the type, which is a bug: it was checked.
    pub fn take<T: ParseFromJSON>(&mut self, name: &str) -> Result<T, InputError> {
        let value = T::parse_from_json(self.0.remove(name));
        value.map_err(|error| InputError(format!("{name}: {}", error.into_message())))
    }

    /// Removes an object and converts it.
    ///
    /// # Errors
    /// If the value is not such an object, which is a bug: it was checked.
    pub fn object<T: FromInput>(&mut self, name: &str) -> Result<T, InputError> {
        match self.0.remove(name) {
            Some(Value::Object(values)) => T::from_input(&mut Self(values)),
            _ => Err(InputError(format!("{name}: not an object"))),
        }
    }
}

/// A type that is created from validated input.
pub trait FromInput: Sized {
    /// Removes the fields from the input and converts them.
    ///
    /// # Errors
    /// If a value does not have the type of its field.
    fn from_input(input: &mut Input) -> Result<Self, InputError>;
}

/// The input of an operation without parameters and body.
impl FromInput for () {
    fn from_input(_: &mut Input) -> Result<Self, InputError> {
        Ok(())
    }
}

/// A value that does not have its type although it was checked.
#[derive(Debug)]
pub struct InputError(String);

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InputError {}

#[cfg(test)]
mod tests {
    use poem_openapi::types::MaybeUndefined;
    use serde_json::json;

    use super::*;

    fn input(value: Value) -> Input {
        value.as_object().cloned().expect("an object").into()
    }

    #[test]
    fn take_distinguishes_null_absent_and_values() {
        let mut input = input(json!({"null": null, "value": 1}));
        assert_eq!(
            input.take::<MaybeUndefined<i64>>("null").ok(),
            Some(MaybeUndefined::Null)
        );
        assert_eq!(
            input.take::<MaybeUndefined<i64>>("absent").ok(),
            Some(MaybeUndefined::Undefined)
        );
        assert_eq!(input.take::<Option<i64>>("absent").ok(), Some(None));
        assert_eq!(input.take::<i64>("value").ok(), Some(1));
        assert!(input.take::<i64>("value").is_err());
    }
}
