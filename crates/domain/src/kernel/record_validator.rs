//! Validation of records that do not come from a request.

use serde_json::{Map, Value};

/// Checks records of an archive against the rules for request bodies.
pub trait RecordValidator: Send + Sync {
    /// Returns the faults of a request body of an operation, or nothing if it is valid or the operation takes no body.
    fn body_faults(&self, operation_id: &str, attributes: Map<String, Value>) -> Vec<String>;
}
