//! Values of responses that are created while they are written.

use serde::ser::Error;
use serde::{Serialize, Serializer};

/// Reason why a value cannot be created.
pub type DeferredError = Box<dyn std::error::Error + Send + Sync>;

/// A value that is created when it is serialized, and dropped afterwards. A response with many values therefore needs
/// memory only for the sources of the values and for its text.
pub struct Deferred<V>(Box<dyn Fn() -> Result<V, DeferredError> + Send + Sync>);

impl<V> Deferred<V> {
    /// Returns the value that `create` creates.
    pub fn new(create: impl Fn() -> Result<V, DeferredError> + Send + Sync + 'static) -> Self {
        Self(Box::new(create))
    }
}

impl<V: Serialize> Serialize for Deferred<V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let value = (self.0)().map_err(S::Error::custom)?;
        value.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_is_created_while_it_is_serialized() {
        let values = vec![Deferred::new(|| Ok(1)), Deferred::new(|| Ok(2))];
        assert_eq!(serde_json::to_string(&values).expect("JSON"), "[1,2]");
        let failed = vec![Deferred::<i64>::new(|| Err("no value".into()))];
        let error = serde_json::to_string(&failed).expect_err("an error");
        assert_eq!(error.to_string(), "no value");
    }
}
