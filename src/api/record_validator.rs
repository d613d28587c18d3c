//! Checks of imported archives against the contract.

use contract::table;
use domain::kernel::record_validator::RecordValidator;
use serde_json::{Map, Value};

use crate::api::parameters;

/// Checks records of imported archives against the contract.
#[derive(Debug)]
pub struct ContractValidator;

impl RecordValidator for ContractValidator {
    fn body_faults(&self, operation_id: &str, attributes: Map<String, Value>) -> Vec<String> {
        let operation = table::operation(operation_id);
        operation.map_or_else(Vec::new, |operation| {
            parameters::body_faults(operation, attributes)
        })
    }
}
