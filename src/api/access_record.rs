//! The user and the operation of a request for the access log. Only the endpoint knows them.

use std::sync::{Arc, OnceLock};

use contract::operation::Operation;
use poem::Request;

/// The user and the operation of one request; attached to every request. Clones refer to the same request.
#[derive(Clone, Default)]
pub struct AccessRecord(Arc<AccessRecordParts>);

#[derive(Default)]
struct AccessRecordParts {
    user_id: OnceLock<i64>,
    operation: OnceLock<&'static Operation>,
}

impl AccessRecord {
    /// Returns the ID of the authenticated user.
    pub fn user_id(&self) -> Option<i64> {
        self.0.user_id.get().copied()
    }

    /// Returns the operation; `None` for endpoints outside of the contract.
    pub fn operation(&self) -> Option<&'static Operation> {
        self.0.operation.get().copied()
    }
}

/// Records the authenticated user of a request. A request has one user, so further calls have no effect.
pub fn record_user(request: &Request, id: i64) {
    if let Some(record) = request.data::<AccessRecord>() {
        let _ = record.0.user_id.set(id);
    }
}

/// Records the operation of a request.
pub fn record_operation(request: &Request, operation: &'static Operation) {
    if let Some(record) = request.data::<AccessRecord>() {
        let _ = record.0.operation.set(operation);
    }
}
